// SPDX-License-Identifier: GPL-2.0-only
//! Parses the metadata of a CTF trace: the text that describes its streams and events.
//!
//! ```text
//! typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
//! trace { byte_order = le; packet.header := struct { uint32_t magic; ... }; };
//! stream { id = 0; event.header := struct ...; packet.context := struct ...; };
//! event { name = "sched_switch"; id = 3; stream_id = 0; fields := struct { ... }; };
//! ```

use super::super::input::{MAX_PART, Order};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Magic number of metadata that are divided into packets.
const PACKETS: u64 = 0x75d1_1d57;
/// Size of the header of a packet of metadata.
const PACKET_HEADER: usize = 37;
/// Maximum depth of types in types.
const MAX_DEPTH: u32 = 32;

/// A type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Integer(Integer),
    Float {
        size: u64,
        align: u64,
    },
    Text,
    Enum {
        integer: Integer,
        /// Labels with their first and last values.
        labels: Vec<(String, i64, i64)>,
    },
    Struct {
        fields: Vec<(String, Rc<Type>)>,
        align: u64,
    },
    Variant {
        /// The field with the label of the chosen field.
        tag: String,
        fields: Vec<(String, Rc<Type>)>,
    },
    Array(Rc<Type>, u64),
    /// An array whose length is the value of a field.
    Sequence(Rc<Type>, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Size and alignment in bits.
    pub size: u64,
    pub align: u64,
    pub signed: bool,
    /// `None` is the byte order of the trace.
    pub order: Option<Order>,
    /// Whether the value is a character of a text.
    pub character: bool,
    /// Whether the value is a time.
    pub time: bool,
}

/// Description of a stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub event_header: Option<Rc<Type>>,
    pub packet_context: Option<Rc<Type>>,
    pub event_context: Option<Rc<Type>>,
    pub events: BTreeMap<u64, Event>,
}

/// Description of an event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub name: String,
    pub context: Option<Rc<Type>>,
    pub fields: Option<Rc<Type>>,
}

/// The metadata.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub order: Order,
    pub packet_header: Option<Rc<Type>>,
    pub streams: BTreeMap<u64, Stream>,
    /// Texts that describe the environment, such as the tracer's name.
    pub env: BTreeMap<String, String>,
    /// Frequency of the clock in Hz.
    pub frequency: u64,
}

/// Returns the text of a metadata file, which may consist of packets.
///
/// # Errors
/// A packet is damaged.
pub fn text(bytes: &[u8]) -> Result<String, String> {
    let order = match (Order::Little.get::<4>(bytes, 0), Order::Big.get::<4>(bytes, 0)) {
        (Some(PACKETS), _) => Order::Little,
        (_, Some(PACKETS)) => Order::Big,
        _ => return Ok(String::from_utf8_lossy(bytes).into_owned()),
    };
    let mut text = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let damaged = || "a packet of the metadata is damaged".to_owned();
        let size = |at| {
            let bits = order.get::<4>(rest, at)?;
            usize::try_from(bits / 8).ok()
        };
        let (content, packet) = (size(24).ok_or_else(damaged)?, size(28).ok_or_else(damaged)?);
        text.extend(rest.get(PACKET_HEADER..content).ok_or_else(damaged)?);
        rest = rest.get(packet.max(PACKET_HEADER)..).ok_or_else(damaged)?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Parses the text.
///
/// # Errors
/// The text does not follow the grammar, or uses a type that is not defined.
pub fn parse(text: &str) -> Result<Metadata, String> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        types: BTreeMap::new(),
        depth: 0,
    };
    let mut metadata = Metadata {
        frequency: 1_000_000_000,
        ..Metadata::default()
    };
    while parser.at < parser.tokens.len() {
        parser.declaration(&mut metadata)?;
    }
    Ok(metadata)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A name, number or keyword.
    Word(String),
    Text(String),
    Sign(char),
    /// `:=`
    Assign,
    /// `...`
    Dots,
}

struct Tokens {
    tokens: Vec<(Token, u32)>,
}

impl Tokens {
    fn len(&self) -> usize {
        self.tokens.len()
    }
}

fn tokens(text: &str) -> Result<Tokens, String> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut used = first.len_utf8();
        let token = if first == '\n' {
            line += 1;
            None
        } else if first.is_whitespace() {
            None
        } else if rest.starts_with("/*") {
            used = rest.find("*/").map_or(rest.len(), |end| end + 2);
            line += u32::try_from(rest[..used].matches('\n').count()).unwrap_or(0);
            None
        } else if rest.starts_with("//") {
            used = rest.find('\n').unwrap_or(rest.len());
            None
        } else if first == '"' {
            let (text, length) = quoted(&rest[1..]).ok_or_else(|| format!("line {line}: a text has no end"))?;
            used = length + 1;
            Some(Token::Text(text))
        } else if rest.starts_with(":=") {
            used = 2;
            Some(Token::Assign)
        } else if rest.starts_with("...") {
            used = 3;
            Some(Token::Dots)
        } else if is_word(first) || first == '-' || first == '+' {
            let end = rest[1..].find(|c| !is_word(c)).map_or(rest.len(), |end| end + 1);
            used = end;
            Some(Token::Word(rest[..end].to_owned()))
        } else {
            Some(Token::Sign(first))
        };
        tokens.extend(token.map(|token| (token, line)));
        rest = &rest[used..];
    }
    Ok(Tokens { tokens })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns a text up to its quotation mark, and the length with this mark.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

struct Parser {
    tokens: Tokens,
    at: usize,
    types: BTreeMap<String, Rc<Type>>,
    depth: u32,
}

/// A value of an attribute, such as `size = 32`.
enum Value {
    Words(String),
    Type(Rc<Type>),
}

impl Value {
    fn text(&self) -> &str {
        match self {
            Value::Words(text) => text,
            Value::Type(_) => "",
        }
    }

    fn number(&self) -> Option<i64> {
        number(self.text())
    }
}

/// Parses a decimal, octal or hexadecimal number.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok()?,
        None => digits.parse().ok()?,
    };
    // The labels of an enumeration of 64 bits use all values.
    let value = value.cast_signed();
    Some(if negative { value.wrapping_neg() } else { value })
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Result<Token, String> {
        let token = self.peek().cloned().ok_or("the metadata end inside a declaration")?;
        self.at += 1;
        Ok(token)
    }

    fn error(&self, expected: &str) -> String {
        let last = self.tokens.tokens.get(self.at.saturating_sub(1));
        let line = last.map_or(0, |(_, line)| *line);
        let found = match last.map(|(token, _)| token) {
            Some(Token::Word(text) | Token::Text(text)) => format!("'{text}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            Some(Token::Assign) => "':='".into(),
            Some(Token::Dots) => "'...'".into(),
            None => "the end".into(),
        };
        format!("line {line} of the metadata: expected {expected}, found {found}")
    }

    fn is_sign(&self, sign: char) -> bool {
        self.peek() == Some(&Token::Sign(sign))
    }

    fn take_sign(&mut self, sign: char) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        match self.next()? == Token::Sign(sign) {
            true => Ok(()),
            false => Err(self.error(&format!("'{sign}'"))),
        }
    }

    fn word(&mut self) -> Result<String, String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => Err(self.error("a name")),
        }
    }

    /// Parses a declaration at the top of the text.
    fn declaration(&mut self, metadata: &mut Metadata) -> Result<(), String> {
        if self.take_sign(';') {
            return Ok(());
        }
        let begin = self.at;
        let word = self.word()?;
        match word.as_str() {
            "trace" => {
                for (name, value) in self.block()? {
                    match (name.as_str(), value) {
                        ("byte_order", value) => metadata.order = order(value.text()).unwrap_or_default(),
                        ("packet.header", Value::Type(header)) => metadata.packet_header = Some(header),
                        _ => {}
                    }
                }
            }
            "env" => {
                for (name, value) in self.block()? {
                    metadata.env.insert(name, value.text().to_owned());
                }
            }
            "clock" => {
                for (name, value) in self.block()? {
                    if name == "freq" {
                        let frequency = value.number().and_then(|hz| u64::try_from(hz).ok());
                        metadata.frequency = frequency.filter(|&hz| hz > 0).ok_or("the clock has no frequency")?;
                    }
                }
            }
            "callsite" => drop(self.block()?),
            "stream" => self.stream(metadata)?,
            "event" => self.event(metadata)?,
            _ => {
                self.at = begin;
                self.type_declaration()?;
            }
        }
        Ok(())
    }

    fn stream(&mut self, metadata: &mut Metadata) -> Result<(), String> {
        let mut id = 0;
        let mut stream = Stream::default();
        for (name, value) in self.block()? {
            match (name.as_str(), value) {
                ("id", value) => id = value.number().unwrap_or(0).cast_unsigned(),
                ("event.header", Value::Type(header)) => stream.event_header = Some(header),
                ("event.context", Value::Type(context)) => stream.event_context = Some(context),
                ("packet.context", Value::Type(context)) => stream.packet_context = Some(context),
                _ => {}
            }
        }
        stream.events = std::mem::take(&mut metadata.streams.entry(id).or_default().events);
        metadata.streams.insert(id, stream);
        Ok(())
    }

    fn event(&mut self, metadata: &mut Metadata) -> Result<(), String> {
        let (mut id, mut stream) = (0, 0);
        let mut event = Event::default();
        for (name, value) in self.block()? {
            match (name.as_str(), value) {
                ("name", value) => event.name = value.text().to_owned(),
                ("id", value) => id = value.number().unwrap_or(0).cast_unsigned(),
                ("stream_id", value) => stream = value.number().unwrap_or(0).cast_unsigned(),
                ("context", Value::Type(context)) => event.context = Some(context),
                ("fields", Value::Type(fields)) => event.fields = Some(fields),
                _ => {}
            }
        }
        metadata.streams.entry(stream).or_default().events.insert(id, event);
        Ok(())
    }

    /// Parses "{ name = value; name := type; ... }".
    fn block(&mut self) -> Result<Vec<(String, Value)>, String> {
        self.expect('{')?;
        let mut entries = Vec::new();
        while !self.take_sign('}') {
            if matches!(self.peek(), Some(Token::Word(word)) if is_type_declaration(word)) {
                self.type_declaration()?;
                continue;
            }
            let mut name = match self.next()? {
                Token::Word(name) | Token::Text(name) => name,
                _ => return Err(self.error("an attribute")),
            };
            while self.take_sign('.') {
                name = format!("{name}.{}", self.word()?);
            }
            let value = match self.next()? {
                Token::Assign => Value::Type(self.type_specifier()?),
                Token::Sign('=') => Value::Words(self.words()?),
                _ => return Err(self.error("'=' or ':='")),
            };
            self.expect(';')?;
            entries.push((name, value));
        }
        Ok(entries)
    }

    /// Returns the tokens up to the next semicolon as a text.
    fn words(&mut self) -> Result<String, String> {
        let mut text = String::new();
        while !self.is_sign(';') {
            match self.next()? {
                Token::Word(word) | Token::Text(word) => text += &word,
                Token::Sign(sign @ ('{' | '}')) => {
                    let _ = sign;
                    return Err(self.error("';'"));
                }
                Token::Sign(sign) => text.push(sign),
                Token::Assign | Token::Dots => return Err(self.error("a value")),
            }
        }
        Ok(text)
    }

    /// Parses "typealias TYPE := NAME;", "typedef TYPE NAME;" or a struct, variant or enum.
    fn type_declaration(&mut self) -> Result<(), String> {
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
    fn names(&mut self) -> Result<String, String> {
        let mut name = self.word()?;
        while let Some(Token::Word(word)) = self.peek() {
            name = format!("{name} {word}");
            self.at += 1;
        }
        Ok(name)
    }

    /// Parses a type.
    fn type_specifier(&mut self) -> Result<Rc<Type>, String> {
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
                    let follows = self.tokens.tokens.get(self.at + 1).map(|(token, _)| token);
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

    fn integer(&mut self) -> Result<Integer, String> {
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

    fn float(&mut self) -> Result<Type, String> {
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

    fn enumeration(&mut self) -> Result<Rc<Type>, String> {
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

    fn value(&mut self) -> Result<i64, String> {
        let word = self.word()?;
        number(&word).ok_or_else(|| self.error("a number"))
    }

    /// Returns the struct, variant or enum that was defined before.
    fn named(&self, name: Option<String>) -> Result<Rc<Type>, String> {
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

    fn structure(&mut self) -> Result<Rc<Type>, String> {
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

    fn variant(&mut self) -> Result<Rc<Type>, String> {
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
    fn fields(&mut self) -> Result<Vec<(String, Rc<Type>)>, String> {
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
    fn field(&mut self) -> Result<(String, Rc<Type>), String> {
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

fn is_type_declaration(word: &str) -> bool {
    matches!(word, "typealias" | "typedef" | "struct" | "variant" | "enum")
}

fn is_alignment(bits: u64) -> bool {
    bits.is_power_of_two() && bits <= MAX_PART
}

/// Returns the alignment of a type in bits.
pub fn alignment(of: &Type) -> u64 {
    match of {
        Type::Integer(integer) | Type::Enum { integer, .. } => integer.align,
        Type::Float { align, .. } | Type::Struct { align, .. } => *align,
        Type::Text => 8,
        Type::Variant { .. } => 1,
        Type::Array(element, _) | Type::Sequence(element, _) => alignment(element),
    }
}

/// Returns a byte order, or `None` for the trace's own.
fn order(text: &str) -> Option<Order> {
    match text {
        "le" => Some(Order::Little),
        "be" | "network" => Some(Order::Big),
        _ => None,
    }
}
