// SPDX-License-Identifier: GPL-2.0-only
//! Typed access to the values of an rt-app file, with errors that name the place.

use super::json::{Member, Node, Value};
use input::{Error, Position, suggest};
use std::ops::RangeInclusive;

/// The largest number rt-app takes: it keeps an int.
pub const INT_MAX: i64 = i32::MAX as i64;

/// Makes errors in one file.
#[derive(Clone, Copy)]
pub struct File<'a> {
    pub name: &'a str,
}

impl File<'_> {
    pub fn error(&self, at: Position, message: impl Into<String>) -> Error {
        Error::at(self.name, message).position(at)
    }

    fn mismatch(&self, of: &Member, expected: &str) -> Error {
        let found = of.node.value.kind();
        self.error(of.node.at, format!("\"{}\" takes {expected}, found {found}", of.key))
    }

    /// An integer within `range`.
    pub fn int(&self, of: &Member, unit: &str, range: RangeInclusive<i64>) -> Result<i64, Error> {
        let (lo, hi) = (range.start(), range.end());
        match of.node.value {
            Value::Int(value) if range.contains(&value) => Ok(value),
            Value::Int(value) => Err(self
                .error(of.node.at, format!("\"{}\": {value} is out of range", of.key))
                .hint(format!("expected {lo}..={hi}{unit}"))),
            _ => Err(self
                .mismatch(of, "an integer")
                .hint(format!("expected {lo}..={hi}{unit}, without quotes"))),
        }
    }

    /// A time in us, as ns.
    pub fn usec(&self, of: &Member) -> Result<u64, Error> {
        Ok(self.int(of, " us", 0..=INT_MAX)? as u64 * 1000)
    }

    /// "loop": `None` is for ever.
    pub fn rounds(&self, of: &Member) -> Result<Option<u64>, Error> {
        match self.int(of, ", -1 for ever", -1..=INT_MAX)? {
            -1 => Ok(None),
            0 => Err(self
                .error(of.node.at, "\"loop\": no rounds")
                .hint("-1 is for ever; a task not to be created has \"instance\": 0")),
            times => Ok(Some(times as u64)),
        }
    }

    pub fn string<'n>(&self, of: &'n Member) -> Result<&'n str, Error> {
        match &of.node.value {
            Value::String(text) => Ok(text),
            _ => Err(self.mismatch(of, "a string")),
        }
    }

    /// The name of something: not empty.
    pub fn name<'n>(&self, of: &'n Member) -> Result<&'n str, Error> {
        match self.string(of)? {
            "" => Err(self
                .error(of.node.at, format!("\"{}\" refers to nothing", of.key))
                .hint("give the name of what is meant")),
            name => Ok(name),
        }
    }

    pub fn bool(&self, of: &Member) -> Result<bool, Error> {
        match of.node.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.mismatch(of, "true or false")),
        }
    }

    pub fn object<'n>(&self, of: &'n Member) -> Result<&'n [Member], Error> {
        match &of.node.value {
            Value::Object(members) => Ok(members),
            _ => Err(self.mismatch(of, "an object")),
        }
    }

    /// An object of which all keys are known and none is there twice.
    pub fn fields<'n>(&self, of: &'n Member, known: &[&str]) -> Result<Fields<'n>, Error> {
        let mut fields = Fields {
            at: of.node.at,
            members: Vec::new(),
        };
        for member in self.object(of)? {
            if !known.contains(&member.key.as_str()) {
                return Err(self
                    .error(member.at, format!("unknown key \"{}\" in \"{}\"", member.key, of.key))
                    .hint(suggest::hint(&member.key, known)));
            }
            self.once(&mut fields.members, member)?;
        }
        Ok(fields)
    }

    /// Adds a member whose key must be new.
    pub fn once<'n>(&self, seen: &mut Vec<&'n Member>, member: &'n Member) -> Result<(), Error> {
        if let Some(first) = seen.iter().find(|m| m.key == member.key) {
            return Err(self
                .error(member.at, format!("\"{}\" a second time", member.key))
                .hint(format!("the first is in line {}; keep one of them", first.at.line)));
        }
        seen.push(member);
        Ok(())
    }

    /// "cpus": at least one, in ascending order.
    pub fn cpus(&self, of: &Member) -> Result<Vec<u32>, Error> {
        let Value::Array(items) = &of.node.value else {
            return Err(self.mismatch(of, "an array of CPU numbers"));
        };
        let mut cpus = Vec::with_capacity(items.len());
        for item in items {
            match item.value {
                Value::Int(cpu @ 0..=0xffff) => cpus.push(cpu as u32),
                _ => {
                    return Err(self
                        .error(item.at, format!("{} is not a CPU number", item.value.kind()))
                        .hint("CPU numbers are 0..=65535"));
                }
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            return Err(self
                .error(of.node.at, "\"cpus\": no CPU to run on")
                .hint("leave it out for all CPUs"));
        }
        Ok(cpus)
    }
}

/// The members of an object by key.
pub struct Fields<'n> {
    pub at: Position,
    pub members: Vec<&'n Member>,
}

impl<'n> Fields<'n> {
    pub fn get(&self, key: &str) -> Option<&'n Member> {
        self.members.iter().copied().find(|m| m.key == key)
    }

    pub fn need(&self, file: File, of: &Member, key: &str) -> Result<&'n Member, Error> {
        self.get(key).ok_or_else(|| {
            file.error(self.at, format!("\"{}\" without \"{key}\"", of.key))
                .hint(format!("add \"{key}\" to it"))
        })
    }
}

/// The root object as a member, so that it is read like the others.
pub fn root(node: Node) -> Member {
    Member {
        at: node.at,
        key: "description".into(),
        node,
    }
}
