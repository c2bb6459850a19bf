// SPDX-License-Identifier: GPL-2.0-only
//! Profiles: the work of a policy's user-space half between opening and attaching it, as data.
//!
//! Values are [expressions](expression) over facts of the machine and the kernel's enumerators. What is set is a path with
//! indices, and its indices say for what it is done: `cpu_capacity[cpu]` for each CPU, `dom_cpumasks[llc][word]` for each word of
//! each LLC's mask, `steal_order[cpu * 128 + near]` for each pair. profiles/README.md has the names.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod expression;
mod facts;
pub mod file;
mod group;
mod path;

pub use facts::{Enumerators, Facts};
pub use group::{Group, Instance, instances};

use bpf::object::Object;
use path::Path;

/// Size limit in bytes of a syscall program's argument (bpf_prog_test_run_syscall).
const MAX_CONTEXT: usize = u16::MAX as usize;

/// The work for one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The part of the user-space half that does not run here, in a sentence. Empty if nothing that matters is missing.
    pub absent: String,
    /// How long the machine has been up when the policy is loaded, ns.
    pub uptime_ns: u64,
    /// Names of the profile's own for values, in the order of the alphabet.
    pub names: Vec<(String, String)>,
    /// Globals, or elements of them, and their values.
    pub set: Vec<Setting>,
    /// Arrays and their numbers of elements.
    pub resize: Vec<(String, String)>,
    /// Maps and their numbers of entries.
    pub max_entries: Vec<(String, String)>,
    /// Maps of maps whose entries each get an inner map as the object declares them.
    pub inner_maps: Vec<String>,
    /// Entries of maps, or members of them: the first index is the key, of a per-CPU map the second the CPU.
    pub map: Vec<Setting>,
    /// Constants of the callback table: `flags`, `timeout_ms` and so on.
    pub ops: Vec<(String, String)>,
    /// Callbacks that are taken out of the callback table.
    pub without: Vec<String>,
    /// Name of the callback table to attach, of several; empty: the first that attaches by itself.
    pub struct_ops: String,
    /// Programs to attach that do not attach by themselves.
    pub attach: Vec<String>,
    /// Programs that do not attach though they would by themselves.
    pub detach: Vec<String>,
    /// Programs of type syscall to run, in this order.
    pub run: Vec<Run>,
}

/// A global, a map's entry or a word of memory, and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    pub path: String,
    pub value: String,
    /// Only if this is not 0; empty: always.
    pub when: String,
}

/// Running a program of type syscall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub program: String,
    /// For each of these instead of once.
    pub each: Option<Group>,
    /// Only if this is not 0; empty: always.
    pub when: String,
    /// The CPU it runs on; empty: the first.
    pub on: String,
    /// When the policy is enabled, instead of before.
    pub after: bool,
    /// The members of the struct which the program takes.
    pub args: Vec<Arg>,
    /// Names for what those members are when the program has returned, in their order.
    pub result: Vec<String>,
    /// 64-bit words of the policy's memory (addresses that programs gave) to be set when it has returned.
    pub memory: Vec<Setting>,
    /// Programs to run next for the same CPU, core, ..., which know its results.
    pub then: Vec<Run>,
}

/// A member of the struct which a program takes: an `s32`, or with `:u64` after its value a 64-bit one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    pub value: String,
    /// An array has several; in their values `i` is which.
    pub times: u32,
}

impl From<&str> for Arg {
    fn from(value: &str) -> Arg {
        Arg {
            value: value.into(),
            times: 1,
        }
    }
}

impl Profile {
    /// Returns the values of the profile's own names.
    ///
    /// # Errors
    /// If a name has no value.
    pub fn names(&self, facts: Facts) -> Result<Vec<(String, i64)>, String> {
        let mut known = Vec::new();
        for (name, text) in &self.names {
            let value = facts.with_results(&known).value(text)?;
            known.push((name.clone(), value));
        }
        Ok(known)
    }

    /// Resizes arrays and sets globals of an object that is not linked yet.
    ///
    /// # Errors
    /// If the object has no such variable, or a value does not fit it.
    pub fn apply(&self, object: &mut Object, facts: Facts) -> Result<(), String> {
        let types = object.btf().clone();
        let facts = facts.with_types(&types);
        let names = self.names(facts)?;
        let facts = facts.with_results(&names);
        let count = |text: &str| {
            let value = facts.value(text)?;
            u32::try_from(value).map_err(|_| format!("{text} = {value} is no number of elements"))
        };
        for (name, text) in &self.resize {
            object.resize(name, count(text)?).map_err(|error| error.to_string())?;
        }
        for (name, text) in &self.max_entries {
            object
                .set_max_entries(name, count(text)?)
                .map_err(|error| error.to_string())?;
        }
        for setting in &self.set {
            setting.each(facts, &mut |path, value| {
                fitting(value, |text| object.set(path, text).map_err(|error| error.to_string()))
            })?;
        }
        Ok(())
    }
}

/// Sets a value of either sign: unsigned values wrap into i64 on the way, and which it is the variable's type says.
pub fn fitting(value: i64, mut set: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    set(&value.to_string()).or_else(|error| match i32::try_from(value) {
        _ if value >= 0 => Err(error),
        Ok(short) => set(&value.cast_unsigned().to_string()).or_else(|_| set(&short.cast_unsigned().to_string())),
        Err(_) => set(&value.cast_unsigned().to_string()),
    })
}

impl Setting {
    pub fn new(path: impl Into<String>, value: impl Into<String>) -> Setting {
        Setting {
            path: path.into(),
            value: value.into(),
            when: String::new(),
        }
    }

    /// Calls `set` with every path this stands for, and its value there.
    ///
    /// # Errors
    /// If it is no expression, names something unknown, or `set` fails.
    pub fn each(&self, facts: Facts, set: &mut dyn FnMut(&str, i64) -> Result<(), String>) -> Result<(), String> {
        let path = Path::parse(&self.path)?;
        for at in path.instances(facts.spec, facts.at)? {
            let facts = facts.at(at);
            if facts.holds(&self.when)? {
                let value = facts.value(&self.value)?;
                for path in path.at(&facts)? {
                    set(&path, value)?;
                }
            }
        }
        Ok(())
    }
}

impl Run {
    /// Returns the bytes of the struct which the program takes.
    ///
    /// # Errors
    /// If an argument is no value, or the struct is larger than [`MAX_CONTEXT`].
    pub fn context(&self, facts: Facts) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for arg in &self.args {
            let (text, size) = arg.parts();
            for i in 0..arg.times {
                let mut names = facts.results().to_vec();
                names.push(("i".into(), i64::from(i)));
                let value = facts.with_results(&names).value(text)?;
                bytes.resize(bytes.len().next_multiple_of(size), 0);
                bytes.extend_from_slice(&value.to_le_bytes()[..size]);
                if bytes.len() > MAX_CONTEXT {
                    return Err(format!(
                        "{}: the arguments take more than {MAX_CONTEXT} bytes, the most that a program gets: use smaller 'times'",
                        self.program
                    ));
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the arguments' present values by the names that the profile gives them. An array gives its first element.
    pub fn results(&self, context: &[u8]) -> Vec<(String, i64)> {
        let mut end: usize = 0;
        let mut results = Vec::new();
        for (index, arg) in self.args.iter().enumerate() {
            let (_, size) = arg.parts();
            let start = end.next_multiple_of(size);
            end = start + size * arg.times as usize;
            let Some(name) = self.result.get(index) else {
                break;
            };
            let value = match *context.get(start..start + size).unwrap_or_default() {
                [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
                [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
                _ => 0,
            };
            results.push((name.clone(), value));
        }
        results
    }
}

impl Arg {
    /// The value's text, and its bytes.
    fn parts(&self) -> (&str, usize) {
        match self.value.strip_suffix(":u64") {
            Some(text) => (text, 8),
            None => (&self.value, 4),
        }
    }
}

#[cfg(test)]
mod tests;
