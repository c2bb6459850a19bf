// SPDX-License-Identifier: GPL-2.0-only
//! Divides the time of a workload into parts that add up, to say where the difference between two
//! runs comes from.
//!
//! If all tasks of the workload exit, the time is that of the critical path, which leads from the
//! exit of the task that exits last back to the start of the run. Where a task slept until another
//! task woke it, the path continues in the waker; where a task is new, in its parent. At each time,
//! the path is thus in exactly one task, which computes, waits for a CPU, or sleeps until an
//! interrupt wakes it. The lengths of these parts add up to the completion time, so the differences
//! of the parts add up to the difference of the completion times.
//!
//! A workload that does not end has no such path. Its time is that of all tasks together: at each
//! time of its life, a task computes, waits or sleeps. Divided by the number of operations, this is
//! the time that one operation takes, as the sum of its parts.
//!
//! Detail records ([`Event::is_detail`]) divide the time of a task on a CPU further. Without them, a
//! task computes during all of this time.

use crate::turns::{Lost, Turns};
use std::collections::BTreeMap;
use thiserror::Error;
use trace::label::stem;
use trace::{ByNumber, Event, Follow, KTHREADD, Record, Sink, TaskState};

/// Maximum number of changes of tasks that are kept. A run with more has no parts.
const MAX_STEPS: usize = 50_000_000;

/// Why the time of a run cannot be divided.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Undivided {
    #[error("the run has not ended")]
    Unfinished,
    #[error("the run has more than {0} switches and wake-ups")]
    TooLong(usize),
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentKind {
    /// It computes. This is the time that the fastest CPU would need.
    Computing,
    /// Additional time, because the CPU is slower than the fastest one.
    SlowerCpu,
    /// Additional time, because the CPU does not run at its highest frequency.
    Frequency,
    /// Additional time, because other hardware threads of the core are busy.
    Siblings,
    /// Additional time, because memory is remote, or shared with other tasks.
    Memory,
    /// The task's data is loaded into the caches again after a switch.
    Reload,
    /// The kernel uses the task's CPU.
    Kernel,
    /// Callbacks of the policy use the task's CPU.
    Policy,
    /// The kernel or the policy waits for a lock on the task's CPU.
    Locks,
    /// The task is runnable, but has no CPU, while all CPUs are busy.
    Waiting,
    /// The task is runnable, but has no CPU, while a CPU is idle.
    WaitingWhileIdle,
    /// The task sleeps. On the critical path: until an interrupt, such as a timer's, wakes it.
    Sleeping,
    /// The workload has not started the task yet.
    NotStarted,
}

impl SegmentKind {
    pub const ALL: [SegmentKind; 13] = [
        SegmentKind::Computing,
        SegmentKind::SlowerCpu,
        SegmentKind::Frequency,
        SegmentKind::Siblings,
        SegmentKind::Memory,
        SegmentKind::Reload,
        SegmentKind::Kernel,
        SegmentKind::Policy,
        SegmentKind::Locks,
        SegmentKind::Waiting,
        SegmentKind::WaitingWhileIdle,
        SegmentKind::Sleeping,
        SegmentKind::NotStarted,
    ];

    /// Describes the part of a task.
    pub fn text(self) -> &'static str {
        match self {
            SegmentKind::Computing => "computes",
            SegmentKind::SlowerCpu => "loses time on slower CPUs",
            SegmentKind::Frequency => "loses time to low frequencies",
            SegmentKind::Siblings => "loses time to busy SMT siblings",
            SegmentKind::Memory => "loses time to remote or shared memory",
            SegmentKind::Reload => "reloads caches",
            SegmentKind::Kernel => "has its CPU used by the kernel",
            SegmentKind::Policy => "has its CPU used by the policy",
            SegmentKind::Locks => "has its CPU wait for locks",
            SegmentKind::Waiting => "waits for a CPU, all being busy",
            SegmentKind::WaitingWhileIdle => "waits for a CPU while one is idle",
            SegmentKind::Sleeping => "sleeps",
            SegmentKind::NotStarted => "is not started yet",
        }
    }
}

/// A part: which tasks do what, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Name of the tasks, without a number at its end.
    pub tasks: String,
    pub kind: SegmentKind,
    /// Capacity of the CPUs, if the part is time on a CPU and the machine's CPUs differ.
    pub capacity: Option<u32>,
}

/// Lengths of parts in ns.
pub type Parts = BTreeMap<Part, u64>;

/// The time of a run, divided into parts.
#[derive(Clone, Debug, Default)]
pub struct Divided {
    /// Parts of the critical path. `None` if not all tasks have exited.
    pub path: Option<Parts>,
    /// Parts of the time of all tasks. Background work is not included.
    pub tasks: Parts,
    /// Number of operations that the tasks completed.
    pub operations: u64,
}

/// A change of what a task does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// `turn` is its number in [`Turns`].
    On {
        cpu: u32,
        turn: usize,
    },
    Off {
        runnable: bool,
    },
    /// `waker` is 0 if an interrupt woke the task.
    Woken {
        waker: u32,
    },
    New {
        parent: u32,
    },
    Exited,
}

/// Reads the records of a run.
pub struct Path {
    /// Capacities of the CPUs. Empty if all are equal.
    capacities: Vec<u32>,
    follow: Follow,
    steps: ByNumber<Vec<(u64, Step)>>,
    number: usize,
    most: usize,
    turns: Turns,
    /// Times at which the first CPU became idle or the last idle CPU became busy, with the time
    /// until then during which a CPU was idle.
    idle: Vec<(u64, u64)>,
    nr_idle: usize,
    /// Time and task of the last exit, and the number of living tasks of the workload.
    last: Option<(u64, u32)>,
    alive: i64,
    noise: Vec<u32>,
    operations: u64,
}

impl Path {
    /// Returns an empty path for a machine with `nr_cpus` CPUs. `capacities` are those of the CPUs,
    /// or empty if they are unknown.
    pub fn new(nr_cpus: usize, capacities: &[u32]) -> Path {
        let differ = capacities.windows(2).any(|two| two[0] != two[1]);
        Path {
            capacities: if differ { capacities.to_vec() } else { Vec::new() },
            follow: Follow::new(nr_cpus),
            steps: ByNumber::new(),
            number: 0,
            most: MAX_STEPS,
            turns: Turns::new(nr_cpus),
            idle: vec![(0, 0)],
            nr_idle: nr_cpus,
            last: None,
            alive: 0,
            noise: Vec::new(),
            operations: 0,
        }
    }

    /// Sets the maximum number of changes of tasks that are kept, each of which takes about 40
    /// bytes.
    #[must_use]
    pub fn with_limit(mut self, steps: usize) -> Path {
        self.most = steps;
        self
    }

    /// Returns the parts of a run that ended at `end`.
    pub fn finish(mut self, end: u64) -> Result<Divided, Undivided> {
        if self.number > self.most {
            return Err(Undivided::TooLong(self.most));
        }
        self.turns.finish(end);
        let last = self.last.filter(|_| self.alive == 0);
        let path = last.map(|(time, pid)| self.critical(time, pid));
        Ok(Divided {
            path,
            tasks: self.all_tasks(end),
            operations: self.operations,
        })
    }

    /// Returns the parts of the critical path, which ends in the task `pid`.
    fn critical(&mut self, end: u64, mut pid: u32) -> Parts {
        let mut parts = Parts::new();
        let mut time = end;
        // For each task, the number of its steps that are before the current place of the path.
        let mut left: BTreeMap<u32, usize> = BTreeMap::new();
        loop {
            let steps = self.steps.get(pid).map_or(&[][..], Vec::as_slice);
            let mut at = left.get(&pid).copied().unwrap_or(steps.len());
            while at > 0 && (steps[at - 1].0 > time || matches!(steps[at - 1].1, Step::Exited)) {
                at -= 1;
            }
            left.insert(pid, at.saturating_sub(1));
            let Some(&(begin, step)) = at.checked_sub(1).map(|at| &steps[at]) else {
                self.add(&mut parts, pid, SegmentKind::NotStarted, None, time);
                return parts;
            };
            self.add_step(&mut parts, pid, step, begin, time);
            match step {
                Step::Woken { waker: 0 } => {}
                Step::Woken { waker } => pid = waker,
                Step::New { parent } if parent == 0 || parent == KTHREADD => {
                    self.add(&mut parts, pid, SegmentKind::NotStarted, None, begin);
                    return parts;
                }
                Step::New { parent } => pid = parent,
                Step::On { .. } | Step::Off { .. } | Step::Exited => {}
            }
            time = begin;
        }
    }

    /// Returns the parts of the time of all tasks.
    fn all_tasks(&mut self, end: u64) -> Parts {
        let mut parts = Parts::new();
        for (pid, steps) in std::mem::replace(&mut self.steps, ByNumber::new()).into_sorted() {
            if self.noise.contains(&pid) {
                continue;
            }
            let ends = steps.iter().skip(1).map(|&(time, _)| time).chain([end]);
            for (&(begin, step), until) in steps.iter().zip(ends) {
                self.add_step(&mut parts, pid, step, begin, until.max(begin));
            }
        }
        parts
    }

    /// Adds what a task does from `begin`, where it makes a step, until `end`.
    fn add_step(&mut self, parts: &mut Parts, pid: u32, step: Step, begin: u64, end: u64) {
        let length = end - begin;
        match step {
            Step::On { cpu, turn } => self.add_turn(parts, pid, cpu, turn, length),
            Step::Off { runnable: true } | Step::Woken { .. } | Step::New { .. } => {
                let idle = self.idle_until(end).saturating_sub(self.idle_until(begin)).min(length);
                self.add(parts, pid, SegmentKind::WaitingWhileIdle, None, idle);
                self.add(parts, pid, SegmentKind::Waiting, None, length - idle);
            }
            Step::Off { runnable: false } => self.add(parts, pid, SegmentKind::Sleeping, None, length),
            Step::Exited => {}
        }
    }

    /// Adds the last `length` ns of a turn.
    fn add_turn(&mut self, parts: &mut Parts, pid: u32, cpu: u32, turn: usize, length: u64) {
        let capacity = self.capacities.get(cpu as usize).copied();
        let Lost { ns, whole } = self.turns.get(turn);
        let mut rest = length;
        for (kind, lost) in Turns::KINDS.into_iter().zip(ns) {
            // The path may contain only a part of the turn.
            let share = u128::from(lost) * u128::from(length) / u128::from(whole.max(length).max(1));
            let share = u64::try_from(share).unwrap_or(rest).min(rest);
            self.add(parts, pid, kind, capacity, share);
            rest -= share;
        }
        self.add(parts, pid, SegmentKind::Computing, capacity, rest);
    }

    /// Returns the time until `time` during which at least one CPU was idle.
    fn idle_until(&self, time: u64) -> u64 {
        let at = self.idle.partition_point(|&(since, _)| since <= time);
        let Some(&(since, sum)) = at.checked_sub(1).map(|at| &self.idle[at]) else {
            return 0;
        };
        // The entries with even indices begin a time with an idle CPU.
        if at % 2 == 1 { sum + (time - since) } else { sum }
    }

    fn add(&mut self, parts: &mut Parts, pid: u32, kind: SegmentKind, capacity: Option<u32>, ns: u64) {
        if ns > 0 {
            let tasks = stem(&self.follow.task(pid).comm).to_owned();
            let sum = parts.entry(Part { tasks, kind, capacity }).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    fn step(&mut self, pid: u32, time: u64, step: Step) {
        self.number += 1;
        if pid != 0 && self.number <= self.most {
            let steps = self.steps.entry(pid);
            // Local times of different CPUs are not ordered.
            let time = steps.last().map_or(time, |&(last, _)| time.max(last));
            steps.push((time, step));
        }
    }

    /// Counts the CPUs that are idle after a switch or a hotplug event.
    fn set_idle(&mut self, time: u64, before: bool, after: bool) {
        let had = self.nr_idle > 0;
        // In a damaged trace, a CPU can leave the idle task twice.
        self.nr_idle = (self.nr_idle + usize::from(after)).saturating_sub(usize::from(before));
        let has = self.nr_idle > 0;
        if had != has {
            let sum = self.idle_until(time);
            self.idle.push((time, sum));
        }
    }

    fn add_record(&mut self, record: &Record) {
        if self.number > self.most {
            // The run has no parts, so nothing more is kept.
            self.steps = ByNumber::new();
            self.turns = Turns::new(0);
            return;
        }
        let (time, cpu) = (record.local_time(), record.cpu);
        match record.event {
            Event::TaskNew { pid, parent, .. } => {
                if parent == KTHREADD {
                    self.noise.push(pid);
                } else {
                    self.alive += 1;
                }
                // A pid may have belonged to another task.
                self.steps.entry(pid).clear();
                self.step(pid, time, Step::New { parent });
            }
            Event::TaskExit { pid } => {
                self.alive -= 1;
                self.last = Some((time, pid));
                self.step(pid, time, Step::Exited);
            }
            Event::Waking { pid, waker } => self.step(pid, time, Step::Woken { waker }),
            Event::Switch { prev, prev_state, next } if prev != next => {
                self.set_idle(record.time, prev == 0, next == 0);
                let turn = self.turns.switch(cpu, time);
                if prev_state != TaskState::Dead {
                    let runnable = prev_state == TaskState::Running;
                    self.step(prev, time, Step::Off { runnable });
                }
                self.step(next, time, Step::On { cpu, turn });
            }
            Event::Hotplug { online } if self.follow.current(cpu) == 0 => {
                self.set_idle(record.time, !online, online);
            }
            Event::Done { count, .. } => self.operations = self.operations.saturating_add(count.into()),
            _ => self.turns.add(record),
        }
        self.follow.add(record);
    }
}

impl Sink for Path {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add_record(record));
    }
}

#[cfg(test)]
mod tests;
