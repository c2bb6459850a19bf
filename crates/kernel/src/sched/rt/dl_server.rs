// SPDX-License-Identifier: GPL-2.0-only
//! State of a deadline server (struct sched_dl_entity), which reserves CPU time for the fair and
//! ext classes.

/// Period of the server, ns.
pub(super) const PERIOD_NS: u64 = 1_000_000_000;

/// CPU time that the server reserves in each period, ns.
pub(super) const RUNTIME_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Off,
    /// The server's timer is set to zero laxity: the last time at which the reserved time still
    /// fits into the period. The other classes had used `served_ns` of CPU time when the period
    /// began.
    Waiting { served_ns: u64 },
    /// The other classes run first until they have used `until_ns` of CPU time in total. The next
    /// period starts at `replenish_at`.
    Running { until_ns: u64, replenish_at: u64 },
    /// The reserved time of this period is used up.
    Resting,
}

#[derive(Default)]
pub struct Server {
    pub(super) state: State,
}
