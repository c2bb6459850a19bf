// SPDX-License-Identifier: GPL-2.0-only
//! The state of cpu.max: of a group, and of its queue on a CPU.

use super::entity::CfsRqId;
use crate::simulation::id::{CpuId, TaskId};

/// What a CPU takes at once (sched_cfs_bandwidth_slice), ns.
pub(super) const SLICE_NS: u64 = 5_000_000;

/// An empty queue keeps this much (min_cfs_rq_runtime), ns.
pub(super) const KEPT_NS: i64 = 1_000_000;

/// What came back is given out after this long (cfs_bandwidth_slack_period), ns.
pub(super) const SLACK_PERIOD_NS: u64 = 5_000_000;

/// Unless the period ends sooner than this after it (min_bandwidth_expiration), ns.
pub(super) const SLACK_MARGIN_NS: u64 = 2_000_000;

/// A group's limit and pool (struct cfs_bandwidth).
#[derive(Default)]
pub(super) struct Bandwidth {
    /// ns a period; `None`: no limit.
    pub(super) quota: Option<u64>,
    pub(super) period_ns: u64,
    /// ns of earlier periods that may be used beyond the quota.
    pub(super) burst_ns: u64,
    /// Pool, ns.
    pub(super) runtime: u64,
    /// The pool was not asked since the period began.
    pub(super) idle: bool,
    /// The timer runs, on `cpu`, and fires at `expires`.
    pub(super) active: bool,
    pub(super) cpu: CpuId,
    pub(super) expires: u64,
    pub(super) slack_pending: bool,
    /// Of pending events.
    pub generation: u32,
    /// Throttled queues in the order in which they became so.
    pub(super) throttled: Vec<CfsRqId>,
}

/// What a queue has of the pool.
#[derive(Default)]
pub(super) struct Runtime {
    /// ns; below 0 what was used beyond it.
    pub(super) remaining: i64,
    pub(super) throttled: bool,
    /// Tasks that wait for the queue, or one above, to be unthrottled.
    pub(super) limbo: Vec<TaskId>,
}

impl Bandwidth {
    /// No limit; events of before are void.
    pub fn after(generation: u32) -> Bandwidth {
        Bandwidth {
            generation: generation.wrapping_add(1),
            ..Bandwidth::default()
        }
    }

    /// __refill_cfs_bandwidth_runtime
    pub(super) fn refill(&mut self) {
        if let Some(quota) = self.quota {
            self.runtime = (self.runtime + quota).min(quota + self.burst_ns);
        }
    }
}

impl Runtime {
    pub fn limbo(&self) -> &[TaskId] {
        &self.limbo
    }
}
