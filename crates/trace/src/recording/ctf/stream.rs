// SPDX-License-Identifier: GPL-2.0-only
//! Reads the bits of a CTF stream as values of the types in the metadata.

use super::super::damage::Damage;
use super::super::input::Order;
use super::metadata::{Integer, Type};

/// Maximum number of values in one event or header. Real events have some dozens.
const MAX_VALUES: u32 = 1 << 20;

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer, or the number of an enumeration.
    Number(i64),
    /// A label of an enumeration with its number.
    Label(i64, String),
    Text(String),
}

/// Values that were read, with the names of their fields. Fields of nested types follow each other.
#[derive(Default)]
pub struct Values<'m> {
    values: Vec<(&'m str, Value)>,
    /// Values of integers that are times, with their sizes in bits.
    pub times: Vec<(u64, u64)>,
    read: u32,
}

impl Values<'_> {
    /// Removes all values.
    pub fn clear(&mut self) {
        self.values.clear();
        self.times.clear();
        self.read = 0;
    }

    fn find(&self, name: &str) -> Option<&Value> {
        let found = self.values.iter().rev().find(|(field, _)| *field == name);
        found.map(|(_, value)| value)
    }

    /// Returns the last value of a field. LTTng puts an underscore before the names of fields.
    fn field(&self, name: &str) -> Option<&Value> {
        let is = |field: &str| field == name || field.strip_prefix('_') == Some(name);
        let found = self.values.iter().rev().find(|(field, _)| is(field));
        found.map(|(_, value)| value)
    }

    /// Returns the number of a field.
    pub fn number(&self, name: &str) -> Option<i64> {
        match self.field(name)? {
            Value::Number(number) | Value::Label(number, _) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// Returns the number of a field that cannot be negative.
    pub fn unsigned(&self, name: &str) -> Option<u64> {
        self.number(name).map(i64::cast_unsigned)
    }

    /// Returns the text of a field.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.field(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads bits of a packet.
pub struct Bits<'a> {
    pub bytes: &'a [u8],
    /// Position and end, in bits from the start of the packet.
    pub at: u64,
    pub end: u64,
    pub order: Order,
}

const TRUNCATED: &str = "an event extends beyond its packet";

impl Bits<'_> {
    fn align(&mut self, bits: u64) -> Result<(), Damage> {
        self.at = self.at.checked_next_multiple_of(bits).ok_or(TRUNCATED)?;
        Ok(())
    }

    fn take(&mut self, bits: u64) -> Result<u64, Damage> {
        let begin = self.at;
        let end = begin
            .checked_add(bits)
            .filter(|&end| end <= self.end)
            .ok_or(TRUNCATED)?;
        self.at = end;
        Ok(begin)
    }

    fn byte(&self, bit: u64) -> Result<u8, Damage> {
        let byte = usize::try_from(bit / 8).ok().and_then(|at| self.bytes.get(at));
        Ok(byte.copied().ok_or(TRUNCATED)?)
    }

    /// Reads an integer. The lowest bits of a byte come first in little-endian order, the highest
    /// in big-endian order.
    fn integer(&mut self, integer: Integer) -> Result<u64, Damage> {
        self.align(integer.align)?;
        let begin = self.take(integer.size)?;
        let end = begin + integer.size;
        let order = integer.order.unwrap_or(self.order);
        let mut value = 0u64;
        let mut at = begin;
        while at < end {
            let byte = u64::from(self.byte(at)?);
            let within = at % 8;
            let bits = (8 - within).min(end - at);
            let mask = (1 << bits) - 1;
            match order {
                Order::Little => value |= (byte >> within & mask) << (at - begin),
                Order::Big => value = value << bits | (byte >> (8 - within - bits) & mask),
            }
            at += bits;
        }
        Ok(value)
    }

    fn text(&mut self) -> Result<String, Damage> {
        self.align(8)?;
        let mut bytes = Vec::new();
        loop {
            let at = self.take(8)?;
            match self.byte(at)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte),
            }
        }
    }

    /// Reads a value of a type and adds it to `into`.
    ///
    /// # Errors
    /// The packet ends before, or a length or a choice refers to a field that does not exist.
    pub fn read<'m>(&mut self, name: &'m str, of: &'m Type, into: &mut Values<'m>) -> Result<(), Damage> {
        into.read += 1;
        if into.read > MAX_VALUES {
            return Err(format!("an event has more than {MAX_VALUES} values").into());
        }
        match of {
            Type::Integer(integer) => {
                let value = self.integer(*integer)?;
                if integer.time {
                    into.times.push((value, integer.size));
                }
                into.values.push((name, Value::Number(signed(value, *integer))));
            }
            Type::Enum { integer, labels } => {
                let value = signed(self.integer(*integer)?, *integer);
                let label = labels.iter().find(|(_, first, last)| match integer.signed {
                    true => (*first..=*last).contains(&value),
                    false => (first.cast_unsigned()..=last.cast_unsigned()).contains(&value.cast_unsigned()),
                });
                into.values.push((
                    name,
                    match label {
                        Some((label, _, _)) => Value::Label(value, label.clone()),
                        None => Value::Number(value),
                    },
                ));
            }
            Type::Float { size, align } => {
                self.align(*align)?;
                self.take(*size)?;
            }
            Type::Text => {
                let text = self.text()?;
                into.values.push((name, Value::Text(text)));
            }
            Type::Struct { fields, align } => {
                self.align(*align)?;
                for (name, field) in fields {
                    self.read(name, field, into)?;
                }
            }
            Type::Variant { tag, fields } => {
                let Some(Value::Label(_, label)) = into.find(tag) else {
                    return Err(format!("the choice '{tag}' of a variant has no label").into());
                };
                // A label may have an underscore that the field lacks, or the other way round.
                let is = |field: &str| field.trim_start_matches('_') == label.trim_start_matches('_');
                let chosen = fields.iter().find(|(field, _)| is(field));
                let (name, chosen) = chosen.ok_or_else(|| format!("a variant has no field '{label}'"))?;
                self.read(name, chosen, into)?;
            }
            Type::Array(element, length) => self.array(name, element, *length, into)?,
            Type::Sequence(element, length) => {
                let length = match into.find(length) {
                    Some(Value::Number(length)) => length.cast_unsigned(),
                    _ => return Err(format!("the length '{length}' of a sequence is no number").into()),
                };
                self.array(name, element, length, into)?;
            }
        }
        Ok(())
    }

    fn array<'m>(
        &mut self,
        name: &'m str,
        element: &'m Type,
        length: u64,
        into: &mut Values<'m>,
    ) -> Result<(), Damage> {
        if let Type::Integer(integer @ Integer { size: 8, .. }) = element {
            self.align(integer.align)?;
            let begin = self.at;
            self.take(length.checked_mul(8).ok_or(TRUNCATED)?)?;
            if integer.character {
                let mut bytes = Vec::new();
                for at in 0..length {
                    match self.byte(begin + at * 8)? {
                        0 => break,
                        byte => bytes.push(byte),
                    }
                }
                let text = String::from_utf8_lossy(&bytes).into_owned();
                into.values.push((name, Value::Text(text)));
            }
            return Ok(());
        }
        let before = into.values.len();
        for _ in 0..length {
            self.read(name, element, into)?;
        }
        // Elements have no names of their own.
        into.values.truncate(before);
        Ok(())
    }
}

fn signed(value: u64, integer: Integer) -> i64 {
    let unused = 64 - integer.size;
    match integer.signed {
        true => (value << unused).cast_signed() >> unused,
        false => value.cast_signed(),
    }
}
