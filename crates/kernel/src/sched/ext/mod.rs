// SPDX-License-Identifier: GPL-2.0-only
//! The sched_ext scheduling class of Linux 7.2, and with `--kernel 7.3` that of Linux 7.3
//! (kernel/sched/ext). This class calls the callbacks
//! of a policy, which makes the scheduling decisions.
//!
//! | modules | contents |
//! |---|---|
//! | `ops`, `ops_table` | the table of the policy's callbacks, and the calls of them |
//! | `enqueue`, `dispatch`, `deferred` | moving tasks between the core, the policy and DSQs |
//! | `dsq`, `migrate` | insertion into dispatch queues, removal, and moves between them and between CPUs |
//! | `turn` | the beginning and end of a task's turn on a CPU |
//! | `insert`, `dsq_iter`, `user_dsq`, `kick`, `cid`, `idle` | operations that a policy requests through kfuncs |
//! | `enable`, `lifecycle`, `bypass` | start and end of a policy and of the tasks it schedules |
//! | `sub`, `scheds` | sub-schedulers: policies for the tasks of a cgroup |
//! | `caps`, `ecaps`, `cmask` | CPUs that sub-schedulers may use, and the masks that name them (Linux 7.3) |
//! | `rescue` | tasks without a CPU that their sub-scheduler may use (Linux 7.3) |
//! | `watchdog`, `exit`, `dump` | failures of a policy |
//!
//! This file contains the functions of the class (struct sched_class) and the functions that the
//! rest of the simulated kernel calls.
//!
//! Core scheduling is not modelled, so ops.core_sched_before() is never called.

mod bypass;
pub(crate) mod caps;
pub(crate) mod cgroup;
pub(crate) mod cid;
mod cmask;
mod deferred;
mod dispatch;
mod dsq;
pub(crate) mod dsq_iter;
pub mod dump;
mod ecaps;
pub mod enable;
mod enqueue;
pub mod exit;
pub(crate) mod handover;
pub mod idle;
pub mod insert;
pub mod kick;
mod lifecycle;
mod migrate;
pub mod ops;
mod rescue;
pub mod state;
mod step_log;
pub(crate) mod sub;
pub mod task_state;
pub(crate) mod turn;
pub(crate) mod user_dsq;
pub mod watchdog;

pub(crate) use dispatch::pick_task;
pub use enable::unload;
pub(crate) use turn::update_curr;

use crate::layout;
use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext::state::core::{EnableState, Ending};
use crate::sched::ext::state::exit_info::ExitKind;
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::state::task::Task;
use crate::sched::{rt, tracepoint};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, TaskId};
use layout::enums::*;
use workload::SchedPolicy;

/// Returns the class that a task belongs to (task_should_scx). The class depends on the task's
/// scheduling policy (SCHED_*) and on whether a BPF scheduler is enabled.
pub(crate) fn class_for(m: &Machine, task: &Task) -> Class {
    class_for_policy(m, task.policy())
}

/// Returns the class of tasks with the scheduling policy `policy` (SCHED_*).
pub(crate) fn class_for_policy(m: &Machine, policy: u32) -> Class {
    match policy {
        layout::SCHED_DEADLINE | layout::SCHED_FIFO | layout::SCHED_RR => Class::Rt,
        layout::SCHED_EXT if m.ext.takes_tasks() => Class::Ext,
        _ if m.ext.switching_all && m.ext.takes_tasks() => Class::Ext,
        _ => Class::Fair,
    }
}

/// Returns whether the task may change to this scheduling policy (scx_check_setscheduler). A change
/// to SCHED_EXT is refused if ops.init_task() has set `disallow` for the task.
pub(crate) fn check_setscheduler(m: &Machine, task: TaskId, policy: SchedPolicy) -> bool {
    let wants = matches!(policy, SchedPolicy::Ext { .. });
    !(m.ext.enabled && wants && m.tasks[task].policy() != layout::SCHED_EXT && m.scx_entity(task).disallow.is_set())
}

pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    sub::in_sched_of(m, task, |m| enqueue::enqueue_task(m, cpu, task, flags));
}

pub(crate) fn dequeue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    sub::in_sched_of(m, task, |m| enqueue::dequeue_task(m, cpu, task, flags));
}

pub(crate) fn set_next_task(m: &mut Machine, cpu: CpuId, task: TaskId) {
    sub::in_sched_of(m, task, |m| turn::set_next_task(m, cpu, task));
}

pub(crate) fn put_prev_task(m: &mut Machine, cpu: CpuId, task: TaskId, next: TaskId) {
    sub::in_sched_of(m, task, |m| turn::put_prev_task(m, cpu, task, next));
}

pub(crate) fn put_prev_for_stopper(m: &mut Machine, cpu: CpuId, task: TaskId, why: u64) {
    sub::in_sched_of(m, task, |m| turn::put_prev_for_stopper(m, cpu, task, why));
}

pub(crate) fn select_task_rq(m: &mut Machine, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
    sub::in_sched_of(m, task, |m| enqueue::select_task_rq(m, task, prev_cpu, wake_flags))
}

pub(crate) fn yield_task(m: &mut Machine, cpu: CpuId) {
    sub::in_sched_of(m, m.rqs[cpu].curr, |m| turn::yield_task(m, cpu));
}

pub(crate) fn task_tick(m: &mut Machine, cpu: CpuId) {
    sub::in_sched_of(m, m.rqs[cpu].curr, |m| turn::task_tick(m, cpu));
}

/// Updates the idle masks and calls ops.update_idle() when a CPU becomes idle or busy.
pub(crate) fn update_idle(m: &mut Machine, cpu: CpuId, idle: bool) {
    if !m.ext.enabled {
        return;
    }
    idle::update(m, cpu, idle);
    if m.ext.is_linux_7_3 {
        ecaps::notify_idle(m, cpu, idle, true);
        return;
    }
    ecaps::call_update_idle(m, cpu, idle);
}

/// Marks a CPU as idle in the idle masks again, if it was idle, looked for a task and found none.
pub(crate) fn stay_idle(m: &mut Machine, cpu: CpuId) {
    if m.ext.enabled && m.rqs[cpu].idle() {
        idle::update(m, cpu, true);
        if m.rqs[cpu].ext.owes_idle != 0 {
            ecaps::notify_idle(m, cpu, true, false);
        }
    }
}

/// Runs after every context switch. Updates the current task that BPF programs see, and runs
/// tracing programs.
pub(crate) fn sched_switch(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    m.mirror_switch(cpu, prev, next);
    tracepoint::sched_switch(m, cpu, prev, next);
}

/// Does the work that was deferred to the end of the CPU's current kernel code (irq_work).
#[inline]
pub(crate) fn irq_work(m: &mut Machine) {
    if !m.ext.irq_work.is_empty() {
        kick::run_irq_work(m);
    }
}

/// Handles the interrupts that arrive together with a reschedule IPI.
#[inline]
pub(crate) fn resched_ipi(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].ext.deferred {
        deferred::before_resched(m, cpu);
    }
}

/// Performs deferred work of `cpu` after a task was woken and queued there (task_woken_scx). The
/// runqueue of `cpu` is locked.
#[inline]
pub(crate) fn task_woken(m: &mut Machine, cpu: CpuId) {
    if deferred::pending(m, cpu) {
        deferred::run_deferred(m, cpu);
    }
}

/// Runs tracing programs at every tick, regardless of the current task's class. If a policy is
/// loaded, updates the averages of the other classes (scx_tick).
pub(crate) fn tick(m: &mut Machine, cpu: CpuId) {
    if m.ext.enabled {
        rt::update_other_load_avgs(m, cpu);
    }
    tracepoint::sched_tick(m, cpu);
}

pub(crate) fn watchdog(m: &mut Machine) {
    watchdog::run(m);
}

/// Handles an `ExtDeferred` event: performs the deferred work of `cpu`, and the next step of ending
/// a policy if this step is due.
pub(crate) fn deferred(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    deferred::arrived(m, cpu);
    // In a script, a thread on CPU 0 ends policies.
    if m.stepped.is_none() || !m.ext.has_subs() {
        enable::advance_ending(m);
    }
}

/// In a script, performs the steps of ending policies that are due, as a thread on CPU 0. Returns whether
/// there were any.
pub(crate) fn end_policies(m: &mut Machine) -> bool {
    let is_due = enable::has_due_ending(m) || m.ext.has_subs() && sub::has_due_ending(m);
    if is_due {
        enable::run_as_user(m, enable::advance_ending);
    }
    is_due
}

/// Handles an `ExtRescue` event. Returns false if it is out of date.
pub(crate) fn rescue_timer(m: &mut Machine, cpu: CpuId) -> bool {
    if m.rqs[cpu].ext.rescue.timer != Some(m.now) {
        return false;
    }
    m.rqs[cpu].ext.rescue.timer = None;
    let is_needed = m.ext.enforces_caps();
    if is_needed {
        m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
        rescue::timer(m, cpu);
    }
    is_needed
}

/// Sets up the sched_ext state of a new task.
pub(crate) fn task_created(m: &mut Machine, task: TaskId) {
    m.scx_init_entity(task);
}

/// Passes a new task to the policy (scx_fork, scx_post_fork).
///
/// # Errors
/// The negative errno that ops.init_task() returned, if it failed.
pub(crate) fn post_fork(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    lifecycle::forked(m, task)
}

/// Calls ops.disable() and ops.exit_task() for a dead task (sched_ext_dead).
pub(crate) fn task_dead(m: &mut Machine, task: TaskId) {
    sub::in_sched_of(m, task, |m| lifecycle::dead(m, task));
}

/// Frees the BPF local storage of a task that has no references any more (__put_task_struct).
pub(crate) fn free_task_storage(m: &mut Machine, task: TaskId) {
    let addr = m.tasks[task].addr();
    lifecycle::free_local_storage(m, [addr]);
}

pub(crate) fn task_cpu_changed(m: &mut Machine, task: TaskId) {
    tracepoint::sched_migrate_task(m, task, m.tasks[task].cpu());
}

/// Handles a task whose class has just changed. `from` is its previous class. The task is not
/// queued.
pub(crate) fn switching_class(m: &mut Machine, task: TaskId, from: Class) {
    debug_assert_ne!(m.tasks[task].class, from);
    if m.tasks[task].class == Class::Ext {
        sub::in_sched_of(m, task, |m| lifecycle::switching_to(m, task));
    }
}

/// Calls ops.set_weight() after a change of nice value, policy or weight.
pub(crate) fn params_changed(m: &mut Machine, task: TaskId) {
    sub::in_sched_of(m, task, |m| lifecycle::reweight(m, task));
}

/// Handles a CPU that has come online. From now on, tasks can be queued on it.
pub(crate) fn cpu_online(m: &mut Machine, cpu: CpuId) {
    m.rqs[cpu].ext.online = true;
    hotplug(m, cpu, true);
}

/// Queues the tasks of a CPU that goes offline on its local DSQ, because it does not call ops.dispatch() any
/// more (rq_offline_scx).
pub(crate) fn rq_offline(m: &mut Machine, cpu: CpuId) {
    m.rqs[cpu].ext.online = false;
    if !m.ext.enabled {
        return;
    }
    if m.ext.enforces_caps() {
        rescue::flush(m, cpu);
    }
    let local = m.ext.dsqs.local(cpu);
    let waiting = m.runnable_lists().swap_remove(cpu.index());
    for task in waiting.into_iter().rev() {
        if m.ext.dsqs.current(task) != local {
            m.change_queued(task, flags::MOVE, |_| {});
        }
    }
}

/// Lets a policy of a script continue to end that has waited for the end of hotplug.
pub(crate) fn resume_ending(m: &mut Machine) {
    if m.stepped.is_some() && matches!(m.ext.ending, Ending::Disable { .. }) {
        m.events.push(m.now, Event::ExtDeferred { cpu: CpuId::BOOT });
    }
}

/// Moves the timers of all policies from a dying CPU to a different one.
pub(crate) fn migrate_timers(m: &mut Machine, cpu: CpuId, to: CpuId) {
    let policies: Vec<SchedId> = std::iter::once(SchedId::ROOT).chain(m.ext.live_subs()).collect();
    for id in policies {
        sub::in_sched(m, id, |m| {
            let timers = m.ext.policy.iter_mut().flat_map(|policy| &mut policy.timers.slots);
            timers.filter(|timer| timer.cpu == cpu).for_each(|timer| timer.cpu = to);
        });
    }
}

/// Handles a CPU that goes offline.
pub(crate) fn cpu_offline(m: &mut Machine, cpu: CpuId) {
    hotplug(m, cpu, false);
}

/// Calls ops.cpu_online() or ops.cpu_offline(). If the policy does not define the callback, ends
/// the policy (handle_hotplug).
fn hotplug(m: &mut Machine, cpu: CpuId, online: bool) {
    m.ext.hotplug_seq += 1;
    if m.ext.state == EnableState::Disabled {
        return;
    }
    idle::update_topology(m);
    if m.ext.is_linux_7_3 {
        cid::update_online(m);
    }
    if m.ext.enforces_caps() {
        ecaps::hotplug(m, cpu, online);
    }
    let (op, going) = if online {
        (Callback::CpuOnline, "online")
    } else {
        (Callback::CpuOffline, "offline")
    };
    if m.ext.has_op(op) {
        let arg = m.ext.cids.arg(cpu);
        ops::call(m, op, &[arg]);
    } else {
        let code = (SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG) as i64;
        exit::exit(
            m,
            ExitKind::UnregKern,
            code,
            format!("cpu {cpu} going {going}, exiting scheduler"),
        );
    }
}

/// Ends the policy on behalf of the user (SysRq-S).
pub fn sysrq_reset(m: &mut Machine) {
    exit::exit_on(m, ExitKind::Sysrq, 0, -1, "");
}

/// Does nothing: an ext task that becomes runnable does not preempt another ext task
/// (wakeup_preempt_scx). [`preempted_by_class`] handles preemption by tasks of higher classes.
pub(crate) fn wakeup_preempt(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _flags: u32) {}

/// Handles the preemption of the current task of `cpu` by a task of a higher class. Tasks that were
/// inserted with SCX_ENQ_IMMED go back to the policy.
pub(crate) fn preempted_by_class(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].ext.nr_immed > 0 {
        deferred::schedule_reenq_local(m, cpu);
    }
}

/// Does nothing: `task_created` and `post_fork` initialize the sched_ext state of a new task.
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}

pub(crate) fn switched_from(m: &mut Machine, _cpu: CpuId, task: TaskId) {
    sub::in_sched_of(m, task, |m| lifecycle::switched_from(m, task));
}

/// Does nothing: `switching_class` has handled the task.
pub(crate) fn switched_to(_m: &mut Machine, _cpu: CpuId, _task: TaskId) {}

pub(crate) fn prio_changed(_m: &mut Machine, _cpu: CpuId, _task: TaskId, _old_prio: i32) {}

pub(crate) fn set_cpus_allowed(m: &mut Machine, task: TaskId) {
    sub::in_sched_of(m, task, |m| lifecycle::set_cpumask(m, task));
}

pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: CpuId) {}
