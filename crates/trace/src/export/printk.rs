// SPDX-License-Identifier: GPL-2.0-only
//! Prints the lines of a policy (bpf_printk) as tracefs' `trace_pipe` does, while the run goes on.

use super::ftrace::{printed, write_line};
use crate::event::{Event, Record, Sink};
use crate::follow::Follow;
use std::io::Write;

/// Prints the lines to `to`. Errors are ignored, because the lines are messages to a terminal.
pub struct Printk<W: Write> {
    to: W,
    /// Text before each line.
    prefix: String,
    follow: Follow,
}

impl<W: Write> Printk<W> {
    /// Returns a printer for a machine with `nr_cpus` CPUs.
    pub fn new(to: W, prefix: &str, nr_cpus: usize) -> Printk<W> {
        Printk {
            to,
            prefix: prefix.to_owned(),
            follow: Follow::new(nr_cpus),
        }
    }
}

impl<W: Write> Sink for Printk<W> {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            if let Event::Printk { text } = &record.event {
                let mut line = self.prefix.clone().into_bytes();
                let (name, fields) = printed(text);
                write_line(&mut line, &mut self.follow, record, name, &fields);
                let _ = self.to.write_all(&line);
            }
            self.follow.add(record);
        }
        let _ = self.to.flush();
    }
}
