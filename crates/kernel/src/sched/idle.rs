// SPDX-License-Identifier: GPL-2.0-only
//! The idle class. Its only task on each CPU is the idle task, which runs when no other class has a
//! runnable task.

use crate::machine::Machine;
use crate::sched::{ext, fair};
use crate::simulation::id::{CpuId, IDLE, TaskId};

pub(crate) fn pick_task(m: &mut Machine, cpu: CpuId) -> Option<TaskId> {
    fair::update_idle_core(m, cpu);
    ext::stay_idle(m, cpu);
    Some(IDLE)
}

pub(crate) fn set_next_task(m: &mut Machine, cpu: CpuId, _next: TaskId) {
    m.idle_cpus.insert(cpu);
    m.idle_clock_pelt(cpu);
    ext::update_idle(m, cpu, true);
}

pub(crate) fn put_prev_task(m: &mut Machine, cpu: CpuId, _prev: TaskId, _next: TaskId) {
    m.idle_cpus.remove(cpu);
    m.update_clock_pelt(cpu);
    ext::update_idle(m, cpu, false);
}

/// Reschedules the CPU, because a task of any other class preempts the idle task.
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: CpuId, _task: TaskId, _flags: u32) {
    m.resched_curr(cpu);
}

pub(crate) fn select_task_rq(_m: &mut Machine, _task: TaskId, prev_cpu: CpuId, _wake_flags: u32) -> CpuId {
    prev_cpu
}

// The idle task is never queued, never changes and uses no CPU time, so these calls do nothing.
pub(crate) fn enqueue_task(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _flags: u32) {}
pub(crate) fn dequeue_task(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _flags: u32) {}
pub(crate) fn yield_task(_m: &mut Machine, _cpu: CpuId) {}
pub(crate) fn update_curr(_m: &mut Machine, _cpu: CpuId, _ns: u64) {}
pub(crate) fn task_tick(_m: &mut Machine, _cpu: CpuId) {}
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn switched_from(_m: &mut Machine, _cpu: CpuId, _task: TaskId) {}
pub(crate) fn switched_to(_m: &mut Machine, _cpu: CpuId, _task: TaskId) {}
pub(crate) fn prio_changed(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _old_prio: i32) {}
pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: CpuId) {}
