// SPDX-License-Identifier: GPL-2.0-only
//! The idle class: what a CPU runs when it has nothing to run.

use crate::machine::Machine;
use crate::sched::ext;
use crate::simulation::id::{IDLE, TaskId};

pub(crate) fn pick_task(m: &mut Machine, cpu: u32) -> Option<TaskId> {
    ext::stay_idle(m, cpu);
    Some(IDLE)
}

pub(crate) fn set_next_task(m: &mut Machine, cpu: u32, _next: TaskId) {
    m.idle_cpus.insert(cpu);
    ext::update_idle(m, cpu, true);
}

pub(crate) fn put_prev_task(m: &mut Machine, cpu: u32, _prev: TaskId, _next: TaskId) {
    m.idle_cpus.remove(cpu);
    ext::update_idle(m, cpu, false);
}

/// Anything preempts idle.
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: u32, _task: TaskId, _flags: u32) {
    m.resched_curr(cpu);
}

pub(crate) fn select_task_rq(_m: &mut Machine, _task: TaskId, prev_cpu: u32, _wake_flags: u32) -> u32 {
    prev_cpu
}

// The idle task is never queued, never changes and uses no time of its own.
pub(crate) fn enqueue_task(_m: &mut Machine, _cpu: u32, _task: TaskId, _flags: u32) {}
pub(crate) fn dequeue_task(_m: &mut Machine, _cpu: u32, _task: TaskId, _flags: u32) {}
pub(crate) fn yield_task(_m: &mut Machine, _cpu: u32) {}
pub(crate) fn update_curr(_m: &mut Machine, _cpu: u32, _ns: u64) {}
pub(crate) fn task_tick(_m: &mut Machine, _cpu: u32) {}
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn switched_from(_m: &mut Machine, _cpu: u32, _task: TaskId) {}
pub(crate) fn switched_to(_m: &mut Machine, _cpu: u32, _task: TaskId) {}
pub(crate) fn prio_changed(_m: &mut Machine, _cpu: u32, _task: TaskId) {}
pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: u32) {}
