// SPDX-License-Identifier: GPL-2.0-only
//! The enums of sched_ext with their values in Linux 7.2 and 7.3 (include/linux/sched/ext.h,
//! kernel/sched/ext/{types,internal}.h), and other enums that policies use.
//!
//! Each enumerator is a constant here. It is also part of the BTF of the simulated kernel, against
//! which policies are linked. In BTF, an enum is 64 bits wide if one of its values does not fit
//! into 32 bits. SCX_WATCHDOG_MAX_TIMEOUT is missing, because it is in jiffies and depends on the
//! tick rate of the machine.

/// The name and the enumerators of an enum.
pub struct Enum {
    pub name: &'static str,
    pub values: &'static [(&'static str, u64)],
}

macro_rules! kenum {
    ($($(#[$_doc:meta])* enum $name:ident { $($value:ident = $number:expr,)* })*) => {
        $($(#[allow(non_upper_case_globals)] pub const $value: u64 = $number;)*)*
        /// All enums that a policy can refer to.
        pub const ENUMS: &[Enum] = &[
            $(Enum { name: stringify!($name), values: &[$((stringify!($value), $value),)*] },)*
        ];
    };
}

kenum! {
    /// Default slices in ns, and the maximum length of a policy's name.
    enum scx_public_consts {
        SCX_OPS_NAME_LEN = 128,
        SCX_SLICE_DFL = 20_000_000,
        SCX_SLICE_BYPASS = 5_000_000,
        SCX_SLICE_INF = u64::MAX,
    }
    /// Flags in the ids of DSQs, and the ids of the built-in DSQs.
    enum scx_dsq_id_flags {
        SCX_DSQ_FLAG_BUILTIN = 1 << 63,
        SCX_DSQ_FLAG_LOCAL_ON = 1 << 62,
        SCX_DSQ_INVALID = 1 << 63,
        SCX_DSQ_GLOBAL = 0x8000_0000_0000_0001,
        SCX_DSQ_LOCAL = 0x8000_0000_0000_0002,
        SCX_DSQ_BYPASS = 0x8000_0000_0000_0003,
        SCX_DSQ_REJECT = 0x8000_0000_0000_0004,
        SCX_DSQ_RESCUE = 0x8000_0000_0000_0005,
        SCX_DSQ_LOCAL_ON = 0xc000_0000_0000_0000,
        SCX_DSQ_LOCAL_CPU_MASK = 0xffff_ffff,
    }
    /// Values of `sched_ext_entity.flags`.
    enum scx_ent_flags {
        SCX_TASK_QUEUED = 1,
        SCX_TASK_IN_CUSTODY = 2,
        SCX_TASK_RESET_RUNNABLE_AT = 4,
        SCX_TASK_DEQD_FOR_SLEEP = 8,
        SCX_TASK_SUB_INIT = 16,
        SCX_TASK_IMMED = 32,
        SCX_TASK_PROTECTED = 64,
        SCX_TASK_STATE_SHIFT = 8,
        SCX_TASK_STATE_BITS = 3,
        SCX_TASK_STATE_MASK = 0x700,
        SCX_TASK_NONE = 0,
        SCX_TASK_INIT_BEGIN = 0x100,
        SCX_TASK_INIT = 0x200,
        SCX_TASK_READY = 0x300,
        SCX_TASK_ENABLED = 0x400,
        SCX_TASK_DEAD = 0x500,
        SCX_TASK_REENQ_REASON_SHIFT = 12,
        SCX_TASK_REENQ_REASON_BITS = 3,
        SCX_TASK_REENQ_REASON_MASK = 0x7000,
        SCX_TASK_REENQ_NONE = 0,
        SCX_TASK_REENQ_KFUNC = 0x1000,
        SCX_TASK_REENQ_IMMED = 0x2000,
        SCX_TASK_REENQ_PREEMPTED = 0x3000,
        SCX_TASK_REENQ_CAP = 0x4000,
        SCX_TASK_CURSOR = 1 << 31,
    }
    /// Values of `sched_ext_entity.dsq_flags`.
    enum scx_ent_dsq_flags {
        SCX_TASK_DSQ_ON_PRIQ = 1,
    }
    /// State of a runqueue.
    enum scx_rq_flags {
        SCX_RQ_ONLINE = 1,
        SCX_RQ_CAN_STOP_TICK = 2,
        SCX_RQ_CLK_VALID = 32,
        SCX_RQ_BAL_CB_PENDING = 64,
        SCX_RQ_SUB_IDLE_RENOTIFY = 128,
        SCX_RQ_ROOT_IDLE_RENOTIFY = 256,
        SCX_RQ_IN_WAKEUP = 1 << 16,
        SCX_RQ_IN_BALANCE = 1 << 17,
        SCX_RQ_IN_DISPATCH = 1 << 17,
    }
    /// Reason why a policy ended.
    enum scx_exit_kind {
        SCX_EXIT_NONE = 0,
        SCX_EXIT_DONE = 1,
        SCX_EXIT_UNREG = 64,
        SCX_EXIT_UNREG_BPF = 65,
        SCX_EXIT_UNREG_KERN = 66,
        SCX_EXIT_SYSRQ = 67,
        SCX_EXIT_PARENT = 68,
        SCX_EXIT_PARENT_KILL = 69,
        SCX_EXIT_ERROR = 1024,
        SCX_EXIT_ERROR_BPF = 1025,
        SCX_EXIT_ERROR_STALL = 1026,
        SCX_EXIT_ERROR_REENQ = 1027,
        SCX_EXIT_ERROR_RESCUE = 1028,
    }
    /// Parts of `scx_exit_info.exit_code`.
    enum scx_exit_code {
        SCX_ECODE_RSN_HOTPLUG = 1 << 32,
        SCX_ECODE_RSN_CGROUP_OFFLINE = 1 << 33,
        SCX_ECODE_ACT_RESTART = 1 << 48,
    }
    /// Values of `scx_exit_info.flags`.
    enum scx_exit_flags {
        SCX_EFLAG_INITIALIZED = 1,
    }
    /// Values of `sched_ext_ops.flags`. SCX_OPS_HAS_CGROUP_WEIGHT exists only in older releases,
    /// where it has no effect.
    enum scx_ops_flags {
        SCX_OPS_KEEP_BUILTIN_IDLE = 1,
        SCX_OPS_ENQ_LAST = 2,
        SCX_OPS_ENQ_EXITING = 4,
        SCX_OPS_SWITCH_PARTIAL = 8,
        SCX_OPS_ENQ_MIGRATION_DISABLED = 16,
        SCX_OPS_ALLOW_QUEUED_WAKEUP = 32,
        SCX_OPS_BUILTIN_IDLE_PER_NODE = 64,
        SCX_OPS_ALWAYS_ENQ_IMMED = 128,
        SCX_OPS_TID_TO_TASK = 256,
        SCX_OPS_HAS_CGROUP_WEIGHT = 1 << 16,
        SCX_OPS_ALL_FLAGS = 511,
        __SCX_OPS_INTERNAL_MASK = 0xff00_0000_0000_0000,
        SCX_OPS_HAS_CPU_PREEMPT = 1 << 56,
    }
    /// Reason why a task of another class runs on a CPU instead of ext tasks.
    enum scx_cpu_preempt_reason {
        SCX_CPU_PREEMPT_RT = 0,
        SCX_CPU_PREEMPT_DL = 1,
        SCX_CPU_PREEMPT_STOP = 2,
        SCX_CPU_PREEMPT_UNKNOWN = 3,
    }
    /// Flags of wake-ups.
    enum scx_wake_flags {
        SCX_WAKE_FORK = 4,
        SCX_WAKE_TTWU = 8,
        SCX_WAKE_SYNC = 16,
    }
    /// Flags for enqueueing a task.
    enum scx_enq_flags {
        SCX_ENQ_WAKEUP = 1,
        SCX_ENQ_HEAD = 1 << 16,
        SCX_ENQ_CPU_SELECTED = 1 << 20,
        SCX_ENQ_PREEMPT = 1 << 32,
        SCX_ENQ_IMMED = 1 << 33,
        SCX_ENQ_RESCUE = 1 << 34,
        SCX_ENQ_REENQ = 1 << 40,
        SCX_ENQ_LAST = 1 << 41,
        __SCX_ENQ_INTERNAL_MASK = 0xff00_0000_0000_0000,
        SCX_ENQ_CLEAR_OPSS = 1 << 56,
        SCX_ENQ_DSQ_PRIQ = 1 << 57,
        SCX_ENQ_NESTED = 1 << 58,
        SCX_ENQ_GDSQ_FALLBACK = 1 << 59,
        SCX_ENQ_IGNORE_CAPS = 1 << 60,
        SCX_ENQ_APPLY_SLICE = 1 << 61,
        SCX_ENQ_SLICE_DFL = 1 << 62,
    }
    /// Reasons for dequeueing a task.
    enum scx_deq_flags {
        SCX_DEQ_SLEEP = 1,
        SCX_DEQ_CORE_SCHED_EXEC = 1 << 32,
        SCX_DEQ_SCHED_CHANGE = 1 << 33,
    }
    /// Flags that determine which tasks are enqueued again.
    enum scx_reenq_flags {
        SCX_REENQ_ANY = 1,
        SCX_REENQ_CAP_REVOKE = 2,
        __SCX_REENQ_FILTER_MASK = 0xffff,
        __SCX_REENQ_USER_MASK = 1,
        SCX_REENQ_TSR_RQ_OPEN = 1 << 32,
        SCX_REENQ_TSR_NOT_FIRST = 1 << 33,
        __SCX_REENQ_TSR_MASK = 0xf_0000_0000,
    }
    /// Restrictions on the choice of an idle CPU.
    enum scx_pick_idle_cpu_flags {
        SCX_PICK_IDLE_CORE = 1,
        SCX_PICK_IDLE_IN_NODE = 2,
    }
    /// Kinds of kicks.
    enum scx_kick_flags {
        SCX_KICK_IDLE = 1,
        SCX_KICK_PREEMPT = 2,
        SCX_KICK_WAIT = 4,
    }
    /// State of a cgroup.
    enum scx_tg_flags {
        SCX_TG_ONLINE = 1,
        SCX_TG_INITED = 2,
        SCX_TG_SUB_INIT = 4,
    }
    /// Various limits and default values.
    enum scx_consts {
        SCX_DSP_DFL_MAX_BATCH = 32,
        SCX_DSP_MAX_LOOPS = 32,
        SCX_RESCUE_DFL_BW_PPT = 20,
        SCX_RESCUE_MAX_BW_PPT = 250,
        SCX_RESCUE_DISABLE = 0xffff_ffff,
        SCX_RESCUE_DFL_QUANTUM_US = 5000,
        SCX_RESCUE_MIN_QUANTUM_US = 1000,
        SCX_RESCUE_MAX_QUANTUM_US = 100_000,
        SCX_RESCUE_MIN_SLICE_US = 1000,
        SCX_RESCUE_OVERLOAD_MULT = 16,
        SCX_RESCUE_MIN_OVERLOAD_MS = 1000,
        SCX_RESCUE_MAX_OVERLOAD_MS = 15000,
        SCX_TID_CHUNK = 1024,
        SCX_EXIT_BT_LEN = 64,
        SCX_EXIT_MSG_LEN = 1024,
        SCX_EXIT_DUMP_DFL_LEN = 32768,
        SCX_CPUPERF_ONE = crate::layout::SCHED_CAPACITY_SCALE,
        SCX_TASK_ITER_BATCH = 32,
        SCX_BYPASS_HOST_NTH = 2,
        SCX_BYPASS_LB_DFL_INTV_US = 500_000,
        SCX_BYPASS_LB_DONOR_PCT = 125,
        SCX_BYPASS_LB_MIN_DELTA_DIV = 4,
        SCX_BYPASS_LB_BATCH = 256,
        SCX_REENQ_LOCAL_MAX_REPEAT = 256,
        SCX_REENQ_MAX_REPEAT = 256,
        SCX_SUB_MAX_DEPTH = 4,
    }
    /// Capabilities that a policy grants to a sub-scheduler, each for certain CPUs.
    enum scx_cap_flags {
        __SCX_CAP_ENQ_IMMED = 0,
        __SCX_CAP_ENQ = 1,
        __SCX_CAP_PREEMPT = 2,
        __SCX_CAP_PERF = 3,
        __SCX_NR_CAPS = 4,
        __SCX_CAP_ALL = 15,
        SCX_CAP_ENQ_IMMED = 1,
        SCX_CAP_ENQ = 2,
        SCX_CAP_PREEMPT = 4,
        SCX_CAP_PERF = 8,
        SCX_CAP_BASE = 1,
        SCX_CAPS_REENQ_ON_LOSS = 3,
    }
    /// Sizes of shards, which are ranges of cids.
    enum scx_cid_consts {
        SCX_CID_SHARD_SIZE_DFL = 24,
        SCX_CID_SHARD_MAX_CPUS = 512,
    }
    /// Numbers of the cgroup controllers (include/linux/cgroup_subsys.h). The numbers of
    /// controllers that are missing here depend on the kernel's configuration.
    enum cgroup_subsys_id {
        cpuset_cgrp_id = 0,
        cpu_cgrp_id = 1,
        CGROUP_SUBSYS_COUNT = 14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dsq_ids_and_flags_are_consistent() {
        assert_eq!(SCX_DSQ_LOCAL, SCX_DSQ_FLAG_BUILTIN | 2);
        assert_eq!(SCX_DSQ_LOCAL_ON, SCX_DSQ_FLAG_BUILTIN | SCX_DSQ_FLAG_LOCAL_ON);
        assert_eq!(SCX_ENQ_WAKEUP, u64::from(crate::sched::class::state::flags::WAKEUP));
        assert_eq!(SCX_WAKE_SYNC, u64::from(crate::sched::class::state::flags::WF_SYNC));
        assert_eq!(SCX_DEQ_SLEEP, u64::from(crate::sched::class::state::flags::SLEEP));
        assert_eq!(SCX_TASK_STATE_MASK, 7 << SCX_TASK_STATE_SHIFT);
    }
}
