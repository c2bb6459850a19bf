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
        pub cpu: i32,
        pub online: i32,
        pub scx: scx_rq,
    }
}
