// SPDX-License-Identifier: GPL-2.0-only
//! Functions to read and change a task's sched_ext state (`sched::ext::state::entity`).

use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::ext::state::entity::*;
use crate::simulation::id::TaskId;

impl Machine {
    /// Returns whether any of these SCX_TASK_* flags is set.
    #[inline]
    pub(crate) fn scx_flag(&self, task: TaskId, flags: u64) -> bool {
        self.scx_entity(task).flags & flags as u32 != 0
    }

    #[inline]
    pub(crate) fn scx_set_flag(&mut self, task: TaskId, flags: u64) {
        self.scx_entity_mut(task).flags |= flags as u32;
    }

    #[inline]
    pub(crate) fn scx_clear_flag(&mut self, task: TaskId, flags: u64) {
        self.scx_entity_mut(task).flags &= !(flags as u32);
    }

    /// Returns the state of a task in its life cycle under the policy.
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

    /// Sets the life-cycle state of a task. Builds with debug assertions check that the transition
    /// is allowed (scx_set_task_state).
    pub(super) fn scx_set_state(&mut self, task: TaskId, state: TaskState) {
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
            "a task must not change from the sched_ext state {before:?} to {state:?}"
        );
        if state == TaskState::Init {
            self.scx_set_flag(task, SCX_TASK_RESET_RUNNABLE_AT);
        }
        let scx = self.scx_entity_mut(task);
        scx.flags = scx.flags & !(SCX_TASK_STATE_MASK as u32) | state as u32;
    }

    /// Sets the fields of a new task's entity that do not start with zero (init_scx_entity).
    pub(super) fn scx_init_entity(&mut self, task: TaskId) {
        let runnable_at = self.jiffies();
        let scx = self.scx_entity_mut(task);
        scx.ddsp_dsq_id = SCX_DSQ_INVALID;
        scx.runnable_at = runnable_at;
    }

    /// Adds a task to the end of its CPU's list of waiting tasks.
    #[inline]
    pub(super) fn set_task_runnable(&mut self, task: TaskId) {
        if self.scx_flag(task, SCX_TASK_RESET_RUNNABLE_AT) {
            let jiffies = self.jiffies();
            let scx = self.scx_entity_mut(task);
            scx.runnable_at = jiffies;
            scx.flags &= !(SCX_TASK_RESET_RUNNABLE_AT as u32);
        }
        self.ext.nr_became_runnable += 1;
        let entity = &mut self.tasks[task].ext;
        debug_assert_eq!(entity.runnable, 0);
        entity.runnable = self.ext.nr_became_runnable;
    }

    /// Removes a task from its CPU's list of waiting tasks. `reset` must be true if the task starts
    /// to run. The watchdog then measures the task's next wait from its beginning.
    #[inline]
    pub(super) fn clr_task_runnable(&mut self, task: TaskId, reset: bool) {
        if reset {
            self.scx_set_flag(task, SCX_TASK_RESET_RUNNABLE_AT);
        }
        self.tasks[task].ext.runnable = 0;
    }

    /// Returns each CPU's waiting tasks, longest wait first. This examines all tasks, so it should
    /// be called rarely.
    pub(super) fn runnable_lists(&self) -> Vec<Vec<TaskId>> {
        let mut lists = vec![Vec::new(); self.rqs.len()];
        for (task, t) in self.tasks.numbered().filter(|(_, t)| t.ext.runnable != 0) {
            lists[t.cpu().index()].push(task);
        }
        for list in &mut lists {
            list.sort_unstable_by_key(|&task| self.tasks[task].ext.runnable);
        }
        lists
    }
}
