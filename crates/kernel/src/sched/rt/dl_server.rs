// SPDX-License-Identifier: GPL-2.0-only
//! State of a deadline server (struct sched_dl_entity). It reserves CPU time for tasks of the fair
//! and ext classes, so that real-time tasks cannot starve them.

/// Period of the server, ns.
pub(super) const PERIOD_NS: u64 = 1_000_000_000;

/// CPU time that the server reserves for the fair and ext classes in each period, ns.
pub(super) const RUNTIME_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Off,
    /// The server waits until zero laxity, the last time at which the reserved CPU time still fits
    /// into the period. At the start of the period, the fair and ext classes had used `served_ns`
    /// of CPU time in total.
    Waiting { served_ns: u64 },
    /// Tasks of the fair and ext classes run before real-time tasks, until they have used
    /// `until_ns` of CPU time in total. The next period starts at `replenish_at`.
    Running { until_ns: u64, replenish_at: u64 },
    /// The reserved CPU time of this period has been used.
    Resting,
}

#[derive(Default)]
pub struct Server {
    pub(super) state: State,
}
