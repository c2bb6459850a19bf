// SPDX-License-Identifier: GPL-2.0-only
//! What sched_ext keeps of a task: `task_struct.scx` in the region, which the policy sees and may write in part, and
//! what is nobody's business beside it.

use crate::policy::callbacks::Op;
use crate::policy::layout::enums::*;

/// Who owns a runnable task (sched_ext_entity.ops_state). In between states do not exist here: nothing runs meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpsState {
    /// The core.
    #[default]
    None,
    /// ops.enqueue() is being called.
    Queueing,
    /// The policy.
    Queued,
}

/// State of the task in the policy's life cycle, as in the state bits of `flags`.
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

/// The part that policies do not see.
#[derive(Debug, Default)]
pub struct Entity {
    pub ops_state: OpsState,
    /// Callback and instruction that inserted the task last, if one did.
    pub inserted_by: Option<(Op, u32)>,
    /// Brands each time the policy becomes owner; never 0.
    pub qseq: u32,
    /// Its place among the CPU's tasks that wait to run (the kernel's scx_rq.runnable_list): a later one has a higher number;
    /// 0 if it does not wait.
    pub(super) runnable: u64,
}
