// SPDX-License-Identifier: GPL-2.0-only
//! Profiles: what a policy's user-space part sets up between opening and attaching the policy, as
//! data.
//!
//! Values are [expressions](expression) over properties of the machine and the kernel's
//! enumerators. The indices in a path say for what a setting is repeated: `cpu_capacity[cpu]` is
//! set for each CPU, `dom_cpumasks[llc][word]` for each word of each LLC's mask, and
//! `steal_order[cpu * 128 + near]` for each pair of CPUs. profiles/README.md lists the names.

mod expression;
mod facts;
pub mod file;
mod group;
mod path;

pub use facts::{Enumerators, Properties};
pub use group::{Group, Instance, instances};

use bpf::object::Object;
use path::Path;

/// Size limit in bytes of a syscall program's argument (bpf_prog_test_run_syscall).
const MAX_CONTEXT: usize = u16::MAX as usize;

/// The profile of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Sentence about the part of the user-space part's work that is missing here; empty if nothing
    /// important is missing.
    pub absent: String,
    /// Time in ns for which the machine has been up when the policy is loaded.
    pub uptime_ns: u64,
    /// The profile's own names with their values, in alphabetical order.
    pub names: Vec<(String, String)>,
    /// Globals or elements of globals, with their values.
    pub set: Vec<Setting>,
    /// Arrays, with their numbers of elements.
    pub resize: Vec<(String, String)>,
    /// Maps, with their numbers of entries.
    pub max_entries: Vec<(String, String)>,
    /// Maps of maps. Each entry gets an inner map as the object declares it.
    pub inner_maps: Vec<String>,
    /// Map entries or members of them. The first index is the key; in a per-CPU map the second is
    /// the CPU.
    pub map: Vec<Setting>,
    /// Constants of the callback table: `flags`, `timeout_ms` and so on.
    pub ops: Vec<(String, String)>,
    /// Callbacks to remove from the callback table.
    pub without: Vec<String>,
    /// Name of the callback table to attach, if there are several; empty: the first that attaches
    /// by itself.
    pub struct_ops: String,
    /// Programs to attach that do not attach by themselves.
    pub attach: Vec<String>,
    /// Programs that must not attach although they would by themselves.
    pub detach: Vec<String>,
    /// Programs of type syscall to run, in this order.
    pub run: Vec<Run>,
}

/// A global, map entry or memory word, with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    pub path: String,
    pub value: String,
    /// Condition under which the setting applies; empty: always.
    pub when: String,
}

/// A run of a program of type syscall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub program: String,
    /// Groups for each of which the program runs; `None`: it runs once.
    pub each: Option<Group>,
    /// Condition under which the program runs; empty: always.
    pub when: String,
    /// CPU on which the program runs; empty: the first.
    pub on: String,
    /// Whether the program runs after the policy is enabled instead of before.
    pub after: bool,
    /// Members of the struct that the program takes as argument.
    pub args: Vec<Arg>,
    /// Names for the members' values when the program has returned, in the members' order.
    pub result: Vec<String>,
    /// 64-bit words of the policy's memory to set when the program has returned. Their addresses
    /// come from programs.
    pub memory: Vec<Setting>,
    /// Programs to run afterwards for the same CPU, core and so on. They can use the results.
    pub then: Vec<Run>,
}

/// A member of the struct that a program takes: an `s32`, or a 64-bit number if `:u64` follows its
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    pub value: String,
    /// Number of array elements; `i` in their values is the element's index.
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
    /// Evaluates the profile's own names.
    ///
    /// # Errors
    /// If a name has no value.
    pub fn names(&self, facts: Properties) -> Result<Vec<(String, i64)>, String> {
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
    pub fn apply(&self, object: &mut Object, facts: Properties) -> Result<(), String> {
        let types = object.btf().clone();
        let facts = facts.with_types(&types);
        let names = self.names(facts)?;
        let facts = facts.with_results(&names);
        let count = |text: &str| {
            let value = facts.value(text)?;
            u32::try_from(value).map_err(|_| format!("{text} = {value} is not a valid number of elements"))
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

/// Sets a value of either sign. Unsigned values have wrapped into i64, so the unsigned forms are
/// tried if the variable's type refuses the negative number.
pub fn fitting(value: i64, mut set: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    set(&value.to_string()).or_else(|error| match i32::try_from(value) {
        _ if value >= 0 => Err(error),
        Ok(short) => set(&(value as u64).to_string()).or_else(|_| set(&(short as u32).to_string())),
        Err(_) => set(&(value as u64).to_string()),
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

    /// Calls `set` with every path that this setting stands for, and the value there.
    ///
    /// # Errors
    /// If a text is not an expression, a name is unknown, or `set` fails.
    pub fn each(&self, facts: Properties, set: &mut dyn FnMut(&str, i64) -> Result<(), String>) -> Result<(), String> {
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
    /// Returns the bytes of the struct that the program takes.
    ///
    /// # Errors
    /// If an argument has no value, or the struct is larger than [`MAX_CONTEXT`].
    pub fn context(&self, facts: Properties) -> Result<Vec<u8>, String> {
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
                        "{}: the arguments take more than {MAX_CONTEXT} bytes, the limit for a program: reduce 'times'",
                        self.program
                    ));
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the members' current values by the names that the profile gives them. For an array,
    /// it is the first element's.
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
    /// Returns the text of the value, and its size in bytes.
    fn parts(&self) -> (&str, usize) {
        match self.value.strip_suffix(":u64") {
            Some(text) => (text, 8),
            None => (&self.value, 4),
        }
    }
}

#[cfg(test)]
mod tests;
