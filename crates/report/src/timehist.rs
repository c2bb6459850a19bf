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

#[derive(Clone, Copy, Default)]
struct Task {
    /// Time at which the task last left a CPU.
    left: Option<u64>,
    /// Time at which the task was woken, if it has not run since.
    woken: Option<u64>,
}

/// Writes the rows while records are added. After an I/O error it writes nothing more.
/// [`Timehist::finish`] then returns the error.
pub struct Timehist<W: Write> {
    to: W,
    failed: Option<io::Error>,
    follow: Follow,
    tasks: ByNumber<Task>,
    /// Time of the last switch on each CPU.
    switched: Vec<Option<u64>>,
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
            tasks: ByNumber::new(),
            switched: vec![None; nr_cpus],
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
        let &Record { cpu, ref event, .. } = record;
        let time = record.local_time();
        match *event {
            Event::Waking { pid, .. } | Event::Wakeup { pid, .. } => {
                self.tasks.entry(pid).woken.get_or_insert(time);
            }
            Event::Switch { prev, next, .. } if prev != next => {
                let since = self.switched[cpu as usize].replace(time);
                if prev != 0 {
                    self.row(time, cpu, prev, since);
                }
            }
            _ => {}
        }
        self.follow.add(record);
    }

    /// Writes the row of a task that leaves a CPU. `since` is the time at which the task got the
    /// CPU, if this is known.
    fn row(&mut self, time: u64, cpu: u32, pid: u32, since: Option<u64>) {
        let task = self.tasks.entry(pid);
        let (woken, left) = (task.woken.take(), task.left.replace(time));
        let before = |then: Option<u64>| match (then, since) {
            (Some(then), Some(since)) => since.saturating_sub(then),
            _ => 0,
        };
        let ran = since.map_or(0, |since| time.saturating_sub(since));
        let (wait, delay) = (before(left), before(woken));
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
                cut_ms(wait),
                cut_ms(delay),
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
