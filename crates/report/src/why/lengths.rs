// SPDX-License-Identifier: GPL-2.0-only
//! Lengths of the steps that tasks and CPUs go through. A turn is the time from the switch to a
//! task until the switch away from it.

use crate::Histogram;
use serde::Serialize;

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// From sched_waking to the switch to the task.
    Wakeup,
    /// From a preemption to the next switch to the task.
    Preempted,
    /// Turn that ends because the task blocks or exits.
    BlockedTurn,
    /// Turn that ends while the task is runnable.
    PreemptedTurn,
    /// From the switch away from a task that blocks to its next wake-up.
    Sleep,
    /// Time during which a CPU runs no task.
    Idle,
}

impl Step {
    pub(super) const ALL: [Step; 6] = [
        Step::Wakeup,
        Step::Preempted,
        Step::BlockedTurn,
        Step::PreemptedTurn,
        Step::Sleep,
        Step::Idle,
    ];

    /// Returns a description in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Step::Wakeup => "wake-up to running",
            Step::Preempted => "preempted, waiting",
            Step::BlockedTurn => "turn until it blocks",
            Step::PreemptedTurn => "turn until preempted",
            Step::Sleep => "sleep",
            Step::Idle => "idle time of a CPU",
        }
    }
}

/// Lengths of all steps of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Lengths {
    histogram: Histogram<7>,
    sum_ns: u64,
    first_ns: Option<u64>,
}

/// Count and lengths of all steps of one kind. Times are in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LengthsOfSide {
    pub count: u64,
    pub sum_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Time at which the first step of this kind ended.
    pub first_ns: Option<u64>,
}

impl Lengths {
    /// Adds a step of `ns` that ended at the time `at`.
    pub(super) fn add(&mut self, ns: u64, at: u64) {
        self.histogram.add(ns);
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.first_ns.get_or_insert(at);
    }

    pub(super) fn figures(&self) -> LengthsOfSide {
        LengthsOfSide {
            count: self.histogram.count(),
            sum_ns: self.sum_ns,
            p50_ns: self.histogram.quantile(500_000),
            p99_ns: self.histogram.quantile(990_000),
            max_ns: self.histogram.max(),
            first_ns: self.first_ns,
        }
    }
}
