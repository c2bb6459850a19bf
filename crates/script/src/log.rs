// SPDX-License-Identifier: GPL-2.0-only
//! The log of a script.

use kernel::stepping::Happened;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A log that is being written.
#[derive(Default)]
pub(crate) struct Log {
    pub text: String,
    /// The last row of each key.
    rows: BTreeMap<String, String>,
}

impl Log {
    /// Begins the block of a line.
    pub fn begin(&mut self, now: u64, number: usize, line: &str) {
        self.line(&format!("> {now} {number} {line}"));
    }

    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub fn event(&mut self, event: &Happened) {
        writeln!(self.text, "@{} {}", event.time, event.text).expect("writing to a String succeeds");
    }

    /// Adds a row if it differs from the last row with this key.
    pub fn row(&mut self, (key, fields): (String, String)) {
        if self.rows.get(&key) != Some(&fields) {
            self.line(&format!("{key}{fields}"));
            self.rows.insert(key, fields);
        }
    }
}
