// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: the scheduling class whose decisions a BPF object makes (kernel/sched/ext of Linux
//! 7.2).
//!
//! | modules | contents |
//! |---|---|
//! | `ops`, `ops_table` | the policy's callbacks, and calling them |
//! | `enqueue`, `dispatch`, `deferred` | moving tasks between the core, the policy and DSQs |
//! | `dsq` | dispatch queues |
//! | `insert`, `kick`, `cid`, `idle` | operations that a policy requests through kfuncs |
//! | `enable`, `lifecycle`, `bypass` | start and end of a policy, and tasks under it |
//! | `watchdog`, `exit`, `dump` | failures of a policy |
//!
//! This file has the functions of the class and those that the rest of the kernel calls. Not
//! modelled: sub-schedulers and core scheduling (ops.core_sched_before() is never called).

mod bypass;
pub(crate) mod cgroup;
pub(crate) mod cid;
pub mod cids;
pub mod core;
mod deferred;
mod dispatch;
pub mod dsq;
pub mod dump;
pub mod dump_text;
pub mod enable;
mod enqueue;
pub mod entity;
pub mod events;
pub mod exit;
pub mod exit_info;
pub mod idle;
pub mod idle_masks;
pub mod insert;
pub mod kick;
mod lifecycle;
mod loaded;
pub mod ops;
pub mod ops_table;
pub mod task_state;
pub mod watchdog;

pub use crate::policy::bpf_world::timer_fired;
pub use crate::policy::callbacks::Op;
pub use crate::sched::ext::core::EnableState;
pub use crate::sched::ext::exit_info::Exit;
pub use crate::sched::ext::exit_info::Kind;
pub use crate::sched::ext::ops_table::OpsTable;
pub use crate::sched::ext::ops_table::Policy;
pub(crate) use dispatch::{
    pick_task, put_prev_task, select_task_rq, set_next_task, task_tick, update_curr, yield_task,
};
pub use enable::unload;
pub(crate) use enqueue::{dequeue_task, enqueue_task};
pub use entity::Entity;

use crate::machine::Machine;
use crate::policy::layout::mirror;
use crate::policy::{layout, tracepoint};
use crate::sched::class::Class;
use crate::sched::task::Task;
use crate::simulation::id::{CpuId, TaskId};
use layout::enums::*;
use workload::Policy as TaskPolicy;

/// Returns the class of a task, from its policy and from whether a BPF policy is loaded
/// (task_should_scx).
pub(crate) fn class_for(m: &Machine, task: &Task) -> Class {
    match task.policy {
        TaskPolicy::Deadline | TaskPolicy::Fifo { .. } | TaskPolicy::RoundRobin { .. } => Class::Rt,
        TaskPolicy::Ext { .. } if m.ext.takes_tasks() => Class::Ext,
        _ if m.ext.switching_all && m.ext.takes_tasks() => Class::Ext,
        _ => Class::Fair,
    }
}

/// Returns whether the task may change to this policy (scx_check_setscheduler). SCHED_EXT is
/// refused if ops.init_task() set `disallow`.
pub(crate) fn check_setscheduler(m: &Machine, task: TaskId, policy: TaskPolicy) -> bool {
    let wants = matches!(policy, TaskPolicy::Ext { .. });
    !(m.ext.enabled && wants && m.tasks[task].policy != policy && m.scx_entity(task).disallow)
}

/// Handles a CPU that enters or leaves idle: idle tracking and ops.update_idle().
pub(crate) fn update_idle(m: &mut Machine, cpu: CpuId, idle: bool) {
    if !m.ext.enabled {
        return;
    }
    idle::update(m, cpu, idle);
    if m.ext.has_op(Op::UpdateIdle) && !m.ext.bypassing() {
        let arg = m.ext.cids.arg(cpu);
        ops::call_locked(m, Op::UpdateIdle, cpu, &[arg, u64::from(idle)]);
    }
}

/// Marks an idle CPU as claimable again after it looked for work and found none.
pub(crate) fn stay_idle(m: &mut Machine, cpu: CpuId) {
    if m.ext.enabled && m.rqs[cpu].idle() {
        idle::update(m, cpu, true);
    }
}

/// Runs after every context switch: updates the current task that BPF programs see and runs tracing
/// programs.
pub(crate) fn sched_switch(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    mirror::mirror_switch(m, cpu, prev, next);
    tracepoint::sched_switch(m, cpu, prev, next);
}

/// Does the work that was deferred to the end of the CPU's current kernel code (irq_work).
#[inline]
pub(crate) fn irq_work(m: &mut Machine) {
    if !m.ext.irq_work.is_empty() {
        kick::run_irq_work(m);
    }
}

/// Does deferred work after a task was woken and queued on `cpu`, whose runqueue is locked
/// (task_woken_scx).
#[inline]
pub(crate) fn task_woken(m: &mut Machine, cpu: CpuId, task: TaskId) {
    mirror::mirror_state(m, task);
    if deferred::pending(m, cpu) {
        deferred::run_deferred(m, cpu);
    }
}

/// Runs tracing programs at every tick, whatever class the current task has.
pub(crate) fn tick(m: &mut Machine, cpu: CpuId) {
    tracepoint::sched_tick(m, cpu);
}

pub(crate) fn watchdog(m: &mut Machine) {
    watchdog::run(m);
}

/// Handles the event of deferred work on a CPU.
pub(crate) fn deferred(m: &mut Machine, cpu: CpuId) {
    m.enter(cpu);
    deferred::arrived(m, cpu);
    enable::advance_ending(m);
}

/// Sets up the `task_struct` of a new task.
pub(crate) fn task_created(m: &mut Machine, task: TaskId) {
    mirror::mirror_task(m, task);
    m.scx_init_entity(task);
}

/// Introduces a new task to the policy (scx_fork, scx_post_fork).
///
/// # Errors
/// The negative errno with which the policy refuses the task.
pub(crate) fn post_fork(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    lifecycle::forked(m, task)
}

pub(crate) fn task_renamed(m: &mut Machine, task: TaskId) {
    mirror::mirror_exec(m, task);
}

/// Ends the policy's access to a dead task: ops.disable() and ops.exit_task() (sched_ext_dead).
pub(crate) fn task_dead(m: &mut Machine, task: TaskId) {
    lifecycle::dead(m, task);
    mirror::mirror_reparent(m, task);
}

/// Frees the local storage of a task without references (__put_task_struct).
pub(crate) fn free_task_storage(m: &mut Machine, task: TaskId) {
    let addr = m.tasks[task].addr;
    lifecycle::free_local_storage(m, [addr]);
}

pub(crate) fn task_cpu_changed(m: &mut Machine, task: TaskId) {
    mirror::mirror_cpu(m, task);
    tracepoint::sched_migrate_task(m, task, m.tasks[task].cpu);
}

/// Handles a task whose class has just changed from `from`. The task is off the queues.
pub(crate) fn switching_class(m: &mut Machine, task: TaskId, from: Class) {
    debug_assert_ne!(m.tasks[task].class, from);
    if m.tasks[task].class == Class::Ext {
        lifecycle::switching_to(m, task);
    }
}

/// Updates the `task_struct` and calls ops.set_weight() after a change of nice value, policy or
/// weight.
pub(crate) fn params_changed(m: &mut Machine, task: TaskId) {
    mirror::mirror_params(m, task);
    lifecycle::reweight(m, task);
}

/// Handles a CPU that has come online. Tasks can be queued there.
pub(crate) fn cpu_online(m: &mut Machine, cpu: CpuId) {
    m.rqs[cpu].ext.online = true;
    hotplug(m, cpu, true);
}

/// Handles a CPU that goes offline. Its tasks are still there.
pub(crate) fn cpu_offline(m: &mut Machine, cpu: CpuId) {
    hotplug(m, cpu, false);
    m.rqs[cpu].ext.online = false;
}

/// Calls ops.cpu_online() or ops.cpu_offline(). A policy without the callback is ended
/// (handle_hotplug).
fn hotplug(m: &mut Machine, cpu: CpuId, online: bool) {
    m.ext.hotplug_seq += 1;
    if m.ext.state == EnableState::Disabled {
        return;
    }
    idle::update_topology(m);
    let (op, going) = if online {
        (Op::CpuOnline, "online")
    } else {
        (Op::CpuOffline, "offline")
    };
    if m.ext.has_op(op) {
        let arg = m.ext.cids.arg(cpu);
        ops::call(m, op, &[arg]);
    } else {
        let code = (SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG) as i64;
        exit::exit(
            m,
            Kind::UnregKern,
            code,
            format!("cpu {cpu} going {going}, exiting scheduler"),
        );
    }
}

/// Ends the policy on behalf of the user (SysRq-S).
pub fn sysrq_reset(m: &mut Machine) {
    exit::exit_on(m, Kind::Sysrq, 0, -1, "");
}

/// Does nothing: a task that became runnable next to another ext task waits for its turn
/// (wakeup_preempt_scx). [`preempted_by_class`] handles tasks of higher classes.
pub(crate) fn wakeup_preempt(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _flags: u32) {}

/// Handles the preemption of the current task of `cpu` by a higher class. Tasks with SCX_ENQ_IMMED
/// go back to the policy.
pub(crate) fn preempted_by_class(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].ext.nr_immed > 0 {
        deferred::schedule_reenq_local(m, cpu);
    }
}

/// Does nothing: inherited values are set when the task is introduced to the policy.
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}

pub(crate) fn switched_from(m: &mut Machine, _cpu: CpuId, task: TaskId) {
    lifecycle::switched_from(m, task);
}

/// Reschedules if the task is queued and the CPU runs a task of a lower class. `switching_class`
/// has done the rest.
pub(crate) fn switched_to(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.tasks[task].on_rq && m.rqs[cpu].curr != task && m.curr_class(cpu) > Class::Ext {
        m.resched_curr(cpu);
    }
}

pub(crate) fn prio_changed(_m: &mut Machine, _cpu: CpuId, _task: TaskId) {}

pub(crate) fn set_cpus_allowed(m: &mut Machine, task: TaskId) {
    lifecycle::set_cpumask(m, task);
}

pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: CpuId) {}
