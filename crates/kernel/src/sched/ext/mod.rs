// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: the class whose decisions a BPF object makes (kernel/sched/ext of Linux 7.2).
//!
//! `ops` is the policy's callbacks and calling them; `enqueue`, `dispatch` and `deferred` move tasks between the core,
//! the policy and the `dsq`s; `insert` and `kfuncs` is what the policy can do; `idle` knows idle CPUs; `enable`,
//! `lifecycle`, `bypass`, `watchdog`, `exit` and `dump` are a policy's coming and going. Sub-schedulers and core scheduling
//! (ops.core_sched_before() is never called) are left out. This file has the class' functions and the places where the
//! machine calls in.

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

/// The class a task belongs to by its policy and by what is loaded (task_should_scx).
pub(crate) fn class_for(m: &Machine, task: &Task) -> Class {
    match task.policy {
        TaskPolicy::Deadline | TaskPolicy::Fifo { .. } | TaskPolicy::RoundRobin { .. } => Class::Rt,
        TaskPolicy::Ext { .. } if m.ext.takes_tasks() => Class::Ext,
        _ if m.ext.switching_all && m.ext.takes_tasks() => Class::Ext,
        _ => Class::Fair,
    }
}

/// May the task's policy be changed so? Not to SCHED_EXT if ops.init_task() disallowed it (scx_check_setscheduler).
pub(crate) fn check_setscheduler(m: &Machine, task: TaskId, policy: TaskPolicy) -> bool {
    let wants = matches!(policy, TaskPolicy::Ext { .. });
    !(m.ext.enabled && wants && m.tasks[task].policy != policy && m.scx_entity(task).disallow)
}

/// A CPU enters or leaves idle.
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

/// A CPU that idles was made to look for work and found none: it can be claimed again.
pub(crate) fn stay_idle(m: &mut Machine, cpu: CpuId) {
    if m.ext.enabled && m.rqs[cpu].idle() {
        idle::update(m, cpu, true);
    }
}

/// After every context switch.
pub(crate) fn sched_switch(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    mirror::mirror_switch(m, cpu, prev, next);
    tracepoint::sched_switch(m, cpu, prev, next);
}

/// The CPU's kernel code is through: what was put off until now (irq_work).
#[inline]
pub(crate) fn irq_work(m: &mut Machine) {
    if !m.ext.irq_work.is_empty() {
        kick::run_irq_work(m);
    }
}

/// A task was woken and put on `cpu`'s queue, which is locked (task_woken_scx).
#[inline]
pub(crate) fn task_woken(m: &mut Machine, cpu: CpuId, task: TaskId) {
    mirror::mirror_state(m, task);
    if deferred::pending(m, cpu) {
        deferred::run_deferred(m, cpu);
    }
}

/// Every tick, whatever runs.
pub(crate) fn tick(m: &mut Machine, cpu: CpuId) {
    tracepoint::sched_tick(m, cpu);
}

pub(crate) fn watchdog(m: &mut Machine) {
    watchdog::run(m);
}

/// The event of work put off to another moment.
pub(crate) fn deferred(m: &mut Machine, cpu: CpuId) {
    m.enter(cpu);
    deferred::arrived(m, cpu);
    enable::advance_ending(m);
}

/// A task slot was filled: its task_struct is laid out.
pub(crate) fn task_created(m: &mut Machine, task: TaskId) {
    mirror::mirror_task(m, task);
    m.scx_init_entity(task);
}

/// scx_fork and scx_post_fork: init_task and, if it is an ext task, enable. The errno if the policy fails the fork.
pub(crate) fn post_fork(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    lifecycle::forked(m, task)
}

pub(crate) fn task_renamed(m: &mut Machine, task: TaskId) {
    mirror::mirror_exec(m, task);
}

/// sched_ext_dead: disable and exit_task.
pub(crate) fn task_dead(m: &mut Machine, task: TaskId) {
    lifecycle::dead(m, task);
    mirror::mirror_reparent(m, task);
}

/// __put_task_struct: nobody holds the task any more.
pub(crate) fn task_gone(m: &mut Machine, task: TaskId) {
    let addr = m.tasks[task].addr;
    lifecycle::gone(m, [addr]);
}

pub(crate) fn task_cpu_changed(m: &mut Machine, task: TaskId) {
    mirror::mirror_cpu(m, task);
    tracepoint::sched_migrate_task(m, task, m.tasks[task].cpu);
}

/// The task's class has just been set from `from` to another one; it is off the queues.
pub(crate) fn switching_class(m: &mut Machine, task: TaskId, from: Class) {
    debug_assert_ne!(m.tasks[task].class, from);
    if m.tasks[task].class == Class::Ext {
        lifecycle::switching_to(m, task);
    }
}

/// Nice, policy or weight changed: task_struct's copies and ops.set_weight.
pub(crate) fn params_changed(m: &mut Machine, task: TaskId) {
    mirror::mirror_params(m, task);
    lifecycle::reweight(m, task);
}

/// A CPU came up; tasks can be queued there.
pub(crate) fn cpu_online(m: &mut Machine, cpu: CpuId) {
    m.rqs[cpu].ext.online = true;
    hotplug(m, cpu, true);
}

/// A CPU is going down; its tasks are still there.
pub(crate) fn cpu_offline(m: &mut Machine, cpu: CpuId) {
    hotplug(m, cpu, false);
    m.rqs[cpu].ext.online = false;
}

/// handle_hotplug
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

/// The user ends the policy by the magic SysRq key.
pub fn sysrq_reset(m: &mut Machine) {
    exit::exit_on(m, Kind::Sysrq, 0, -1, "");
}

/// An ext task of a CPU became runnable beside another one: it waits its turn (wakeup_preempt_scx). One of a higher class
/// makes tasks go back that were to run at once.
pub(crate) fn wakeup_preempt(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _flags: u32) {}

/// A task of a higher class preempts `cpu`'s curr.
pub(crate) fn preempted_by_class(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].ext.nr_immed > 0 {
        deferred::schedule_reenq_local(m, cpu);
    }
}

/// What a forked task inherits is set when it is introduced to the policy.
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}

pub(crate) fn switched_from(m: &mut Machine, _cpu: CpuId, task: TaskId) {
    lifecycle::switched_from(m, task);
}

/// Everything has happened in `switching_class`; a running task of the class below makes way.
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
