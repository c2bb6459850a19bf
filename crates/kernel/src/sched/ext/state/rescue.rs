// SPDX-License-Identifier: GPL-2.0-only
//! State of rescues (Linux 7.3): tasks that may not use any CPU of their policy, and that the kernel
//! runs nevertheless, for a small share of the CPU time.

use crate::layout::enums::*;
use crate::sched::ext::state::ops_table::OpsTable;
use crate::simulation::id::{IDLE, TaskId};

/// Settings of rescues, from the root policy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RescueKnobs {
    /// Share of a CPU's time for rescues, in 1/1024; 0 turns rescues off.
    pub(crate) bandwidth: i64,
    /// CPU time of a rescue, ns.
    pub(crate) quantum_ns: i64,
    /// Time after which any budget is full again, ns.
    pub(crate) saturated_ns: i64,
    /// Half-life of the average CPU time of rescues, in jiffies.
    pub(crate) halflife: u64,
    /// Time for which a task may wait for a rescue, in jiffies. After it, a sub-scheduler is ejected.
    pub(crate) overload_after: u64,
}

impl RescueKnobs {
    /// Returns the settings of a root policy (scx_rescue_set_knobs). The machine has ticks of
    /// `tick_ns` ns.
    pub(crate) fn new(ops: &OpsTable, tick_ns: u64) -> RescueKnobs {
        if u64::from(ops.rescue_bandwidth_ppt) == SCX_RESCUE_DISABLE {
            return RescueKnobs::default();
        }
        let or = |value: u32, default: u64| if value == 0 { default } else { value.into() };
        let bandwidth = or(ops.rescue_bandwidth_ppt, SCX_RESCUE_DFL_BW_PPT) * 1024 / 1000;
        let quantum_ns = (or(ops.rescue_quantum_us, SCX_RESCUE_DFL_QUANTUM_US) * 1000).max(tick_ns);
        let period_ns = (quantum_ns << 10) / bandwidth;
        let jiffies = |ms: u64| (ms * 1_000_000).div_ceil(tick_ns);
        let overload_after = (SCX_RESCUE_OVERLOAD_MULT * period_ns / tick_ns)
            .clamp(jiffies(SCX_RESCUE_MIN_OVERLOAD_MS), jiffies(SCX_RESCUE_MAX_OVERLOAD_MS));
        RescueKnobs {
            bandwidth: bandwidth as i64,
            quantum_ns: quantum_ns as i64,
            saturated_ns: (((4 * quantum_ns + tick_ns) << 10) / bandwidth) as i64,
            halflife: overload_after / 4,
            overload_after,
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.bandwidth != 0
    }
}

/// Rescues of a CPU (scx_rq.rescue). The tasks that wait are on the CPU's rescue DSQ.
#[derive(Debug)]
pub(crate) struct Rescue {
    /// The task that is being rescued, or IDLE.
    pub(crate) curr: TaskId,
    /// CPU time that the rescue grants, ns.
    pub(crate) slice: i64,
    /// CPU time that the task had used when the rescue began, ns.
    pub(crate) exec_snap: u64,
    /// CPU time that rescues may use, ns.
    pub(crate) budget: i64,
    /// Time of the last update of `budget`, ns.
    pub(crate) clock: u64,
    /// Jiffy of the last ejection of a sub-scheduler.
    pub(crate) kill_at: u64,
    /// Time at which the timer fires, ns.
    pub(crate) timer: Option<u64>,
}

impl Default for Rescue {
    fn default() -> Rescue {
        Rescue {
            curr: IDLE,
            slice: 0,
            exec_snap: 0,
            budget: 0,
            clock: 0,
            kill_at: 0,
            timer: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_a_cpu_rescues_5_ms_in_250_ms() {
        let knobs = RescueKnobs::new(&OpsTable::default(), 1_000_000);
        assert_eq!((knobs.bandwidth, knobs.quantum_ns), (20, 5_000_000));
        // 16 periods of 256 ms, in jiffies of 1 ms.
        assert_eq!((knobs.overload_after, knobs.halflife), (4096, 1024));
        let off = OpsTable {
            rescue_bandwidth_ppt: u32::MAX,
            ..OpsTable::default()
        };
        assert!(!RescueKnobs::new(&off, 1_000_000).is_enabled());
    }
}
