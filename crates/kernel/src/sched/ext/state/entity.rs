// SPDX-License-Identifier: GPL-2.0-only
//! The sched_ext fields of a task that BPF programs cannot see. The fields that they can see, and
//! in part write, are in `task_struct.scx`.

use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::id::CpuId;

/// Owner of a runnable task (sched_ext_entity.ops_state). The kernel also has transitional states.
/// The simulator does not need them, because a transition is indivisible even if callbacks overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpsState {
    /// The scheduler core owns the task.
    #[default]
    None,
    /// ops.enqueue() is running for the task.
    Queueing,
    /// The policy owns the task.
    Queued,
}

/// State of a task in its life cycle from ops.init_task() to ops.exit_task(). It is stored in
/// `task_struct.scx.flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum TaskState {
    None = SCX_TASK_NONE as u32,
    InitBegin = SCX_TASK_INIT_BEGIN as u32,
    Init = SCX_TASK_INIT as u32,
    Ready = SCX_TASK_READY as u32,
    Enabled = SCX_TASK_ENABLED as u32,
    Dead = SCX_TASK_DEAD as u32,
}

/// State of a task that is used only if the core behaves like Linux 7.3.
#[derive(Clone, Debug)]
pub struct Linux73 {
    /// Slice (ns) and vtime that the task gets when a requested insertion is performed (ddsp_slice,
    /// ddsp_vtime).
    pub(crate) carried: (u64, u64),
    /// Slice that a policy set without the lock of the runqueue, and that policy (slice_oob).
    pub(crate) slice_oob: Option<(SchedId, u64)>,
    /// Number of times that the task was enqueued again since it ran (reenq_cnt).
    pub(crate) reenq_count: u32,
    /// Jiffy in which the task began to wait for a rescue.
    pub(crate) rescue_at: u64,
}

impl Linux73 {
    pub(crate) const UNUSED: Linux73 = Linux73 {
        carried: (0, 0),
        slice_oob: None,
        reenq_count: 0,
        rescue_at: 0,
    };
}

/// Fields of a task that policies do not see.
#[derive(Debug, Default)]
pub struct Entity {
    /// Policy that schedules the task (sched_ext_entity.sched).
    pub(crate) sched: SchedId,
    pub ops_state: OpsState,
    /// Callback that last inserted the task into a DSQ, and the index of the BPF instruction that
    /// requested this.
    pub inserted_by: Option<(Callback, u32)>,
    /// Sequence number that changes whenever the policy becomes the owner of the task. It is never
    /// 0.
    pub qseq: u32,
    /// CPU that has removed the task from a DSQ and is acquiring the lock of the task's runqueue, in
    /// order to move the task to its local DSQ (holding_cpu). A dequeue clears it.
    pub(crate) holding_cpu: Option<CpuId>,
    /// Whether the task has left one runqueue and has not reached the next one
    /// (TASK_ON_RQ_MIGRATING).
    pub(crate) migrating: bool,
    /// Position of the task in its CPU's list of waiting tasks (scx_rq.runnable_list). Later
    /// positions have higher numbers; 0 means that the task does not wait.
    pub(crate) runnable: u64,
}
