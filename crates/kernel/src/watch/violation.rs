// SPDX-License-Identifier: GPL-2.0-only
//! Violations of invariants, and what is watched to find them.

use crate::simulation::id::TaskId;
use std::collections::BTreeMap;

/// A broken invariant. Times in ns since the run's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub from: u64,
    /// When it was over, or the run was.
    pub until: u64,
    pub pid: u32,
    pub comm: String,
    /// The CPU that idled, or that the task may not use.
    pub cpu: Option<u32>,
}

/// All violations of one invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub count: u64,
    /// Whose beginning was first.
    pub first: Option<Violation>,
    /// The one that lasted longest.
    pub worst: Option<Violation>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) since: u64,
    /// Since when it may run where it may: a change of its CPUs begins anew.
    pub(super) allowed_since: u64,
}

#[derive(Debug, Default)]
pub struct Invariants {
    pub(super) idle_bound_ns: u64,
    pub(super) starvation_bound_ns: u64,
    /// Since when each CPU idles.
    pub(super) idle_since: Vec<Option<u64>>,
    pub(super) waiting: BTreeMap<TaskId, Waiting>,
    pub idle_while_waiting: Tally,
    pub starvation: Tally,
    pub affinity: Tally,
}

impl Tally {
    pub(super) fn add(&mut self, violation: Violation) {
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
