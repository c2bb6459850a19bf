// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext fields of a task that only the simulator uses. BPF programs see the other fields in
//! `task_struct.scx` and may write some of them.

use crate::policy::callbacks::Op;
use crate::policy::layout::enums::*;

/// Owner of a runnable task (sched_ext_entity.ops_state). The kernel's transitional states are not
/// needed, because no other CPU runs during a transition.
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

/// State of a task in a policy's life cycle, as encoded in `flags`.
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

/// Fields of a task that policies do not see.
#[derive(Debug, Default)]
pub struct Entity {
    pub ops_state: OpsState,
    /// Callback and instruction that inserted the task last.
    pub inserted_by: Option<(Op, u32)>,
    /// Sequence number that changes each time the policy becomes the owner; never 0.
    pub qseq: u32,
    /// Position of the task in its CPU's list of waiting tasks (scx_rq.runnable_list). Later
    /// positions have higher numbers; 0 means that the task does not wait.
    pub(super) runnable: u64,
}
