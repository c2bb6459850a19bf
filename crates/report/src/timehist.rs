// SPDX-License-Identifier: GPL-2.0-only
//! Prints the table of `perf sched timehist` for any trace. The table has a row for each time that
//! a task leaves a CPU.
//!
//! The columns are the same as in perf:
//!
//! - wait time: time that the task was off the CPU, sleeping or waiting, before it got the CPU.
//! - sch delay: the part of the wait time from the task's wake-up until it got the CPU. It is 0 if
//!   the task was preempted.
//! - run time: time that the task ran.
//!
//! Times before the first switch of a CPU are unknown and count as 0. Times in ms are truncated,
//! not rounded.

use crate::latency::seconds;
use std::io::{self, Write};
use trace::escape;
use trace::{ByNumber, Event, Follow, Record, Sink};

/// The time in ns that a task was off the CPU before its turn, and the part of it after its wake-up.
#[derive(Clone, Copy, Default)]
struct Before {
    wait: u64,
    delay: u64,
}

/// Writes the rows while records are added. After an I/O error it writes nothing more.
/// [`Timehist::finish`] then returns the error.
pub struct Timehist<W: Write> {
    to: W,
    failed: Option<io::Error>,
    follow: Follow,
    /// Time at which each task last left a CPU.
    left: ByNumber<Option<u64>>,
    /// Times before the current turn of each CPU.
    before: Vec<Before>,
}

const HEADER: [&str; 3] = [
    "           time    cpu  task name                       wait time  sch delay   run time",
    "                        [tid/pid]                          (msec)     (msec)     (msec)",
    "--------------- ------  ------------------------------  ---------  ---------  ---------",
];

impl<W: Write> Timehist<W> {
    pub fn new(mut to: W, nr_cpus: usize) -> Timehist<W> {
        Timehist {
            failed: writeln!(to, "{}", HEADER.join("\n")).err(),
            to,
            follow: Follow::new(nr_cpus),
            left: ByNumber::new(),
            before: vec![Before::default(); nr_cpus],
        }
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// Returns the first I/O error since [`Timehist::new`].
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }

    fn add(&mut self, record: &Record) {
        let ended = self.follow.add(record);
        let (time, cpu) = (record.local_time(), record.cpu);
        let Event::Switch { prev, next, .. } = record.event else {
            return;
        };
        if prev == next {
            return;
        }
        let left = *self.left.entry(next);
        let now = Before {
            wait: left.map_or(0, |left| time.saturating_sub(left)),
            delay: ended.wait.filter(|wait| wait.woken).map_or(0, |wait| wait.ns),
        };
        let before = std::mem::replace(&mut self.before[cpu as usize], now);
        if let Some((pid, since)) = ended.turn {
            *self.left.entry(pid) = Some(time);
            self.row(time, cpu, pid, since, before);
        }
    }

    /// Writes the row of a task that leaves a CPU. `since` is the time at which the task got the
    /// CPU, if this is known.
    fn row(&mut self, time: u64, cpu: u32, pid: u32, since: Option<u64>, before: Before) {
        let ran = since.map_or(0, |since| time.saturating_sub(since));
        let task = self.follow.task(pid);
        let comm = escape::line(&task.comm);
        let name = match task.tgid {
            tgid if tgid == pid => format!("{comm}[{pid}]"),
            tgid => format!("{comm}[{pid}/{tgid}]"),
        };
        if self.failed.is_none() {
            self.failed = writeln!(
                self.to,
                "{:>15} [{cpu:04}]  {name:<30}  {:>9}  {:>9}  {:>9} ",
                seconds(time),
                cut_ms(before.wait),
                cut_ms(before.delay),
                cut_ms(ran)
            )
            .err();
        }
    }
}

/// Formats a time in ms with three decimals, truncated.
fn cut_ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

impl<W: Write> Sink for Timehist<W> {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
