// SPDX-License-Identifier: GPL-2.0-only
//! Parses the declarations of the metadata of a CTF trace: its streams, events, clock and environment.

use super::tokens::{Parser, Token, number};
use super::types::is_type_declaration;
use super::{Event, Metadata, Stream, Type};
use crate::recording::damage::Damage;
use crate::recording::input::Order;
use std::rc::Rc;

/// A value of an attribute, such as `size = 32`.
pub enum Value {
    Words(String),
    Type(Rc<Type>),
}

impl Value {
    pub fn text(&self) -> &str {
        match self {
            Value::Words(text) => text,
            Value::Type(_) => "",
        }
    }

    pub fn number(&self) -> Option<i64> {
        number(self.text())
    }
}

impl Parser {
    /// Parses a declaration at the top of the text.
    pub fn declaration(&mut self, metadata: &mut Metadata) -> Result<(), Damage> {
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

    fn stream(&mut self, metadata: &mut Metadata) -> Result<(), Damage> {
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

    fn event(&mut self, metadata: &mut Metadata) -> Result<(), Damage> {
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
    pub fn block(&mut self) -> Result<Vec<(String, Value)>, Damage> {
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
    fn words(&mut self) -> Result<String, Damage> {
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
}

/// Returns a byte order, or `None` for the trace's own.
pub fn order(text: &str) -> Option<Order> {
    match text {
        "le" => Some(Order::Little),
        "be" | "network" => Some(Order::Big),
        _ => None,
    }
}
