// SPDX-License-Identifier: GPL-2.0-only
//! Structs that sched_ext passes to callbacks, and structs that policies pass to kfuncs.

use crate::layout::{cgroup, task_struct};
use bpf::kstruct;

kstruct! {
    /// Information about the exit of the policy, passed to ops.exit().
    #[derive(Clone, Copy)]
    pub struct scx_exit_info {
        /// SCX_EXIT_*
        pub kind: u32 as enum scx_exit_kind,
        pub exit_cpu: i32,
        pub exit_code: i64,
        /// SCX_EFLAG_*
        pub flags: u64,
        /// Reason for the exit. Like `msg` and `dump`, this is a zero-terminated text.
        pub reason: *mut i8,
        pub msg: *mut i8,
        pub dump: *mut i8,
    }

    #[derive(Clone, Copy)]
    pub struct scx_init_task_args {
        pub fork: bool,
        pub cgroup: *mut cgroup,
    }

    #[derive(Clone, Copy)]
    pub struct scx_exit_task_args {
        pub cancelled: bool,
    }

    /// Arguments of ops.enable() of a struct sched_ext_ops_cid.
    #[derive(Clone, Copy)]
    pub struct scx_enable_args {
        /// Pointer into the policy's arena to a mask of the cids that the task may use.
        pub cmask_arena_addr: u64,
    }

    #[derive(Clone, Copy)]
    pub struct scx_cgroup_init_args {
        /// Weight of the cgroup, from 1 to 10000.
        pub weight: u32,
        pub bw_period_us: u64,
        pub bw_quota_us: u64,
        pub bw_burst_us: u64,
        pub sched_idle: bool,
    }

    #[derive(Clone, Copy)]
    pub struct scx_cpu_acquire_args {}

    #[derive(Clone, Copy)]
    pub struct scx_cpu_release_args {
        /// SCX_CPU_PREEMPT_*
        pub reason: u32 as enum scx_cpu_preempt_reason,
        pub task: *mut task_struct,
    }

    #[derive(Clone, Copy)]
    pub struct scx_dump_ctx {
        /// SCX_EXIT_*
        pub kind: u32 as enum scx_exit_kind,
        pub exit_code: i64,
        pub reason: *mut i8,
        pub at_ns: u64,
        pub at_jiffies: u64,
    }

    /// Event counters, filled by scx_bpf_events().
    #[derive(Clone, Copy)]
    pub struct scx_event_stats {
        pub SCX_EV_SELECT_CPU_FALLBACK: i64,
        pub SCX_EV_DISPATCH_LOCAL_DSQ_OFFLINE: i64,
        pub SCX_EV_DISPATCH_KEEP_LAST: i64,
        pub SCX_EV_ENQ_SKIP_EXITING: i64,
        pub SCX_EV_ENQ_SKIP_MIGRATION_DISABLED: i64,
        pub SCX_EV_REENQ_IMMED: i64,
        pub SCX_EV_REENQ_LOCAL_REPEAT: i64,
        pub SCX_EV_REFILL_SLICE_DFL: i64,
        pub SCX_EV_BYPASS_DURATION: i64,
        pub SCX_EV_BYPASS_DISPATCH: i64,
        pub SCX_EV_BYPASS_ACTIVATE: i64,
        pub SCX_EV_INSERT_NOT_OWNED: i64,
        pub SCX_EV_SUB_BYPASS_DISPATCH: i64,
        pub SCX_EV_SLICE_CLAMPED: i64,
        pub SCX_EV_SLICE_DENIED: i64,
        pub SCX_EV_SUB_FORCED_ADMIT: i64,
        pub SCX_EV_SUB_PREEMPT_DENIED: i64,
        pub SCX_EV_SUB_KICK_DENIED: i64,
        pub SCX_EV_SUB_REENQ_DENIED: i64,
        pub SCX_EV_SUB_CIDPERF_DENIED: i64,
        pub SCX_EV_SUB_RESCUE: i64,
    }

    /// Arguments of __scx_bpf_dsq_insert_vtime().
    #[derive(Clone, Copy)]
    pub struct scx_bpf_dsq_insert_vtime_args {
        pub dsq_id: u64,
        pub slice: u64,
        pub vtime: u64,
        pub enq_flags: u64,
    }

    /// Arguments of __scx_bpf_select_cpu_and().
    #[derive(Clone, Copy)]
    pub struct scx_bpf_select_cpu_and_args {
        pub prev_cpu: i32,
        pub wake_flags: u64,
        pub flags: u64,
    }

    /// An iterator on the stack of a BPF program. Only the kfuncs use its contents.
    #[derive(Clone, Copy)]
    pub struct bpf_iter_scx_dsq {
        pub __opaque: [u64; 6],
    }

    /// Position of a cid (topological CPU number) in the topology, filled by scx_bpf_cid_topo().
    #[derive(Clone, Copy)]
    pub struct scx_cid_topo {
        pub core_cid: i32,
        pub core_idx: i32,
        pub llc_cid: i32,
        pub llc_idx: i32,
        pub node_cid: i32,
        pub node_idx: i32,
        pub shard_cid: i32,
        pub shard_idx: i32,
    }

    /// Bitmap of cids. The first bit of the first word stands for the cid `base & !63`.
    #[derive(Clone, Copy)]
    pub struct scx_cmask {
        pub base: u32,
        pub nr_cids: u32,
        pub alloc_words: u32,
        pub bits: [u64; 0],
    }
}
