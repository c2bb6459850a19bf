// SPDX-License-Identifier: GPL-2.0-only
//! Counts of one run, for comparison with those of another run.

use super::lengths::{LengthsOfSide, Step};
use crate::{Percentiles, RunResult};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use trace::Shared;

/// Number of events of one kind, and the time of the first one in ns since the run's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub count: u64,
    pub first_ns: Option<u64>,
}

impl Tally {
    pub(super) fn add(&mut self, at: u64) {
        self.count += 1;
        self.first_ns.get_or_insert(at);
    }
}

/// A group whose tasks are counted together. Two of the groups have no task name: other programs,
/// and no task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Tasks of the workload with this name.
    Named(String),
    /// Tasks of other programs.
    Others,
    /// No task: the idle task of a switch, or the interrupt handler that wakes a task.
    Nobody,
}

/// Reason why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Block,
    Exit,
    /// The next task was woken shortly before.
    Wakeup,
    /// A tick, the end of a slice, or a yield.
    Tick,
}

/// CPU that was chosen for a woken task: its distance to the waker's CPU, and whether it was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Placement {
    pub same_cpu: bool,
    pub shared: SharedPart,
    pub idle: bool,
}

/// Copy of [`Shared`] whose values can be compared and sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedPart {
    Core,
    Llc,
    Node,
    Machine,
}

impl From<Shared> for SharedPart {
    fn from(shared: Shared) -> SharedPart {
        match shared {
            Shared::Core => SharedPart::Core,
            Shared::Llc => SharedPart::Llc,
            Shared::Node => SharedPart::Node,
            Shared::Machine => SharedPart::Machine,
        }
    }
}

/// A step in a task's course, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Run { cpu: u32 },
    Wake { waker: u32 },
    Preempt { by: u32 },
    Block,
    Exit,
}

/// The course of one task: what it did, with times in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    pub steps: Vec<(u64, Did)>,
    /// Whether steps are missing because the run has too many.
    pub cut: bool,
}

/// Totals of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overview {
    /// Length of the run in ns, from the start of the workload's first task to the exit of its last
    /// task, or to the end of the trace.
    pub run_ns: u64,
    pub tasks: u64,
    pub cpus: u64,
    pub switches: u64,
    /// Number of turns of the workload's tasks.
    pub turns: u64,
    /// Number of operations that the workload completed.
    pub operations: u64,
    /// Number of recorded events.
    pub events: u64,
    /// Time in ns that the recording of these events took, summed over CPUs. No other figure
    /// contains this time.
    pub recording_ns: u64,
    /// Time of the kernel and the policy inside turns and idle time. Only simulated runs report it.
    pub overhead_ns: u64,
}

/// Counts of one run. [`Scan::finish`](super::Scan::finish) returns them.
#[derive(Clone, Debug, Default)]
pub struct Side {
    pub overview: Overview,
    pub(super) groups: BTreeMap<Group, u64>,
    /// Numbers of wake-ups, by the waker's group, the woken task's group and the placement.
    pub(super) wakeups: BTreeMap<(Group, Group, Placement), Tally>,
    /// Numbers of turns that ended, by the task's group, the reason and the group of the task that
    /// runs next.
    pub(super) ends: BTreeMap<(Group, Reason, Group), Tally>,
    pub(super) lengths: BTreeMap<(Group, Step), LengthsOfSide>,
    /// Wake-up latencies of all tasks of the workload.
    pub(super) wakeup: Percentiles,
    /// CPU time by group, summed over CPUs, in ns. [`Group::Nobody`] is idle time.
    pub(super) budget: BTreeMap<Group, u64>,
    /// Courses by group and number.
    pub(super) courses: BTreeMap<(String, u32), Course>,
    /// Group and number of each task, by pid.
    pub(super) identities: BTreeMap<u32, (String, u32)>,
}

impl Side {
    /// Returns the names of the run's tasks.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let named = |group: &Group| match group {
            Group::Named(name) => Some(name.clone()),
            Group::Others | Group::Nobody => None,
        };
        self.groups.keys().filter_map(named).collect()
    }

    /// Replaces a result's wake-up latencies with those that exclude the time spent on recording.
    pub fn correct_latencies(&self, result: &mut RunResult) {
        if self.overview.recording_ns > 0 {
            result.wakeup_latency_ns = self.wakeup;
        }
    }
}
