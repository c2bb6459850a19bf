// SPDX-License-Identifier: GPL-2.0-only
//! Typed access to the values of an rt-app file. Errors contain the position.

use super::json::{Member, Node, Value};
use input::{Error, Position, suggest};
use std::ops::RangeInclusive;

/// The largest number in an rt-app file, because rt-app stores numbers as int.
pub const INT_MAX: i64 = i32::MAX as i64;

/// The file that is read. Its methods read values and create errors.
#[derive(Clone, Copy)]
pub struct File<'a> {
    pub name: &'a str,
}

impl File<'_> {
    pub fn error(&self, at: Position, message: impl std::fmt::Display) -> Error {
        Error::at(self.name, message).position(at)
    }

    fn mismatch(&self, member: &Member, expected: &str) -> Error {
        let found = member.node.value.kind();
        self.error(
            member.node.at,
            format!("\"{}\" takes {expected}, found {found}", member.key),
        )
    }

    /// Reads an integer, which must be within `range`. The type `N` must be able to represent all
    /// numbers in `range`.
    pub fn int<N: TryFrom<i64>>(&self, member: &Member, unit: &str, range: RangeInclusive<i64>) -> Result<N, Error> {
        let (lo, hi) = (range.start(), range.end());
        match member.node.value {
            Value::Int(value) if range.contains(&value) => {
                Ok(N::try_from(value).unwrap_or_else(|_| panic!("{lo}..={hi} exceeds the type of {}", member.key)))
            }
            Value::Int(value) => Err(self
                .error(member.node.at, format!("\"{}\": {value} is out of range", member.key))
                .hint(format!("expected {lo} to {hi}{unit}"))),
            _ => Err(self
                .mismatch(member, "an integer")
                .hint(format!("expected {lo} to {hi}{unit}, without quotes"))),
        }
    }

    /// Reads a time in us and returns it in ns.
    pub fn usec(&self, member: &Member) -> Result<u64, Error> {
        Ok(self.int::<u64>(member, " us", 0..=INT_MAX)? * 1000)
    }

    /// Reads a number of rounds; `None` means endless.
    pub fn rounds(&self, member: &Member) -> Result<Option<u64>, Error> {
        match self.int::<i64>(member, ", or -1 for an endless loop", -INT_MAX..=INT_MAX)? {
            ..=-1 => Ok(None),
            0 => Err(self
                .error(member.node.at, "\"loop\" is 0")
                .hint("use -1 for an endless loop; \"instance\": 0 creates no task")),
            times => Ok(Some(times.unsigned_abs())),
        }
    }

    pub fn string<'n>(&self, member: &'n Member) -> Result<&'n str, Error> {
        match &member.node.value {
            Value::String(text) => Ok(text),
            _ => Err(self.mismatch(member, "a string")),
        }
    }

    /// Reads a name, which must not be empty.
    pub fn name<'n>(&self, member: &'n Member) -> Result<&'n str, Error> {
        match self.string(member)? {
            "" => Err(self
                .error(member.node.at, format!("\"{}\" is an empty name", member.key))
                .hint("write the name of a task or resource")),
            name => Ok(name),
        }
    }

    pub fn bool(&self, member: &Member) -> Result<bool, Error> {
        match member.node.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.mismatch(member, "true or false")),
        }
    }

    pub fn object<'n>(&self, member: &'n Member) -> Result<&'n [Member], Error> {
        match &member.node.value {
            Value::Object(members) => Ok(members),
            _ => Err(self.mismatch(member, "an object")),
        }
    }

    /// Reads an object. All keys must be known, and none may occur twice.
    pub fn fields<'n>(&self, parent: &'n Member, known: &[&str]) -> Result<Fields<'n>, Error> {
        let mut fields = Fields {
            at: parent.node.at,
            members: Vec::new(),
        };
        for member in self.object(parent)? {
            if !known.contains(&member.key.as_str()) {
                return Err(self
                    .error(
                        member.at,
                        format!("unknown key \"{}\" in \"{}\"", member.key, parent.key),
                    )
                    .hint(suggest::hint(&member.key, known)));
            }
            self.once(&mut fields.members, member)?;
        }
        Ok(fields)
    }

    /// Adds a member to `seen`. Fails if `seen` already contains its key.
    pub fn once<'n>(&self, seen: &mut Vec<&'n Member>, member: &'n Member) -> Result<(), Error> {
        if let Some(first) = seen.iter().find(|m| m.key == member.key) {
            return Err(self
                .error(member.at, format!("\"{}\" occurs twice", member.key))
                .hint(format!(
                    "the first one is in line {}; remove one of them",
                    first.at.line
                )));
        }
        seen.push(member);
        Ok(())
    }

    /// Reads a list of at least one CPU and returns it in ascending order.
    pub fn cpus(&self, member: &Member) -> Result<Vec<u32>, Error> {
        let Value::Array(items) = &member.node.value else {
            return Err(self.mismatch(member, "an array of CPU numbers"));
        };
        let mut cpus = Vec::with_capacity(items.len());
        for item in items {
            match item.value {
                Value::Int(cpu) if (0..=0xffff).contains(&cpu) => cpus.extend(u32::try_from(cpu)),
                _ => {
                    return Err(self
                        .error(item.at, format!("{} is not a CPU number", item.value.kind()))
                        .hint("use CPU numbers from 0 to 65535"));
                }
            }
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() {
            return Err(self
                .error(member.node.at, "\"cpus\" contains no CPU")
                .hint("leave it out to allow all CPUs"));
        }
        Ok(cpus)
    }
}

/// The members of an object, for look-up by key.
pub struct Fields<'n> {
    pub at: Position,
    pub members: Vec<&'n Member>,
}

impl<'n> Fields<'n> {
    pub fn get(&self, key: &str) -> Option<&'n Member> {
        self.members.iter().copied().find(|m| m.key == key)
    }

    /// Returns a member that must exist. `parent` is the object, for the error.
    pub fn need(&self, file: File, parent: &Member, key: &str) -> Result<&'n Member, Error> {
        self.get(key).ok_or_else(|| {
            file.error(self.at, format!("\"{}\" needs \"{key}\"", parent.key))
                .hint(format!("add \"{key}\""))
        })
    }
}

/// Wraps the root object into a member, so that it can be read like a nested object.
pub fn root(node: Node) -> Member {
    Member {
        at: node.at,
        key: "description".into(),
        node,
    }
}
