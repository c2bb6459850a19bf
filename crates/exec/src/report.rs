// SPDX-License-Identifier: GPL-2.0-only
//! The report of a run about its program.

use std::collections::BTreeMap;

/// Largest number of bytes of output that is kept.
#[cfg(target_arch = "x86_64")]
const OUTPUT: usize = 64 << 10;

/// The end and the output of a program.
#[derive(Debug, Default)]
pub struct Report {
    /// The reason why the program could not continue, in one sentence.
    pub failure: Option<String>,
    /// The exit status of a program that ended.
    pub exit_status: Option<i32>,
    /// The kernel's reason for refusing the policy.
    pub refused_policy: Option<Box<kernel::ext::Exit>>,
    /// The object of the program, once it was linked.
    pub image: Option<::bpf::link::Image>,
    /// The profile that was recorded until the program waited for the first time after it had attached
    /// its scheduler, or the reason why it could not be recorded.
    pub recorded: Option<Result<RecordedProfile, input::Error>>,
    /// The last lines that the program printed.
    pub output: String,
    /// Whether the output is also written to standard error at once.
    pub echo: bool,
    /// Warnings about things that are not modelled.
    pub warnings: Vec<String>,
    /// Number of system calls by name.
    pub calls: BTreeMap<String, u64>,
    /// Number of calls that failed because a program may not make them, by name.
    pub refused: BTreeMap<String, u64>,
}

/// A profile that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedProfile {
    /// Contents of the profile's file.
    pub profile: String,
    /// The BPF object that the profile belongs to.
    pub object: Vec<u8>,
}

impl Report {
    /// Records bytes that the program printed.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn print(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if self.echo {
            use std::io::Write;
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        }
        self.output.push_str(&text);
        if self.output.len() > 2 * OUTPUT {
            let mut cut = self.output.len() - OUTPUT;
            while !self.output.is_char_boundary(cut) {
                cut += 1;
            }
            self.output.drain(..cut);
        }
    }

    /// Returns the values of 64-bit globals of the program's object, or 0 for those that do not
    /// exist.
    pub fn globals<const N: usize>(&self, machine: &kernel::Machine, names: [&str; N]) -> [u64; N] {
        names.map(|name| {
            let value = self
                .image
                .as_ref()
                .and_then(|image| image.get(machine.region(), name).ok());
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        })
    }

    /// Returns the last `count` lines that the program printed, without control characters.
    pub fn last_lines(&self, count: usize) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        let last = &lines[lines.len().saturating_sub(count)..];
        let clean = |line: &&str| -> String { line.chars().filter(|c| !c.is_control()).collect() };
        last.iter().map(clean).collect::<Vec<_>>().join("\n")
    }

    /// Returns the error message of a program that could not continue, with its last output.
    pub fn message(&self, command: &str) -> Option<String> {
        let failure = self.failure.as_ref()?;
        let mut message = format!("{command}: {failure}");
        if let Some((call, count)) = self.refused.first_key_value() {
            message += &format!("; its system call {call} was refused ({count} times)");
        }
        let lines = self.last_lines(8);
        if !lines.is_empty() {
            message += &format!("; the last lines of its output:\n{lines}");
        }
        Some(message)
    }
}
