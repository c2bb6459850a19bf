// SPDX-License-Identifier: GPL-2.0-only
//! Divides the completion time of a workload into parts that add up, to say where the difference
//! between two runs comes from.
//!
//! The critical path leads from the exit of the task that exits last back to the start of the run.
//! Where a task slept until another task woke it, the path continues in the waker; where a task is
//! new, in its parent. At each time, the path is thus in exactly one task, which computes, waits for
//! a CPU, or sleeps until an interrupt wakes it. The lengths of these parts add up to the completion
//! time, so the differences of the parts add up to the difference of the completion times.

use std::collections::BTreeMap;
use trace::label::stem;
use trace::{ByNumber, Event, Follow, KTHREADD, Record, Sink, TaskState};

/// Maximum number of changes of tasks that are kept. A run with more has no path.
const MAX_STEPS: usize = 50_000_000;
/// Capacity of the fastest CPU.
const FULL: u64 = 1024;

/// What the path does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task computes. This is the time that the fastest CPU would need.
    Computing,
    /// Additional time, because the CPU is slower than the fastest one.
    SlowerCpu,
    /// The kernel and the policy use the task's CPU.
    Overhead,
    /// A task is runnable, but has no CPU.
    Waiting,
    /// A task sleeps until an interrupt, such as a timer's, wakes it.
    Sleeping,
    /// The workload has not started the task yet.
    NotStarted,
}

impl Kind {
    /// Describes the part of a task.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Computing => "computes",
            Kind::SlowerCpu => "computes on slower CPUs",
            Kind::Overhead => "has its CPU used by the kernel and the policy",
            Kind::Waiting => "waits for a CPU",
            Kind::Sleeping => "sleeps until an interrupt",
            Kind::NotStarted => "is not started yet",
        }
    }
}

/// Lengths of the parts of a path in ns, by name of the tasks and kind. The names have no numbers at
/// their ends.
pub type Parts = BTreeMap<(String, Kind), u64>;

/// A change of what a task does.
#[derive(Clone, Copy, Debug)]
enum Step {
    On {
        cpu: u32,
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
}

/// Reads the records of a run.
pub struct Path {
    capacities: Vec<u32>,
    follow: Follow,
    steps: ByNumber<Vec<(u64, Step)>>,
    number: usize,
    /// For each CPU, times at which overhead was reported, with its sum so far.
    overhead: Vec<Vec<(u64, u64)>>,
    /// Time and task of the last exit, and the number of living tasks of the workload.
    last: Option<(u64, u32)>,
    alive: i64,
}

impl Path {
    /// Returns an empty path. `capacities` are those of the CPUs.
    pub fn new(capacities: Vec<u32>) -> Path {
        let nr_cpus = capacities.len();
        Path {
            capacities,
            follow: Follow::new(nr_cpus),
            steps: ByNumber::new(),
            number: 0,
            overhead: vec![Vec::new(); nr_cpus],
            last: None,
            alive: 0,
        }
    }

    /// Returns the parts of the critical path.
    ///
    /// # Errors
    /// Not all tasks of the workload have exited, or the run has too many switches.
    pub fn finish(mut self) -> Result<Parts, String> {
        if self.number > MAX_STEPS {
            return Err(format!("a run has more than {MAX_STEPS} switches and wake-ups"));
        }
        let Some((end, pid)) = self.last.filter(|_| self.alive == 0) else {
            return Err("a difference is divided into parts only if all tasks of the workload exit".into());
        };
        let mut parts = Parts::new();
        let (mut pid, mut time) = (pid, end);
        // For each task, the number of its steps that are before the current place of the path.
        let mut left: BTreeMap<u32, usize> = BTreeMap::new();
        loop {
            let steps = self.steps.get(pid).map_or(&[][..], Vec::as_slice);
            let mut at = left.get(&pid).copied().unwrap_or(steps.len());
            while at > 0 && steps[at - 1].0 > time {
                at -= 1;
            }
            left.insert(pid, at.saturating_sub(1));
            let Some(&(begin, step)) = at.checked_sub(1).map(|at| &steps[at]) else {
                self.add(&mut parts, pid, Kind::NotStarted, time);
                return Ok(parts);
            };
            let length = time - begin;
            match step {
                Step::On { cpu } => self.add_computing(&mut parts, pid, cpu, begin, time),
                Step::Off { runnable: true } => self.add(&mut parts, pid, Kind::Waiting, length),
                Step::Off { runnable: false } => self.add(&mut parts, pid, Kind::Sleeping, length),
                Step::Woken { waker } => {
                    self.add(&mut parts, pid, Kind::Waiting, length);
                    if waker != 0 {
                        pid = waker;
                    }
                }
                Step::New { parent } => {
                    self.add(&mut parts, pid, Kind::Waiting, length);
                    if parent == 0 || parent == KTHREADD {
                        self.add(&mut parts, pid, Kind::NotStarted, begin);
                        return Ok(parts);
                    }
                    pid = parent;
                }
            }
            time = begin;
        }
    }

    fn add(&mut self, parts: &mut Parts, pid: u32, kind: Kind, ns: u64) {
        if ns > 0 {
            let name = stem(&self.follow.task(pid).comm).to_owned();
            *parts.entry((name, kind)).or_default() += ns;
        }
    }

    /// Adds the time of a task on a CPU.
    fn add_computing(&mut self, parts: &mut Parts, pid: u32, cpu: u32, begin: u64, end: u64) {
        let sums = &self.overhead[cpu as usize];
        let sum = |time: u64| {
            let before = sums.partition_point(|&(at, _)| at <= time);
            before.checked_sub(1).map_or(0, |last| sums[last].1)
        };
        let length = end - begin;
        let overhead = (sum(end) - sum(begin)).min(length);
        let computing = length - overhead;
        let capacity = u64::from(self.capacities[cpu as usize]).min(FULL);
        let fast = u64::try_from(u128::from(computing) * u128::from(capacity) / u128::from(FULL)).unwrap_or(computing);
        self.add(parts, pid, Kind::Overhead, overhead);
        self.add(parts, pid, Kind::Computing, fast);
        self.add(parts, pid, Kind::SlowerCpu, computing - fast);
    }

    fn step(&mut self, pid: u32, time: u64, step: Step) {
        self.number += 1;
        if pid != 0 && self.number <= MAX_STEPS {
            self.steps.entry(pid).push((time, step));
        }
    }

    fn add_record(&mut self, record: &Record) {
        let (time, cpu) = (record.time, record.cpu);
        match record.event {
            Event::TaskNew { pid, parent, .. } => {
                self.alive += i64::from(parent != KTHREADD);
                // A pid may have belonged to another task.
                self.steps.entry(pid).clear();
                self.step(pid, time, Step::New { parent });
            }
            Event::TaskExit { pid } => {
                self.alive -= 1;
                self.last = Some((time, pid));
            }
            Event::Waking { pid, waker } => self.step(pid, time, Step::Woken { waker }),
            Event::Switch { prev, prev_state, next } if prev != next => {
                let runnable = prev_state == TaskState::Running;
                self.step(prev, time, Step::Off { runnable });
                self.step(next, time, Step::On { cpu });
            }
            Event::Overhead { ns } => {
                let sums = &mut self.overhead[cpu as usize];
                let sum = sums.last().map_or(0, |&(_, sum)| sum);
                sums.push((time, sum.saturating_add(ns)));
            }
            _ => {}
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
mod tests {
    use super::*;
    use trace::TaskState::{Dead, Interruptible, Running};

    /// CPU 1 has half the speed of CPU 0. `cc1` computes on CPU 0 and wakes `ld1`, which waits and
    /// then runs on CPU 1. A timer interrupts its run.
    fn records() -> Vec<Record> {
        let new = |pid, comm: &str| Event::TaskNew {
            pid,
            tgid: pid,
            parent: 0,
            prio: 120,
            comm: comm.into(),
        };
        let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
        let events = [
            (100, 0, new(1, "cc1")),
            (100, 0, new(2, "ld1")),
            (100, 1, switch(0, Running, 2)),
            (110, 1, switch(2, Interruptible, 0)),
            (120, 0, switch(0, Running, 1)),
            (500, 0, Event::Overhead { ns: 30 }),
            (520, 0, Event::Waking { pid: 2, waker: 1 }),
            (540, 0, switch(1, Dead, 0)),
            (540, 0, Event::TaskExit { pid: 1 }),
            (600, 1, switch(0, Running, 2)),
            (700, 1, switch(2, Interruptible, 0)),
            (800, 1, Event::Waking { pid: 2, waker: 0 }),
            (800, 1, switch(0, Running, 2)),
            (1000, 1, Event::TaskExit { pid: 2 }),
        ];
        let record = |(time, cpu, event)| Record {
            time,
            cpu,
            after: 0,
            event,
        };
        events.map(record).to_vec()
    }

    #[test]
    fn the_parts_of_the_critical_path_add_up() {
        let mut path = Path::new(vec![1024, 512]);
        path.take(&records());
        let parts = path.finish().expect("all tasks exit");
        let part = |name: &str, kind, ns| ((name.to_owned(), kind), ns);
        let want = [
            part("cc", Kind::Computing, 370),
            part("cc", Kind::Overhead, 30),
            part("cc", Kind::Waiting, 20),
            part("cc", Kind::NotStarted, 100),
            part("ld", Kind::Computing, 150),
            part("ld", Kind::SlowerCpu, 150),
            part("ld", Kind::Waiting, 80),
            part("ld", Kind::Sleeping, 100),
        ];
        assert_eq!(parts, Parts::from(want));
        assert_eq!(parts.values().sum::<u64>(), 1000);
    }

    #[test]
    fn a_workload_that_does_not_end_has_no_path() {
        let mut path = Path::new(vec![1024; 2]);
        path.take(&records()[..12]);
        let error = path.finish().expect_err("task 2 has not exited");
        assert!(error.contains("only if all tasks of the workload exit"), "{error}");
    }

    #[test]
    fn tasks_that_wake_each_other_at_one_time_end_the_path() {
        let mut records = records();
        let waking = |pid, waker| Record {
            time: 700,
            cpu: 1,
            after: 0,
            event: Event::Waking { pid, waker },
        };
        records.splice(11..11, [waking(2, 1), waking(1, 2), waking(2, 1), waking(1, 2)]);
        let mut path = Path::new(vec![1024; 2]);
        path.take(&records);
        let parts = path.finish().expect("all tasks exit");
        assert_eq!(parts.values().sum::<u64>(), 1000);
    }
}
