// SPDX-License-Identifier: GPL-2.0-only
//! Violations of invariants, and the data from which they are detected.

use crate::simulation::id::TaskId;
use std::collections::BTreeMap;

/// A violation of an invariant. Times are in ns since the run's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub from: u64,
    /// Time at which the violation ended, or the end of the run.
    pub until: u64,
    pub pid: u32,
    pub comm: String,
    /// Path of the cgroup whose sub-scheduler schedules the task. `None` if the root policy or a
    /// different class does.
    pub sub: Option<String>,
    /// CPU that was idle, or CPU that the task was not allowed to use.
    pub cpu: Option<u32>,
}

/// All violations of one invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub count: u64,
    /// The violation that began first.
    pub first: Option<Violation>,
    /// The violation that lasted longest.
    pub worst: Option<Violation>,
}

/// A task that waits for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Time at which the wait began.
    pub(crate) since: u64,
    /// Time since which the task has waited with its current set of allowed CPUs.
    pub(crate) allowed_since: u64,
}

/// State of the invariants that are checked.
#[derive(Debug, Default)]
pub struct Invariants {
    pub(crate) idle_bound_ns: u64,
    pub(crate) starvation_bound_ns: u64,
    /// For each CPU, the time at which it became idle, or `None` if it is busy.
    pub(crate) idle_since: Vec<Option<u64>>,
    pub(crate) waiting: BTreeMap<TaskId, Waiting>,
    pub idle_while_waiting: Tally,
    pub starvation: Tally,
    pub affinity: Tally,
}

impl Tally {
    pub(crate) fn add(&mut self, violation: Violation) {
        self.count += 1;
        let length = |v: &Violation| v.until - v.from;
        if self
            .worst
            .as_ref()
            .is_none_or(|worst| length(&violation) > length(worst))
        {
            self.worst = Some(violation.clone());
        }
        if self.first.as_ref().is_none_or(|first| violation.from < first.from) {
            self.first = Some(violation);
        }
    }
}
