// SPDX-License-Identifier: GPL-2.0-only
//! The fields of `struct rq` (per-CPU variable `runqueues`) that a policy can access.

use super::task_struct;
use bpf::kstruct;

kstruct! {
    pub struct scx_rq {
        /// Target set by scx_bpf_cpuperf_set().
        pub cpuperf_target: u32,
    }

    pub struct rq {
        pub curr: *mut task_struct,
        pub idle: *mut task_struct,
        pub clock: u64,
        pub clock_task: u64,
        /// Time scaled by the CPU's capacity while a task runs. It is set to `clock_task` when the
        /// CPU is idle.
        pub clock_pelt: u64,
        /// Always 0. In the kernel it grows when a fully utilised CPU goes idle.
        pub lost_idle_time: u64,
        pub cpu: i32,
        pub online: i32,
        pub scx: scx_rq,
    }
}

impl rq {
    /// Advances the clocks to `clock` (update_rq_clock_task(), update_rq_clock_pelt()) on a CPU of
    /// this capacity that was idle or not.
    #[inline]
    pub(crate) fn advance(&mut self, clock: u64, capacity: u64, idle: bool) {
        self.clock_pelt = match idle {
            true => clock,
            false => self.clock_pelt + clock.saturating_sub(self.clock_task) * capacity / 1024,
        };
        self.clock = clock;
        self.clock_task = clock;
    }
}
