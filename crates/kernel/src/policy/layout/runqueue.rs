// SPDX-License-Identifier: GPL-2.0-only
//! What a policy sees of a CPU: `rq`, the per-CPU variable `runqueues`.

use super::task_struct;
use bpf::kstruct;

kstruct! {
    pub struct scx_rq {
        /// As set by scx_bpf_cpuperf_set.
        pub cpuperf_target: u32,
    }

    pub struct rq {
        pub curr: *mut task_struct,
        pub idle: *mut task_struct,
        pub clock: u64,
        pub clock_task: u64,
        /// CPU time in terms of the machine's fastest CPU while something runs, `clock_task` again when it idles.
        pub clock_pelt: u64,
        /// 0: it grows when a CPU idles whose fair tasks had no idle time.
        pub lost_idle_time: u64,
        pub cpu: i32,
        pub online: i32,
        pub scx: scx_rq,
    }
}

impl rq {
    /// Its clocks go on to `clock` (update_rq_clock_task, update_rq_clock_pelt) on a CPU of this capacity, which idled or not.
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
