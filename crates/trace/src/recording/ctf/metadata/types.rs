// SPDX-License-Identifier: GPL-2.0-only
//! Parses the types of fields in the metadata of a CTF trace.

use super::declarations::order;
use super::tokens::{Parser, Token, number};
use super::{Integer, Type, alignment};
use crate::recording::damage::Damage;
use crate::recording::input::MAX_PART;
use std::rc::Rc;

/// Maximum depth of types in types.
const MAX_DEPTH: u32 = 32;

impl Parser {
    /// Parses "typealias TYPE := NAME;", "typedef TYPE NAME;" or a struct, variant or enum.
    pub fn type_declaration(&mut self) -> Result<(), Damage> {
        match self.peek() {
            Some(Token::Word(word)) if word == "typealias" => {
                self.at += 1;
                let aliased = self.type_specifier()?;
                if self.next()? != Token::Assign {
                    return Err(self.error("':='"));
                }
                let name = self.names()?;
                self.types.insert(name, aliased);
            }
            Some(Token::Word(word)) if word == "typedef" => {
                self.at += 1;
                let (name, defined) = self.field()?;
                self.types.insert(name, defined);
                return Ok(());
            }
            _ => drop(self.type_specifier()?),
        }
        self.expect(';')
    }

    /// Returns words up to the next sign, separated by spaces.
    fn names(&mut self) -> Result<String, Damage> {
        let mut name = self.word()?;
        while let Some(Token::Word(word)) = self.peek() {
            name = format!("{name} {word}");
            self.at += 1;
        }
        Ok(name)
    }

    /// Parses a type.
    pub fn type_specifier(&mut self) -> Result<Rc<Type>, Damage> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("fewer types inside of types"));
        }
        let word = self.word()?;
        let found = match word.as_str() {
            "integer" => Rc::new(Type::Integer(self.integer()?)),
            "floating_point" => Rc::new(self.float()?),
            "string" => {
                if self.is_sign('{') {
                    self.block()?;
                }
                Rc::new(Type::Text)
            }
            "enum" => self.enumeration()?,
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            _ => {
                // The longest known name: the last word may be that of the field.
                let mut name = word;
                while let Some(Token::Word(next)) = self.peek() {
                    let longer = format!("{name} {next}");
                    let follows = self.tokens.get(self.at + 1).map(|(token, _)| token);
                    if !self.types.contains_key(&longer) && !matches!(follows, Some(Token::Word(_))) {
                        break;
                    }
                    name = longer;
                    self.at += 1;
                }
                let known = self.types.get(&name).cloned();
                known.ok_or_else(|| self.error(&format!("a type; '{name}' is not defined")))?
            }
        };
        self.depth -= 1;
        Ok(found)
    }

    fn integer(&mut self) -> Result<Integer, Damage> {
        let mut integer = Integer {
            size: 0,
            align: 1,
            signed: false,
            order: None,
            character: false,
            time: false,
        };
        let mut align = None;
        for (name, value) in self.block()? {
            let bits = || value.number().and_then(|bits| u64::try_from(bits).ok());
            match name.as_str() {
                "size" => integer.size = bits().unwrap_or(0),
                "align" => align = bits(),
                "signed" => integer.signed = matches!(value.text(), "true" | "1"),
                "byte_order" => integer.order = order(value.text()),
                "encoding" => integer.character = matches!(value.text(), "UTF8" | "ASCII" | "utf8" | "ascii"),
                "map" => integer.time = true,
                _ => {}
            }
        }
        integer.align = align.unwrap_or(if integer.size.is_multiple_of(8) { 8 } else { 1 });
        match (1..=64).contains(&integer.size) && is_alignment(integer.align) {
            true => Ok(integer),
            false => Err(self.error("an integer of 1 to 64 bits")),
        }
    }

    fn float(&mut self) -> Result<Type, Damage> {
        let (mut size, mut align) = (0, 1);
        for (name, value) in self.block()? {
            let bits = value.number().and_then(|bits| u64::try_from(bits).ok()).unwrap_or(0);
            match name.as_str() {
                "exp_dig" | "mant_dig" => size += bits.min(128),
                "align" => align = bits,
                _ => {}
            }
        }
        match size > 0 && is_alignment(align) {
            true => Ok(Type::Float { size, align }),
            false => Err(self.error("a floating-point number with exp_dig and mant_dig")),
        }
    }

    /// Returns the name of a struct, variant or enum, if it has one.
    fn tag_name(&mut self, kind: &str) -> Option<String> {
        let Some(Token::Word(name)) = self.peek() else {
            return None;
        };
        let name = format!("{kind} {name}");
        self.at += 1;
        Some(name)
    }

    fn enumeration(&mut self) -> Result<Rc<Type>, Damage> {
        let name = self.tag_name("enum");
        let integer = match self.take_sign(':') {
            true => match &*self.type_specifier()? {
                Type::Integer(integer) => *integer,
                _ => return Err(self.error("an integer type")),
            },
            false if self.is_sign('{') => match self.types.get("int").map(|int| &**int) {
                Some(Type::Integer(integer)) => *integer,
                _ => return Err(self.error("the integer type of an enum")),
            },
            false => return self.named(name),
        };
        self.expect('{')?;
        let mut labels = Vec::new();
        let mut value = 0i64;
        while !self.take_sign('}') {
            let label = match self.next()? {
                Token::Word(label) | Token::Text(label) => label,
                _ => return Err(self.error("a label")),
            };
            let mut last = value;
            if self.take_sign('=') {
                value = self.value()?;
                last = value;
                if self.peek() == Some(&Token::Dots) {
                    self.at += 1;
                    last = self.value()?;
                }
            }
            labels.push((label, value, last));
            value = last.wrapping_add(1);
            if !self.take_sign(',') && !self.is_sign('}') {
                self.at += 1;
                return Err(self.error("',' or '}'"));
            }
        }
        Ok(self.define(name, Type::Enum { integer, labels }))
    }

    fn value(&mut self) -> Result<i64, Damage> {
        let word = self.word()?;
        number(&word).ok_or_else(|| self.error("a number"))
    }

    /// Returns the struct, variant or enum that was defined before.
    fn named(&self, name: Option<String>) -> Result<Rc<Type>, Damage> {
        let known = name.as_ref().and_then(|name| self.types.get(name)).cloned();
        known.ok_or_else(|| self.error("the definition of a type"))
    }

    fn define(&mut self, name: Option<String>, defined: Type) -> Rc<Type> {
        let defined = Rc::new(defined);
        if let Some(name) = name {
            self.types.insert(name, defined.clone());
        }
        defined
    }

    fn structure(&mut self) -> Result<Rc<Type>, Damage> {
        let name = self.tag_name("struct").filter(|name| name != "struct align");
        if !self.is_sign('{') {
            return self.named(name);
        }
        let fields = self.fields()?;
        let mut align = 1;
        if matches!(self.peek(), Some(Token::Word(word)) if word == "align") {
            self.at += 1;
            self.expect('(')?;
            align = self.value()?.cast_unsigned();
            self.expect(')')?;
        }
        for (_, field) in &fields {
            align = align.max(alignment(field));
        }
        match is_alignment(align) {
            true => Ok(self.define(name, Type::Struct { fields, align })),
            false => Err(self.error("an alignment")),
        }
    }

    fn variant(&mut self) -> Result<Rc<Type>, Damage> {
        let name = self.tag_name("variant");
        let mut tag = String::new();
        if self.take_sign('<') {
            tag = self.word()?;
            while self.take_sign('.') {
                tag = self.word()?;
            }
            self.expect('>')?;
        }
        if !self.is_sign('{') {
            let named = self.named(name)?;
            return match &*named {
                Type::Variant { fields, .. } if !tag.is_empty() => Ok(Rc::new(Type::Variant {
                    tag,
                    fields: fields.clone(),
                })),
                _ => Ok(named),
            };
        }
        let fields = self.fields()?;
        Ok(self.define(name, Type::Variant { tag, fields }))
    }

    /// Parses "{ TYPE name; TYPE name[7]; ... }".
    fn fields(&mut self) -> Result<Vec<(String, Rc<Type>)>, Damage> {
        self.expect('{')?;
        let mut fields = Vec::new();
        while !self.take_sign('}') {
            match self.peek() {
                Some(Token::Word(word)) if matches!(word.as_str(), "typealias" | "typedef") => {
                    self.type_declaration()?
                }
                _ => fields.push(self.field()?),
            }
        }
        Ok(fields)
    }

    /// Parses "TYPE name[length];".
    fn field(&mut self) -> Result<(String, Rc<Type>), Damage> {
        let element = self.type_specifier()?;
        let name = self.word()?;
        let mut lengths = Vec::new();
        while self.take_sign('[') {
            let mut length = self.word()?;
            while self.take_sign('.') {
                length = self.word()?;
            }
            lengths.push(length);
            self.expect(']')?;
        }
        self.expect(';')?;
        let mut whole = element;
        for length in lengths.into_iter().rev() {
            whole = Rc::new(match number(&length) {
                Some(length) => Type::Array(whole, length.cast_unsigned()),
                None => Type::Sequence(whole, length),
            });
        }
        Ok((name, whole))
    }
}

pub fn is_type_declaration(word: &str) -> bool {
    matches!(word, "typealias" | "typedef" | "struct" | "variant" | "enum")
}

fn is_alignment(bits: u64) -> bool {
    bits.is_power_of_two() && bits <= MAX_PART
}
