// SPDX-License-Identifier: GPL-2.0-only
//! Collects for each turn of a task, that is, the time from the switch to the task until the switch
//! away from it, how much of its time the kernel, the policy, locks and slowdowns took.

use crate::path::SegmentKind;
use trace::{Event, Record, Slowdown};

/// The time of a turn that was not spent on work at full speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Lengths in ns, in the order of [`Turns::KINDS`].
    pub ns: [u64; 8],
    /// Length of the turn in ns.
    pub whole: u64,
}

/// The turn in progress on a CPU.
#[derive(Clone, Debug, Default)]
struct Current {
    number: usize,
    since: u64,
    lost: [u64; 8],
    /// Callbacks that no other callback contains, as local times.
    callbacks: Vec<(u64, u64)>,
    /// Waits for locks: local time and length.
    locks: Vec<(u64, u64)>,
}

/// The turns of a run.
#[derive(Clone, Debug)]
pub struct Turns {
    cpus: Vec<Current>,
    all: Vec<Lost>,
}

const KERNEL: usize = 5;
const POLICY: usize = 6;
const LOCKS: usize = 7;

impl Turns {
    pub const KINDS: [SegmentKind; 8] = [
        SegmentKind::SlowerCpu,
        SegmentKind::Frequency,
        SegmentKind::Siblings,
        SegmentKind::Memory,
        SegmentKind::Reload,
        SegmentKind::Kernel,
        SegmentKind::Policy,
        SegmentKind::Locks,
    ];

    pub fn new(nr_cpus: usize) -> Turns {
        Turns {
            cpus: vec![Current::default(); nr_cpus],
            all: Vec::new(),
        }
    }

    /// Returns what was lost in a turn.
    pub fn get(&self, turn: usize) -> Lost {
        self.all.get(turn).copied().unwrap_or_default()
    }

    /// Ends the turn on a CPU at a local time, and begins the next. Returns its number.
    pub fn switch(&mut self, cpu: u32, time: u64) -> usize {
        let current = &mut self.cpus[cpu as usize];
        let within = |start: u64| current.callbacks.iter().any(|&(from, to)| (from..to).contains(&start));
        let sum = |sum: u64, ns| sum.saturating_add(ns);
        let waited = current.locks.iter().map(|&(_, ns)| ns).fold(0, sum);
        let inside = current
            .locks
            .iter()
            .filter(|&&(start, _)| within(start))
            .map(|&(_, ns)| ns)
            .fold(0, sum);
        let called = current
            .callbacks
            .iter()
            .map(|&(from, to)| to.saturating_sub(from))
            .fold(0, sum);
        // The record of the kernel's time contains callbacks and waits.
        let kernel = current.lost[KERNEL];
        let locks = waited.min(kernel);
        let policy = called.saturating_sub(inside).min(kernel - locks);
        current.lost[KERNEL] = kernel - locks - policy;
        (current.lost[POLICY], current.lost[LOCKS]) = (policy, locks);
        if current.lost != [0; 8]
            && let Some(lost) = self.all.get_mut(current.number)
        {
            *lost = Lost {
                ns: current.lost,
                whole: time.saturating_sub(current.since),
            };
        }
        current.number = self.all.len();
        self.all.push(Lost::default());
        current.since = time;
        current.lost = [0; 8];
        current.callbacks.clear();
        current.locks.clear();
        current.number
    }

    /// Ends all turns at the end of the run.
    pub fn finish(&mut self, end: u64) {
        for cpu in (0..).take(self.cpus.len()) {
            self.switch(cpu, end);
        }
    }

    /// Adds a record that is no switch.
    pub fn add(&mut self, record: &Record) {
        let Some(current) = self.cpus.get_mut(record.cpu as usize) else {
            return;
        };
        match record.event {
            Event::Slowed { by, ns, .. } => {
                let index = match by {
                    Slowdown::Capacity => 0,
                    Slowdown::Frequency => 1,
                    Slowdown::Siblings => 2,
                    Slowdown::Memory => 3,
                    Slowdown::Reload => 4,
                    Slowdown::Kernel => KERNEL,
                };
                current.lost[index] = current.lost[index].saturating_add(ns);
            }
            Event::Callback { after, ns, .. } => {
                let from = record.time.saturating_add(after.into());
                let to = from.saturating_add(ns.into());
                // The records of nested callbacks precede that of the callback that contains them.
                while current.callbacks.last().is_some_and(|last| last.0 >= from) {
                    current.callbacks.pop();
                }
                current.callbacks.push((from, to));
            }
            Event::LockWait { after, ns, .. } => {
                current.locks.push((record.time.saturating_add(after.into()), ns));
            }
            _ => {}
        }
    }
}
