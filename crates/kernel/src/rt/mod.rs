// SPDX-License-Identifier: GPL-2.0-only
//! The realtime class: SCHED_FIFO and SCHED_RR, per-CPU queues with push and pull (kernel/sched/rt.c).

use crate::machine::Machine;
use crate::task::TaskId;

#[derive(Default)]
pub struct Entity {}

#[derive(Default)]
pub struct RtRq {}

pub(crate) fn pick_task(_m: &mut Machine, _cpu: u32) -> Option<TaskId> {
    None
}

pub(crate) fn enqueue_task(_m: &mut Machine, _cpu: u32, _task: TaskId, _flags: u32) {}
pub(crate) fn dequeue_task(_m: &mut Machine, _cpu: u32, _task: TaskId, _flags: u32) {}
pub(crate) fn yield_task(_m: &mut Machine, _cpu: u32) {}
pub(crate) fn wakeup_preempt(_m: &mut Machine, _cpu: u32, _task: TaskId, _flags: u32) {}
pub(crate) fn select_task_rq(_m: &mut Machine, _task: TaskId, prev_cpu: u32, _wake_flags: u32) -> u32 {
    prev_cpu
}
pub(crate) fn put_prev_task(_m: &mut Machine, _cpu: u32, _prev: TaskId, _next: TaskId) {}
pub(crate) fn set_next_task(_m: &mut Machine, _cpu: u32, _next: TaskId) {}
pub(crate) fn update_curr(_m: &mut Machine, _cpu: u32, _ns: u64) {}
pub(crate) fn task_tick(_m: &mut Machine, _cpu: u32) {}
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn switched_from(_m: &mut Machine, _cpu: u32, _task: TaskId) {}
pub(crate) fn switched_to(_m: &mut Machine, _cpu: u32, _task: TaskId) {}
pub(crate) fn prio_changed(_m: &mut Machine, _cpu: u32, _task: TaskId) {}
pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: u32) {}

impl RtRq {
    /// Capacity that realtime tasks use.
    pub(crate) fn util_avg(&self) -> u64 {
        0
    }
}
