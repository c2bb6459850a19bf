// SPDX-License-Identifier: GPL-2.0-only
//! The fields of `task_struct` and of the structs it points to, as far as a policy can access them.
//!
//! The fields that callbacks use most are in the first 128 bytes, which are two cache lines. Fields
//! of the kernel that are missing here are not modelled.

use bpf::kstruct;
use bpf::kstruct::Bool;

/// PF_* flags from include/linux/sched.h.
pub const PF_IDLE: u32 = 0x0000_0002;
pub const PF_EXITING: u32 = 0x0000_0004;
pub const PF_WQ_WORKER: u32 = 0x0000_0020;
pub const PF_FORKNOEXEC: u32 = 0x0000_0040;
pub const PF_KTHREAD: u32 = 0x0020_0000;

/// Scheduling policies from include/uapi/linux/sched.h.
pub const SCHED_NORMAL: u32 = 0;
pub const SCHED_FIFO: u32 = 1;
pub const SCHED_RR: u32 = 2;
pub const SCHED_BATCH: u32 = 3;
pub const SCHED_IDLE: u32 = 5;
pub const SCHED_DEADLINE: u32 = 6;
pub const SCHED_EXT: u32 = 7;

/// Bit of in_iowait in `task_struct::bits`.
pub const IN_IOWAIT: u32 = 1 << 3;

/// Fields of task_struct that are always 0: no task has page faults, because memory is not modelled
/// by pages.
pub const ALWAYS_0: [&str; 2] = ["min_flt", "maj_flt"];

/// Offset of the member `dsq` in struct sched_ext_entity. The pointer is stored at the end of the
/// task_struct, where no frequently used field follows it.
pub const DSQ_OFFSET: usize = std::mem::offset_of!(task_struct, scx_dsq) - std::mem::offset_of!(task_struct, scx);

/// Offset of the member `reenq_reason_cid` in struct sched_ext_entity. It is stored where the
/// task_struct has room, so that other fields keep their cache lines.
pub const REENQ_CID_OFFSET: usize =
    std::mem::offset_of!(task_struct, scx_reenq_cid) - std::mem::offset_of!(task_struct, scx);

kstruct! {
    /// A bitmap of CPUs with as many words as the machine needs. In the kernel, the array has a
    /// fixed size instead.
    pub struct cpumask {
        pub bits: [u64; 0],
    }

    pub struct thread_info {
        /// CPU on which the task runs or last ran.
        pub cpu: u32,
    }

    /// The part of a task's state that belongs to sched_ext.
    #[derive(Clone, Copy)]
    pub struct sched_ext_entity {
        pub slice: u64,
        pub dsq_vtime: u64,
        pub weight: u32,
        /// SCX_TASK_*
        pub flags: u32,
        pub ddsp_dsq_id: u64,
        pub ddsp_enq_flags: u64,
        /// Time at which the task became runnable, in jiffies.
        pub runnable_at: u64,
        pub tid: u64,
        pub sticky_cpu: i32,
        pub holding_cpu: i32,
        pub selected_cpu: i32,
        pub disallow: Bool,
        /// Capabilities that the policy lacked when an insertion was rejected, SCX_CAP_* (u64 in
        /// Linux). Valid while `flags` has SCX_TASK_REENQ_CAP.
        pub reenq_reason_caps: u8,
    }

    pub struct load_weight {
        /// Weight on the scale of the fair class: sched_prio_to_weight << 10.
        pub weight: u64,
    }

    pub struct sched_entity {
        pub sum_exec_runtime: u64,
        pub load: load_weight,
    }

    pub struct task_struct {
        pub thread_info: thread_info,
        pub flags: u32,
        pub pid: i32,
        pub tgid: i32,
        pub on_cpu: i32,
        pub nr_cpus_allowed: i32,
        pub migration_disabled: u16,
        /// `in_iowait` has the position that it has in Linux, because objects that were compiled
        /// without BPF_CORE_READ_BITFIELD() contain it. The bits below it are not modelled.
        pub bits: u32 as { below_in_iowait: 3, in_iowait: 1 },
        pub cpus_ptr: *mut cpumask,
        pub prio: i32,
        pub static_prio: i32,
        pub scx: sched_ext_entity,
        pub se: sched_entity,
        pub normal_prio: i32,
        pub rt_priority: u32,
        /// SCHED_*
        pub policy: u32,
        /// TASK_*
        pub __state: u32,
        pub on_rq: i32,
        pub exit_state: i32,
        pub recent_used_cpu: i32,
        pub wake_cpu: i32,
        pub comm: [i8; 16],
        /// Total CPU time of the task. All of it counts as user time.
        pub utime: u64,
        /// Always 0, because kernel time is charged to CPUs and not to tasks. The fields of
        /// [`ALWAYS_0`] share its memory.
        pub stime: u64,
        pub sched_info: sched_info,
        pub nvcsw: u64,
        pub nivcsw: u64,
        /// Time at which the task was created, ns since the start of the run.
        pub start_time: u64,
        pub start_boottime: u64,
        pub real_parent: *mut task_struct,
        pub parent: *mut task_struct,
        pub group_leader: *mut task_struct,
        pub mm: *mut mm_struct,
        pub cgroups: *mut crate::layout::css_set,
        /// Always NULL, because no task has a NUMA memory policy.
        pub mempolicy: *mut mempolicy,
        pub real_cred: *mut cred,
        pub cred: *mut cred,
        /// Always NUMA_NO_NODE, because NUMA balancing is not modelled.
        pub numa_preferred_nid: i32,
        /// The cid of the CPU whose local DSQ rejected the task (`scx.reenq_reason_cid`, see
        /// [`REENQ_CID_OFFSET`]).
        pub scx_reenq_cid: i32,
        /// Time by which sleeps of the task may end late, ns.
        pub timer_slack_ns: u64,
        /// The DSQ on which the task is, or NULL (`scx.dsq`, see [`DSQ_OFFSET`]). It is kept only if
        /// the policy reads it.
        pub scx_dsq: *mut scx_dispatch_q,
        /// The allowed CPUs. The size depends on the number of CPUs of the machine, so this must be
        /// the last field.
        pub cpus_mask: cpumask,
    }

    /// A DSQ, as far as a policy can see it.
    pub struct scx_dispatch_q {
        pub nr: u32,
        pub id: u64,
    }

    /// How often the task has run, and how long it has waited for a CPU. As in the kernel, the time
    /// 0 means "never".
    pub struct sched_info {
        pub pcount: u64,
        /// Total time that the task has waited for a CPU, ns.
        pub run_delay: u64,
        /// Time at which the current wait began; 0 if the task does not wait.
        pub last_queued: u64,
    }

    /// Address space of a process. Only the address of this struct is used, to distinguish
    /// processes.
    pub struct mm_struct {}

    pub struct nodemask {
        pub bits: [u64; 16],
    }

    pub struct mempolicy {
        pub mode: u16,
        pub nodes: nodemask,
        pub home_node: i32,
    }

    pub struct kuid {
        pub val: u32,
    }

    pub struct kgid {
        pub val: u32,
    }

    /// Credentials. All tasks belong to root, unless the workload names a user.
    pub struct cred {
        pub uid: kuid,
        pub gid: kgid,
        pub euid: kuid,
        pub egid: kgid,
    }
}
