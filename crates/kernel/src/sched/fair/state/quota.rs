// SPDX-License-Identifier: GPL-2.0-only
//! State of the cgroup limit cpu.max: the pool of runtime of each group, and the runtime of the
//! group's queue on each CPU.

use crate::sched::fair::state::entity::CfsRqId;
use crate::simulation::id::{CpuId, TaskId};

/// Runtime that a CPU's queue takes from the group's pool in one step (sched_cfs_bandwidth_slice),
/// ns.
pub(crate) const SLICE_NS: u64 = 5_000_000;

/// Runtime that a queue keeps when it becomes empty (min_cfs_rq_runtime), ns.
pub(crate) const KEPT_NS: i64 = 1_000_000;

/// Time from the return of runtime to the pool until it is distributed to throttled queues
/// (cfs_bandwidth_slack_period), ns.
pub(crate) const SLACK_PERIOD_NS: u64 = 5_000_000;

/// Runtime that was returned to the pool is distributed only if the period continues for at least
/// this time after the distribution (min_bandwidth_expiration), ns.
pub(crate) const SLACK_MARGIN_NS: u64 = 2_000_000;

/// The limit of a group and its pool of runtime (struct cfs_bandwidth).
#[derive(Default)]
pub(crate) struct Bandwidth {
    /// CPU time per period, ns; `None` for no limit.
    pub(crate) quota: Option<u64>,
    pub(crate) period_ns: u64,
    /// Unused time of earlier periods that may be used in addition to the quota, ns.
    pub(crate) burst_ns: u64,
    /// Runtime in the pool, ns.
    pub(crate) runtime: u64,
    /// Whether no runtime has been taken from the pool since the period began.
    pub(crate) idle: bool,
    /// Whether the period timer is running.
    pub(crate) active: bool,
    /// CPU on which the period timer fires.
    pub(crate) cpu: CpuId,
    /// Time at which the period timer fires, ns.
    pub(crate) expires: u64,
    /// Whether the event that distributes returned runtime is pending.
    pub(crate) slack_pending: bool,
    /// Generation number of the pending timer events of this group. Events with other numbers are
    /// ignored.
    pub generation: u32,
    /// Throttled queues in the order in which they were throttled.
    pub(crate) throttled: Vec<CfsRqId>,
}

/// The runtime of a queue.
#[derive(Default)]
pub(crate) struct Runtime {
    /// Remaining runtime, ns. It is negative if the queue has used more than it had.
    pub(crate) remaining: i64,
    /// Time that the queue's running entity has run, but that the queue has not been charged for, ns, if
    /// the entity is a group. It is negative if the queue was charged after the running task was.
    pub(crate) behind: i64,
    pub(crate) throttled: bool,
    /// Number of throttled queues among this queue and those above it.
    pub(crate) throttle_count: u32,
    /// Throttled tasks of this queue that wait for the end of throttling, in the order in which they
    /// are queued again: the task that was throttled last comes first (throttled_limbo_list).
    pub(crate) limbo: Vec<TaskId>,
    /// Whether the clock of the queue's load averages stands still, because the queue is empty and
    /// throttled (pelt_clock_throttled).
    pub(crate) pelt_clock_stopped: bool,
    /// Time of this clock when it was stopped, on the clock of the CPU, ns (throttled_clock_pelt).
    pub(crate) pelt_clock_stopped_at: u64,
    /// Sum of the times for which it stood still, ns (throttled_clock_pelt_time).
    pub(crate) pelt_clock_lost: u64,
    /// The value of `pelt_clock_lost` when the queue became empty, or when its averages last decayed
    /// since then (throttled_pelt_idle).
    pub(crate) pelt_clock_lost_idle: u64,
}

impl Bandwidth {
    /// Returns the state of a group without a limit. `generation` is the generation number of the
    /// group until now. The new state has the next number, so pending events become invalid.
    pub fn after(generation: u32) -> Bandwidth {
        Bandwidth {
            generation: generation.wrapping_add(1),
            ..Bandwidth::default()
        }
    }

    /// Adds the quota to the pool. The pool holds at most the quota plus the burst
    /// (__refill_cfs_bandwidth_runtime).
    pub(crate) fn refill(&mut self) {
        if let Some(quota) = self.quota {
            self.runtime = (self.runtime + quota).min(quota + self.burst_ns);
        }
    }
}

impl Runtime {
    pub(crate) fn limbo(&self) -> &[TaskId] {
        &self.limbo
    }
}
