// SPDX-License-Identifier: GPL-2.0-only
//! Prints the table of `perf sched latency` for any trace.
//!
//! As in perf, a delay begins when a task is woken, or when it loses the CPU while it is runnable.
//! It ends when the task gets a CPU. A task that starts to run without a wake-up has no delay.
//! Tasks with the same name share a row. The row with the longest mean delay is the first.
//!
//! The runtime is the time that a task spent on a CPU. In perf, it is the sum of the values of
//! sched_stat_runtime.

use std::collections::BTreeMap;
use std::fmt::Write;
use trace::escape;
use trace::{ByNumber, Event, Follow, Record, Sink, TaskState};

/// Runtime and delays of a task, or of all tasks with the same name.
#[derive(Clone, Copy, Default)]
struct Delays {
    runtime_ns: u64,
    count: u64,
    total_ns: u64,
    max_ns: u64,
    /// Time at which the longest delay began.
    max_start: u64,
}

impl Delays {
    fn add_runtime(&mut self, ns: u64) {
        self.runtime_ns = self.runtime_ns.saturating_add(ns);
    }
}

/// The sink (consumer of records) that measures the delays of all tasks.
pub struct Latency {
    follow: Follow,
    tasks: ByNumber<Delays>,
    /// Totals of the tasks that have exited, by name. An entry has the pid of the first task, the
    /// number of tasks, and their sums.
    by_name: BTreeMap<String, (u32, u32, Delays)>,
}

impl Latency {
    pub fn new(nr_cpus: usize) -> Latency {
        Latency {
            follow: Follow::new(nr_cpus),
            tasks: ByNumber::new(),
            by_name: BTreeMap::new(),
        }
    }

    fn add(&mut self, record: &Record) {
        let ended = self.follow.add(record);
        let Event::Switch { prev, prev_state, next } = record.event else {
            return;
        };
        let time = record.local_time();
        if let Some((pid, Some(since))) = ended.turn {
            self.tasks.entry(pid).add_runtime(time.saturating_sub(since));
        }
        if prev_state == TaskState::Dead && prev != next {
            self.add_to_name(prev);
        }
        if next != 0 && prev != next {
            let delays = self.tasks.entry(next);
            delays.count += 1;
            if let Some(wait) = ended.wait {
                delays.total_ns = delays.total_ns.saturating_add(wait.ns);
                if wait.ns > delays.max_ns {
                    (delays.max_ns, delays.max_start) = (wait.ns, wait.since);
                }
            }
        }
    }

    /// Adds the counters of a task to the totals for its name.
    fn add_to_name(&mut self, pid: u32) {
        let Delays {
            runtime_ns,
            count,
            total_ns,
            max_ns,
            max_start,
        } = std::mem::take(self.tasks.entry(pid));
        if count == 0 {
            return;
        }
        let name = self.follow.task(pid).comm.clone();
        let (_, tasks, sum) = self.by_name.entry(name).or_insert((pid, 0, Delays::default()));
        *tasks += 1;
        sum.runtime_ns = sum.runtime_ns.saturating_add(runtime_ns);
        sum.count = sum.count.saturating_add(count);
        sum.total_ns = sum.total_ns.saturating_add(total_ns);
        if max_ns > sum.max_ns {
            (sum.max_ns, sum.max_start) = (max_ns, max_start);
        }
    }

    /// Returns the table for a trace that ended at `end`.
    pub fn finish(mut self, end: u64) -> String {
        for (pid, since) in self.follow.running() {
            self.tasks.entry(pid).add_runtime(end.saturating_sub(since));
        }
        for (pid, delays) in std::mem::take(&mut self.tasks).into_sorted() {
            *self.tasks.entry(pid) = delays;
            self.add_to_name(pid);
        }
        let mut rows: Vec<_> = self.by_name.into_iter().collect();
        // The sort is stable, so rows with equal delays stay ordered by name.
        rows.sort_by_key(|(_, (_, _, delays))| std::cmp::Reverse(delays.total_ns / delays.count));
        let mut out = format!(
            " {line}\n  {:<22}|   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Max delay start           | Max delay end          |\n {line}\n",
            "Task",
            line = "-".repeat(139)
        );
        let mut total = Delays::default();
        for (name, (pid, tasks, delays)) in &rows {
            let name = escape::line(name);
            let name = match tasks {
                1 => format!("{name}:{pid}"),
                _ => format!("{name}:({tasks})"),
            };
            total.runtime_ns = total.runtime_ns.saturating_add(delays.runtime_ns);
            total.count = total.count.saturating_add(delays.count);
            let _ = writeln!(
                out,
                "  {name:<22}|{:>11} ms |{:>9} | avg:{:>8} ms | max:{:>8} ms | max start:{:>14} s | max end:{:>14} s",
                ms(delays.runtime_ns),
                delays.count,
                ms(delays.total_ns / delays.count),
                ms(delays.max_ns),
                seconds(delays.max_start),
                seconds(delays.max_start + delays.max_ns)
            );
        }
        let line = "-".repeat(113);
        let _ = writeln!(
            out,
            " {line}\n  {:<22}|{:>11} ms |{:>9} |\n {}",
            "TOTAL:",
            ms(total.runtime_ns),
            total.count,
            "-".repeat(51)
        );
        out
    }
}

/// Formats a time in ms with three decimals, rounded.
pub(crate) fn ms(ns: u64) -> String {
    let us = ns / 1000 + u64::from(ns % 1000 >= 500);
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// Formats a time in seconds with six decimals. The rest is cut off, as in perf.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

impl Sink for Latency {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
