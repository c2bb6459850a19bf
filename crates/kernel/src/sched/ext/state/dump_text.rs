// SPDX-License-Identifier: GPL-2.0-only
//! The text of the debug dump while it is being written, and functions that format parts of it.

use crate::sched::class::state::Class;
use std::fmt::Write;

/// Maximum length of a dump in bytes, regardless of ops.exit_dump_len.
pub(crate) const MAX_DUMP: usize = 64 << 20;

pub(crate) const TRUNCATED: &str = "\n\n~~~~ TRUNCATED ~~~~\n";

/// The debug dump that is being written (struct scx_dump_data).
#[derive(Default)]
pub struct Dump {
    pub(crate) text: String,
    /// Output of the policy that is not yet in `text`, because its line is not complete.
    pub(crate) line: String,
    /// Indentation of each line of the policy's output.
    pub(crate) prefix: &'static str,
    /// Whether the running ops.dump*() callback has not printed anything yet.
    pub(crate) first: bool,
    /// Whether an ops.dump*() callback is running.
    pub(crate) open: bool,
    /// Address of the struct scx_dump_ctx that is passed to the callbacks.
    pub(crate) context: u64,
    /// Maximum length of the dump in bytes. `text` may exceed it by one line until it is truncated.
    pub(crate) max: usize,
}

impl Dump {
    pub(crate) fn flush(&mut self) {
        if self.line.is_empty() {
            return;
        }
        if self.text.len() > self.max {
            self.line.clear();
            return;
        }
        if std::mem::take(&mut self.first) {
            self.text.push('\n');
        }
        let line = std::mem::take(&mut self.line);
        for part in line.strip_suffix('\n').unwrap_or(&line).split('\n') {
            let _ = writeln!(self.text, "{}{part}", self.prefix);
        }
    }
}

pub(crate) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Rt => "rt_sched_class",
        Class::Ext => "ext_sched_class",
        Class::Fair => "fair_sched_class",
        Class::Idle => "idle_sched_class",
    }
}

/// Formats a CPU mask in hexadecimal, in groups of 32 bits (`%*pb`). `word` returns the 64-bit word
/// of the mask with an index.
pub(crate) fn mask(word: impl Fn(u32) -> u64, nr_cpus: u32) -> String {
    let groups = nr_cpus.div_ceil(32);
    let mut text = String::new();
    for group in (0..groups).rev() {
        let word = (word(group / 2) >> (group % 2 * 32)) as u32;
        let bits = (nr_cpus - group * 32).min(32);
        let digits = bits.div_ceil(4) as usize;
        let _ = write!(text, "{word:0digits$x}");
        if group > 0 {
            text.push(',');
        }
    }
    text
}
