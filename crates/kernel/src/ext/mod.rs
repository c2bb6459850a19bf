// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: the class whose decisions a BPF object makes (kernel/sched/ext of Linux 7.2).

pub mod idle;

use crate::class::Class;
use crate::machine::Machine;
use crate::task::{Task, TaskId};
use machine::Topology;
use workload::Policy;

#[derive(Default)]
pub struct Entity {}

#[derive(Default)]
pub struct ScxRq {}

/// The sched_ext core of a machine: the loaded policy, its DSQs and idle masks.
#[derive(Default)]
pub struct Core {}

impl Core {
    pub fn new(_topology: &Topology) -> Core {
        Core {}
    }

    /// Is a CPU's local DSQ empty? Asked by idle CPU selection.
    pub fn local_dsq_empty(&self, _cpu: u32) -> bool {
        true
    }
}

/// Lays out what a policy can see of the machine: runqueues, cpumasks, cgroups.
pub(crate) fn boot(_m: &mut Machine) -> Result<(), String> {
    Ok(())
}

/// The class a task belongs to by its policy and by what is loaded.
pub(crate) fn class_for(_m: &Machine, task: &Task) -> Class {
    match task.policy {
        Policy::Fifo { .. } | Policy::RoundRobin { .. } => Class::Rt,
        _ => Class::Fair,
    }
}

/// Balances and dispatches, then picks from the local DSQ.
pub(crate) fn pick_task(_m: &mut Machine, _cpu: u32, _prev: TaskId) -> Option<TaskId> {
    None
}

/// A CPU enters or leaves idle.
pub(crate) fn update_idle(_m: &mut Machine, _cpu: u32, _idle: bool) {}
/// After every context switch: kick waits, cpu_acquire and cpu_release, the sched_switch tracepoint.
pub(crate) fn sched_switch(_m: &mut Machine, _cpu: u32) {}
/// A reschedule IPI arrived: pending kicks of this CPU.
pub(crate) fn kick_irq(_m: &mut Machine, _cpu: u32) {}
/// Every tick, whatever runs.
pub(crate) fn tick(_m: &mut Machine, _cpu: u32) {}
pub(crate) fn timer_fired(_m: &mut Machine, _timer: u32, _generation: u32) {}
pub(crate) fn watchdog(_m: &mut Machine) {}
pub(crate) fn deferred(_m: &mut Machine, _cpu: u32) {}
/// A task slot was filled: its task_struct is laid out.
pub(crate) fn task_created(_m: &mut Machine, _task: TaskId) {}
/// scx_post_fork: init_task and, if it is an ext task, enable.
pub(crate) fn post_fork(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn task_renamed(_m: &mut Machine, _task: TaskId) {}
/// sched_ext_dead: disable and exit_task.
pub(crate) fn task_dead(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn task_cpu_changed(_m: &mut Machine, _task: TaskId) {}
/// The task's class has just been set from `_from` to another one; it is off the queues.
pub(crate) fn switching_class(_m: &mut Machine, _task: TaskId, _from: Class) {}
/// Nice, policy or weight changed: task_struct's copies and ops.set_weight.
pub(crate) fn params_changed(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn cgroup_move(_m: &mut Machine, _task: TaskId, _from: u32, _to: u32) {}

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
/// `cpu` has come online: ops.cpu_online, or the policy ends for a restart.
pub(crate) fn cpu_online(_m: &mut Machine, _cpu: u32) {}
/// `cpu` is going offline, its tasks still there: ops.cpu_offline, or the policy ends for a restart.
pub(crate) fn cpu_offline(_m: &mut Machine, _cpu: u32) {}
