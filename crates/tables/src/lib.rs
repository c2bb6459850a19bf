// SPDX-License-Identifier: GPL-2.0-only
//! The records of a run as Arrow tables, one table for each kind of event.
//!
//! [`Tables`] is a sink: it collects records while a run goes on. [`Tables::finish`] returns the
//! tables. Times are in ns since the start of the run. They are local times: the simulated time
//! plus the time that the CPU still has to spend on earlier work of the kernel and the policy.
//! Columns with few different texts, such as the names of callbacks, are dictionaries.
//!
//! | table | a row is |
//! |---|---|
//! | `switches` | a context switch (sched_switch) |
//! | `wakeups` | a wake-up, with the time until the task ran |
//! | `migrations` | a task that moved to another CPU |
//! | `callbacks` | a call of one of the policy's callbacks |
//! | `locks` | a wait for a lock |
//! | `tasks` | a task, with its totals |

mod column;
mod tasks;

use arrow_array::RecordBatch;
use column::{Table, Words};
use tasks::Tasks;
use trace::{Event, MigrateReason, Record, Sink, TaskState};

/// The names of the tables, in alphabetical order.
pub const NAMES: [&str; 6] = ["callbacks", "locks", "migrations", "switches", "tasks", "wakeups"];

/// Collects the records of a run.
pub struct Tables {
    switches: Switches,
    wakeups: Wakeups,
    migrations: Migrations,
    callbacks: Callbacks,
    locks: Locks,
    tasks: Tasks,
}

#[derive(Default)]
struct Switches {
    time: Vec<u64>,
    cpu: Vec<u32>,
    prev: Vec<u32>,
    prev_state: Words,
    next: Vec<u32>,
}

#[derive(Default)]
struct Wakeups {
    time: Vec<u64>,
    cpu: Vec<u32>,
    waker: Vec<u32>,
    pid: Vec<u32>,
    target: Vec<Option<u32>>,
    new: Vec<bool>,
    latency: Vec<Option<u64>>,
}

#[derive(Default)]
struct Migrations {
    time: Vec<u64>,
    cpu: Vec<u32>,
    pid: Vec<u32>,
    from: Vec<u32>,
    to: Vec<u32>,
    reason: Words,
}

#[derive(Default)]
struct Callbacks {
    time: Vec<u64>,
    cpu: Vec<u32>,
    callback: Words,
    insns: Vec<u32>,
    ns: Vec<u32>,
}

#[derive(Default)]
struct Locks {
    time: Vec<u64>,
    cpu: Vec<u32>,
    lock: Vec<u32>,
    ns: Vec<u64>,
    /// Names of locks by their numbers.
    names: Vec<String>,
}

impl Tables {
    /// Returns a sink for a run on a machine with `nr_cpus` CPUs. `callbacks` are the names of the
    /// callbacks ([`trace::Header::ops`]).
    pub fn new(nr_cpus: usize, callbacks: &[String]) -> Tables {
        Tables {
            switches: Switches {
                prev_state: Words::new(["running", "interruptible", "uninterruptible", "dead"]),
                ..Switches::default()
            },
            wakeups: Wakeups::default(),
            migrations: Migrations {
                reason: Words::new(["wakeup", "fork", "exec", "balance", "affinity"]),
                ..Migrations::default()
            },
            callbacks: Callbacks {
                callback: Words::new(callbacks.iter().map(String::as_str)),
                ..Callbacks::default()
            },
            locks: Locks::default(),
            tasks: Tasks::new(nr_cpus),
        }
    }

    /// Returns the names and the contents of all tables, in the order of [`NAMES`]. `end_ns` is the
    /// time at which the run ended.
    pub fn finish(self, end_ns: u64) -> [(&'static str, RecordBatch); 6] {
        let Tables {
            switches,
            mut wakeups,
            migrations,
            callbacks,
            locks,
            tasks,
        } = self;
        let (tasks, waits) = tasks.finish(end_ns);
        for (row, latency) in waits {
            wakeups.latency[row] = Some(latency);
        }
        let names: Vec<String> = locks
            .lock
            .iter()
            .map(|&lock| locks.names.get(lock as usize).filter(|name| !name.is_empty()))
            .zip(&locks.lock)
            .map(|(name, lock)| name.cloned().unwrap_or_else(|| lock.to_string()))
            .collect();
        [
            (
                "callbacks",
                Table::default()
                    .u64("time_ns", callbacks.time)
                    .u32("cpu", callbacks.cpu)
                    .words("callback", callbacks.callback)
                    .u32("insns", callbacks.insns)
                    .u32("ns", callbacks.ns)
                    .batch(),
            ),
            (
                "locks",
                Table::default()
                    .u64("time_ns", locks.time)
                    .u32("cpu", locks.cpu)
                    .texts("lock", names)
                    .u64("ns", locks.ns)
                    .batch(),
            ),
            (
                "migrations",
                Table::default()
                    .u64("time_ns", migrations.time)
                    .u32("cpu", migrations.cpu)
                    .u32("pid", migrations.pid)
                    .u32("from", migrations.from)
                    .u32("to", migrations.to)
                    .words("reason", migrations.reason)
                    .batch(),
            ),
            (
                "switches",
                Table::default()
                    .u64("time_ns", switches.time)
                    .u32("cpu", switches.cpu)
                    .u32("prev", switches.prev)
                    .words("prev_state", switches.prev_state)
                    .u32("next", switches.next)
                    .batch(),
            ),
            ("tasks", tasks),
            (
                "wakeups",
                Table::default()
                    .u64("time_ns", wakeups.time)
                    .u32("cpu", wakeups.cpu)
                    .u32("waker", wakeups.waker)
                    .u32("pid", wakeups.pid)
                    .optional_u32("target", wakeups.target)
                    .flags("new", wakeups.new)
                    .optional_u64("latency_ns", wakeups.latency)
                    .batch(),
            ),
        ]
    }

    fn add(&mut self, record: &Record) {
        let (time, cpu) = (record.local_time(), record.cpu);
        match record.event {
            Event::Switch { prev, prev_state, next } => {
                let table = &mut self.switches;
                table.time.push(time);
                table.cpu.push(cpu);
                table.prev.push(prev);
                table.prev_state.push(match prev_state {
                    TaskState::Running => 0,
                    TaskState::Interruptible => 1,
                    TaskState::Uninterruptible => 2,
                    TaskState::Dead => 3,
                });
                table.next.push(next);
            }
            Event::Waking { pid, waker } => self.wakeup(time, cpu, pid, waker, None, false),
            Event::Wakeup { pid, target, new } => match self.tasks.waking(pid) {
                Some(row) => self.wakeups.target[row] = Some(target),
                // There is no sched_waking record of this wake-up. The task is new, or the
                // recording lacks this event.
                None => self.wakeup(time, cpu, pid, 0, Some(target), new),
            },
            Event::Migrate { pid, from, to, reason } => {
                let table = &mut self.migrations;
                table.time.push(time);
                table.cpu.push(cpu);
                table.pid.push(pid);
                table.from.push(from);
                table.to.push(to);
                table.reason.push(match reason {
                    MigrateReason::Wakeup => 0,
                    MigrateReason::Fork => 1,
                    MigrateReason::Exec => 2,
                    MigrateReason::Balance => 3,
                    MigrateReason::Affinity => 4,
                });
            }
            Event::Callback { op, insns, after, ns } => {
                let table = &mut self.callbacks;
                table.time.push(record.time + u64::from(after));
                table.cpu.push(cpu);
                table.callback.push(op);
                table.insns.push(insns);
                table.ns.push(ns);
            }
            Event::LockName { lock, ref name } => {
                let names = &mut self.locks.names;
                let index = lock as usize;
                if names.len() <= index {
                    names.resize(index + 1, String::new());
                }
                names[index].clone_from(name);
            }
            Event::LockWait { lock, after, ns } => {
                let table = &mut self.locks;
                table.time.push(record.time + u64::from(after));
                table.cpu.push(cpu);
                table.lock.push(lock);
                table.ns.push(ns);
            }
            _ => {}
        }
        if let Some((row, latency)) = self.tasks.add(record) {
            self.wakeups.latency[row] = Some(latency);
        }
    }

    fn wakeup(&mut self, time: u64, cpu: u32, pid: u32, waker: u32, target: Option<u32>, new: bool) {
        let table = &mut self.wakeups;
        self.tasks.wake(pid, table.time.len());
        table.time.push(time);
        table.cpu.push(cpu);
        table.waker.push(waker);
        table.pid.push(pid);
        table.target.push(target);
        table.new.push(new);
        table.latency.push(None);
    }
}

impl Sink for Tables {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.add(record);
        }
    }
}
