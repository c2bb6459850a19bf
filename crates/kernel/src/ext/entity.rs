// SPDX-License-Identifier: GPL-2.0-only
//! What sched_ext keeps of a task: `task_struct.scx` in the region, which the policy sees and may write in part, and
//! what is nobody's business beside it.

use crate::layout::enums::*;
use crate::machine::Machine;
use crate::task::{IDLE, TaskId};

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
#[derive(Debug)]
pub struct Entity {
    pub ops_state: OpsState,
    /// Brands each time the policy becomes owner; never 0.
    pub qseq: u32,
    /// It waits in its CPU's runnable list; neighbours in it.
    pub(super) runnable: bool,
    pub(super) runnable_next: TaskId,
    pub(super) runnable_prev: TaskId,
    /// Cgroup it is about to leave (cgrp_moving_from).
    pub(super) moving_from: Option<u32>,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity {
            ops_state: OpsState::None,
            qseq: 0,
            runnable: false,
            runnable_next: IDLE,
            runnable_prev: IDLE,
            moving_from: None,
        }
    }
}

/// One CPU's tasks that wait to run, in the order they began to (scx_rq.runnable_list).
#[derive(Debug)]
pub struct RunnableList {
    pub(super) head: TaskId,
    pub(super) tail: TaskId,
}

impl Default for RunnableList {
    fn default() -> RunnableList {
        RunnableList { head: IDLE, tail: IDLE }
    }
}

impl Machine {
    /// Are any of these SCX_TASK_* flags set?
    #[inline]
    pub(crate) fn scx_flag(&self, task: TaskId, flags: u64) -> bool {
        self.scx_entity(task).flags & flags as u32 != 0
    }

    #[inline]
    pub(crate) fn scx_set_flag(&self, task: TaskId, flags: u64) {
        self.scx_entity(task).flags |= flags as u32;
    }

    #[inline]
    pub(crate) fn scx_clear_flag(&self, task: TaskId, flags: u64) {
        self.scx_entity(task).flags &= !(flags as u32);
    }

    pub(crate) fn scx_state(&self, task: TaskId) -> TaskState {
        match u64::from(self.scx_entity(task).flags) & SCX_TASK_STATE_MASK {
            SCX_TASK_INIT_BEGIN => TaskState::InitBegin,
            SCX_TASK_INIT => TaskState::Init,
            SCX_TASK_READY => TaskState::Ready,
            SCX_TASK_ENABLED => TaskState::Enabled,
            SCX_TASK_DEAD => TaskState::Dead,
            _ => TaskState::None,
        }
    }

    pub(super) fn scx_set_state(&self, task: TaskId, state: TaskState) {
        let before = self.scx_state(task);
        debug_assert!(
            match state {
                TaskState::None => before != TaskState::Dead,
                TaskState::InitBegin => before == TaskState::None,
                TaskState::Init => before == TaskState::InitBegin,
                TaskState::Ready => matches!(before, TaskState::Init | TaskState::Enabled),
                TaskState::Enabled => before == TaskState::Ready,
                TaskState::Dead => matches!(before, TaskState::None | TaskState::InitBegin),
            },
            "sched_ext task state {before:?} -> {state:?}"
        );
        if state == TaskState::Init {
            self.scx_set_flag(task, SCX_TASK_RESET_RUNNABLE_AT);
        }
        let scx = self.scx_entity(task);
        scx.flags = scx.flags & !(SCX_TASK_STATE_MASK as u32) | state as u32;
    }

    /// What the layout does not know of a new task's entity (init_scx_entity).
    pub(super) fn scx_init_entity(&mut self, task: TaskId) {
        let runnable_at = self.jiffies();
        let scx = self.scx_entity(task);
        scx.ddsp_dsq_id = SCX_DSQ_INVALID;
        scx.runnable_at = runnable_at;
    }

    /// Ticks since the run's start.
    pub(crate) fn jiffies(&self) -> u64 {
        self.now / self.tick_ns()
    }

    /// The task begins to wait at the end of its CPU's runnable list.
    pub(super) fn set_task_runnable(&mut self, cpu: u32, task: TaskId) {
        if self.scx_flag(task, SCX_TASK_RESET_RUNNABLE_AT) {
            self.scx_entity(task).runnable_at = self.jiffies();
            self.scx_clear_flag(task, SCX_TASK_RESET_RUNNABLE_AT);
        }
        let list = &mut self.rqs[cpu as usize].ext.runnable;
        let tail = std::mem::replace(&mut list.tail, task);
        if tail == IDLE {
            list.head = task;
        } else {
            self.tasks[tail as usize].ext.runnable_next = task;
        }
        let entity = &mut self.tasks[task as usize].ext;
        debug_assert!(!entity.runnable);
        entity.runnable = true;
        entity.runnable_prev = tail;
        entity.runnable_next = IDLE;
    }

    /// The task waits no more: it runs (`reset`), or is off the queue.
    pub(super) fn clr_task_runnable(&mut self, cpu: u32, task: TaskId, reset: bool) {
        if reset {
            self.scx_set_flag(task, SCX_TASK_RESET_RUNNABLE_AT);
        }
        let entity = &mut self.tasks[task as usize].ext;
        if !entity.runnable {
            return;
        }
        entity.runnable = false;
        let (prev, next) = (entity.runnable_prev, entity.runnable_next);
        let list = &mut self.rqs[cpu as usize].ext.runnable;
        if prev == IDLE {
            list.head = next;
        }
        if next == IDLE {
            list.tail = prev;
        }
        if prev != IDLE {
            self.tasks[prev as usize].ext.runnable_next = next;
        }
        if next != IDLE {
            self.tasks[next as usize].ext.runnable_prev = prev;
        }
    }

    /// The tasks of a CPU's runnable list, last first.
    pub(super) fn runnable_reversed(&self, cpu: u32) -> Vec<TaskId> {
        let last = self.rqs[cpu as usize].ext.runnable.tail;
        let step = |&task: &TaskId| Some(self.tasks[task as usize].ext.runnable_prev).filter(|&task| task != IDLE);
        std::iter::successors(Some(last).filter(|&task| task != IDLE), step).collect()
    }

    /// The tasks of a CPU's runnable list in order.
    pub(super) fn runnable_in_order(&self, cpu: u32) -> impl Iterator<Item = TaskId> + '_ {
        let first = self.rqs[cpu as usize].ext.runnable.head;
        let step = |&task: &TaskId| Some(self.tasks[task as usize].ext.runnable_next).filter(|&task| task != IDLE);
        std::iter::successors(Some(first).filter(|&task| task != IDLE), step)
    }
}
