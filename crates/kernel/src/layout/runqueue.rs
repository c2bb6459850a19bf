// SPDX-License-Identifier: GPL-2.0-only
//! The fields of `struct rq` that a policy can access. Each CPU has one, in the per-CPU variable
//! `runqueues`.

use crate::layout::task_struct;
use bpf::kstruct;

kstruct! {
    pub struct scx_rq {
        /// Performance target that was set with scx_bpf_cpuperf_set().
        pub cpuperf_target: u32,
    }

    pub struct rq {
        pub curr: *mut task_struct,
        pub idle: *mut task_struct,
        pub clock: u64,
        pub clock_task: u64,
        /// Clock that runs in proportion to the CPU's capacity while a task runs. While the CPU is
        /// idle, it is set to `clock_task`.
        pub clock_pelt: u64,
        /// Always 0. In the kernel it increases when a fully utilized CPU becomes idle.
        pub lost_idle_time: u64,
        pub cpu: i32,
        pub online: i32,
        pub scx: scx_rq,
    }
}

impl rq {
    /// Advances the clocks to the time `clock` (update_rq_clock_task(), update_rq_clock_pelt()).
    /// `capacity` is the capacity of the CPU. `idle` says whether the CPU was idle.
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
