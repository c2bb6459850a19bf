// SPDX-License-Identifier: GPL-2.0-only
//! Profiles: files that replace a policy's user-space part, the program that loads the policy on a
//! real machine. A profile contains the settings that this program makes after it has opened the
//! policy's object and before it attaches the policy.
//!
//! Values are [expressions](expression). They can use properties of the machine and enumerators of
//! the kernel. The indices of a setting determine for which CPUs, groups or words of CPU masks the
//! setting is repeated, for example:
//! - `cpu_capacity[cpu]` is set for each CPU.
//! - `dom_cpumasks[llc][word]` is set for each LLC, and for each word of its CPU mask.
//! - `steal_order[cpu * 128 + near]` is set for each pair of CPUs.
//!
//! profiles/README.md lists the names.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod error;
mod expression;
mod facts;
pub mod file;
mod fit;
mod group;
mod path;

pub use error::{ExpressionError, Misfit, ProfileError};
pub use facts::{Enumerators, Properties};
pub use fit::OPS;
pub use group::{Group, Instance, instances};

use bpf::object::Object;
use path::Path;
use serde::Serialize;

/// Maximum size of the argument of a program of type syscall, in bytes (bpf_prog_test_run_syscall).
const MAX_CONTEXT: usize = u16::MAX as usize;

/// The profile of one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// A text that names the work of the policy's user-space part that this profile does not do.
    /// Empty if nothing important is missing.
    pub absent: String,
    /// How long the machine has been up when the policy is loaded, in ns.
    pub uptime_ns: u64,
    /// Longest permitted exit latency of the idle states of all CPUs, us (pm_qos_resume_latency_us in
    /// /sys). With an empty text or 0, there is no limit.
    pub resume_latency_us: String,
    /// Names that the profile defines, with their values, in alphabetical order.
    pub names: Vec<(String, String)>,
    /// Globals and elements of globals, with their values.
    pub set: Vec<Setting>,
    /// Arrays to resize, with their numbers of elements.
    pub resize: Vec<(String, String)>,
    /// Maps to resize, with their numbers of entries.
    pub max_entries: Vec<(String, String)>,
    /// Maps of maps. An inner map is created for each entry, as the object declares it.
    pub inner_maps: Vec<String>,
    /// Map entries and members of map entries, with their values. The first index is the key. In a
    /// per-CPU map, the second index is the CPU.
    pub map: Vec<Setting>,
    /// Values to set in the callback table: `flags`, `timeout_ms` and so on.
    pub ops: Vec<(String, String)>,
    /// Fields of the kernel's structs that are not modelled, with the values that they have for the
    /// policy, for example `task_struct.min_flt`.
    pub fields: Vec<(String, String)>,
    /// Callbacks to remove from the callback table.
    pub without: Vec<String>,
    /// Name of the callback table to attach, if the object has several. If it is empty, the first
    /// table that attaches automatically is used.
    pub struct_ops: String,
    /// Programs to attach although they do not attach automatically.
    pub attach: Vec<String>,
    /// Programs that must not be attached although they would attach automatically.
    pub detach: Vec<String>,
    /// Programs of type syscall to run, in this order.
    pub run: Vec<Run>,
}

/// A global, a map entry or a word of memory, with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub path: String,
    pub value: String,
    /// Condition under which the value is set. An empty condition is always true.
    pub when: String,
}

/// An entry `[[run]]`: runs a program of type syscall.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Run {
    pub program: String,
    /// Kind of group for each of which the program runs once. With `None`, the program runs once in
    /// total.
    pub each: Option<Group>,
    /// Condition under which the program runs. An empty condition is always true.
    pub when: String,
    /// CPU on which the program runs. If it is empty, the program runs on the first CPU.
    pub on: String,
    /// Whether the program runs after the policy is enabled. Otherwise it runs before.
    pub after: bool,
    /// Values of the members of the struct that is passed to the program as its argument.
    pub args: Vec<Arg>,
    /// Names for the values that the members have after the program has returned, in the order of
    /// the members.
    pub result: Vec<String>,
    /// Words of 64 bits in the policy's memory that are set after the program has returned. Their
    /// addresses are results of programs.
    pub memory: Vec<Setting>,
    /// Programs to run after this one, for the same CPU, core and so on. They can use its results.
    pub then: Vec<Run>,
}

/// A member of the struct that is passed to a program. It is an `s32`, or a 64-bit number if `:u64`
/// follows the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arg {
    pub value: String,
    /// Number of elements, if the member is an array. In the value of an element, `i` is the index
    /// of the element.
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
    /// Returns the expression to which the profile sets a global variable as a whole. Returns `None`
    /// if the profile does not set the variable, or sets it only under a condition.
    pub fn value_of(&self, variable: &str) -> Option<&str> {
        let mut settings = self.set.iter();
        let found = settings.find(|setting| setting.path == variable && setting.when.is_empty())?;
        Some(&found.value)
    }

    /// Computes the values of the names that the profile defines.
    ///
    /// # Errors
    /// A name has no value.
    pub fn names(&self, facts: Properties) -> Result<Vec<(String, i64)>, ProfileError> {
        let mut known = Vec::new();
        for (name, text) in &self.names {
            let value = facts.with_results(&known).value(text)?;
            known.push((name.clone(), value));
        }
        Ok(known)
    }

    /// Resizes arrays and sets globals in an object. The object must not be linked yet.
    ///
    /// # Errors
    /// Parts of the profile do not fit the object. The error lists all of them.
    pub fn apply(&self, object: &mut Object, facts: Properties) -> Result<(), ProfileError> {
        let misfits = self.clone().fit(object, facts)?;
        if misfits.is_empty() {
            return Ok(());
        }
        Err(ProfileError::Misfits(misfits))
    }
}

/// Passes `value` to `set` as text. Values of expressions are signed, so a large unsigned value
/// appears as a negative number. If the variable's type refuses the negative number, the unsigned
/// numbers with the same bits are tried.
pub fn fitting<E>(value: i64, mut set: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
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

    /// Calls `set` with every path to which this setting expands, and with the value for that path.
    ///
    /// # Errors
    /// A text is not an expression, a name is unknown, or `set` fails.
    pub fn each<E: From<ProfileError>>(
        &self,
        facts: Properties,
        set: &mut dyn FnMut(&str, i64) -> Result<(), E>,
    ) -> Result<(), E> {
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
    /// Returns the bytes of the struct that is passed to the program.
    ///
    /// # Errors
    /// An argument has no value, or the struct is larger than [`MAX_CONTEXT`].
    pub fn context(&self, facts: Properties) -> Result<Vec<u8>, ProfileError> {
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
                    return Err(ProfileError::ArgumentsTooLong(self.program.clone()));
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the current values of the members that have a name in `result`, with these names.
    /// The value of an array is its first element.
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
    /// Returns the text of the value without the suffix, and the size of the value in bytes.
    fn parts(&self) -> (&str, usize) {
        match self.value.strip_suffix(":u64") {
            Some(text) => (text, 8),
            None => (&self.value, 4),
        }
    }
}

#[cfg(test)]
mod tests;
