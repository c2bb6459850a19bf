// SPDX-License-Identifier: GPL-2.0-only
//! The state of a deadline server (struct sched_dl_entity).

pub(super) const PERIOD_NS: u64 = 1_000_000_000;

pub(super) const RUNTIME_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Off,
    /// Until zero laxity. The others had used `served_ns` when the period began.
    Waiting {
        served_ns: u64,
    },
    /// Others run first until they have used `until_ns`; the next period starts at `replenish_at`.
    Running {
        until_ns: u64,
        replenish_at: u64,
    },
    Resting,
}

#[derive(Default)]
pub struct Server {
    pub(super) state: State,
}
