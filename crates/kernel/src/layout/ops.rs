// SPDX-License-Identifier: GPL-2.0-only
//! Type information (BTF) of the tables of callbacks that policies define. Members are found by
//! their names, so the memory layout of these Rust structs does not matter.

use crate::layout::callbacks::callbacks;
use bpf::kstruct;
use bpf::kstruct::Callback;

macro_rules! tables {
    ($($op:ident {
        by_cpu: $by_cpu:ident $(, by_cid: $by_cid:ident)?, since: $since:expr, contexts: $contexts:expr
        $(, or_null: $or_null:literal)?
    })*) => {
        kstruct! {
            pub struct sched_ext_ops {
                $(pub $by_cpu: Callback,)*
                pub dispatch_max_batch: u32,
                pub flags: u64,
                pub timeout_ms: u32,
                pub exit_dump_len: u32,
                pub hotplug_seq: u64,
                pub cid_shard_size: u32,
                pub rescue_bandwidth_ppt: u32,
                pub rescue_quantum_us: u32,
                pub sub_cgroup_id: u64,
                pub name: [i8; 128],
                pub priv_: *mut () as "priv",
            }

            /// The variant of the table for policies that use cids (topological CPU numbers)
            /// instead of CPU numbers.
            pub struct sched_ext_ops_cid {
                $($(pub $by_cid: Callback,)?)*
                // The names that the callbacks about cgroups have in Linux 7.3.
                pub cpuctl_init: Callback,
                pub cpuctl_exit: Callback,
                pub cpuctl_prep_move: Callback,
                pub cpuctl_move: Callback,
                pub cpuctl_cancel_move: Callback,
                pub cpuctl_set_weight: Callback,
                pub cpuctl_set_bandwidth: Callback,
                pub cpuctl_set_idle: Callback,
                pub dispatch_max_batch: u32,
                pub flags: u64,
                pub timeout_ms: u32,
                pub exit_dump_len: u32,
                pub hotplug_seq: u64,
                pub cid_shard_size: u32,
                pub rescue_bandwidth_ppt: u32,
                pub rescue_quantum_us: u32,
                pub sub_cgroup_id: u64,
                pub name: [i8; 128],
                pub priv_: *mut () as "priv",
            }
        }
    };
}

callbacks!(tables);

kstruct! {
    pub struct scx_sub_attach_args {
        pub ops: *mut sched_ext_ops,
        pub cgroup_path: *mut i8,
    }

    pub struct scx_sub_detach_args {
        pub ops: *mut sched_ext_ops,
        pub cgroup_path: *mut i8,
    }
}
