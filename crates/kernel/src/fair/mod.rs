// SPDX-License-Identifier: GPL-2.0-only
//! The fair class: EEVDF, wake-up placement and load balancing (kernel/sched/fair.c).

use crate::machine::Machine;
use crate::task::TaskId;
use machine::Topology;

#[derive(Default)]
pub struct Entity {}

#[derive(Default)]
pub struct CfsRq {}

/// Scheduling domains of every CPU.
#[derive(Default)]
pub struct Domains {}

impl Domains {
    pub fn new(_topology: &Topology) -> Domains {
        Domains {}
    }
}

/// The task to run next; balances (new-idle) if there is none of this class.
pub(crate) fn pick_task(_m: &mut Machine, _cpu: u32, _prev: TaskId) -> Option<TaskId> {
    None
}

/// Called from the tick: periodic balancing.
pub(crate) fn trigger_load_balance(_m: &mut Machine, _cpu: u32) {}

/// An idle CPU balances on behalf of the others.
pub(crate) fn nohz_balance(_m: &mut Machine, _cpu: u32) {}

/// The task's weight changed while it was off the queue.
pub(crate) fn reweight(_m: &mut Machine, _task: TaskId) {}

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
