// SPDX-License-Identifier: GPL-2.0-only
//! Enables and disables a policy (scx_root_enable_workfn, scx_root_disable).
//!
//! Enabling a policy takes no simulated time, because it is work of the user who loads the policy.
//!
//! When a policy fails or is unloaded, bypass mode begins: the core schedules the tasks without the
//! policy. A real kernel then waits for RCU grace periods. The simulator waits for a few ticks
//! instead. After that, the tasks return to the fair class, and ops.exit() is called with the exit
//! record.

use super::exit::{self};
use super::ops::{self};
use super::{bypass, cgroup, cid, dump, idle, kick, lifecycle, sub, watchdog};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::layout::release::Release;
use crate::layout::scx_exit_info;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::deadline;
use crate::sched::ext::state::core::{DirectDispatch, EnableState, Ending};
use crate::sched::ext::state::entity::TaskState;
use crate::sched::ext::state::exit_info::{Exit, ExitKind};
use crate::sched::ext::state::ops_table::{Frame, OpsTable, PreparedPolicy};
use crate::sched::ext::state::rescue::RescueKnobs;
use crate::sched::ext::state::scheds::SchedId;
use crate::sched::ext::state::{cids, ops_table};
use crate::sched::tracepoint::state::Tracing;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, Server, TaskId};
use bpf::errno::{EBUSY, EFAULT, EINVAL};
use bpf::map::kind;
use bpf::memory::Use;

/// Number of ticks from the start of bypass mode to the end of the policy. It corresponds to two
/// RCU grace periods of about two ticks each.
const GRACE_TICKS: u64 = 4;

/// Installs a policy in the simulated kernel. Afterwards its programs can run, and the policy can
/// be [enabled](enable).
///
/// # Errors
/// The exit record if the kernel would reject the policy. The policy is then not installed.
pub(crate) fn install(m: &mut Machine, policy: PreparedPolicy, hooks: Tracing) -> Result<(), Box<Exit>> {
    let (vm, ops, cid) = policy.into_parts(m);
    check_disabled(m, &ops)?;
    let arenas = vm.maps().iter().filter(|map| map.def().kind == kind::ARENA).count();
    if let Some(message) = cids::check_arenas(arenas).filter(|_| cid) {
        return Err(Exit::refusal(ops.name(), message, m.now));
    }
    m.ext.install(vm, ops, hooks);
    Ok(())
}

/// Checks that no policy is enabled, so that the policy with the callbacks `ops` can be.
///
/// # Errors
/// The exit record if a policy is enabled.
pub(crate) fn check_disabled(m: &Machine, ops: &OpsTable) -> Result<(), Box<Exit>> {
    if m.ext.state == EnableState::Disabled {
        return Ok(());
    }
    let loaded = m.ext.ops().name();
    let message = format!("another scheduler, \"{loaded}\", is loaded ({})", -EBUSY);
    Err(Exit::refusal(ops.name(), message, m.now))
}

/// Removes a policy that could not be enabled, regardless of the step that failed.
pub(crate) fn abandon(m: &mut Machine) {
    unload(m);
    remove_policy(m);
}

/// Removes the policy and releases the memory that was charged for its DSQs.
pub(crate) fn remove_policy(m: &mut Machine) {
    let queues = m.ext.dsqs.nr_user_dsqs();
    m.ext.remove_policy();
    m.region.memory().uncharge_records(Use::Queues, queues);
}

/// Unloads the policy, if one is loaded. The exit kind is SCX_EXIT_UNREG unless the policy is
/// already ending for another reason. The exit record remains available.
pub fn unload(m: &mut Machine) {
    if m.ext.state == EnableState::Disabled {
        return;
    }
    exit::exit_on(m, ExitKind::Unreg, 0, -1, "");
    run_as_user(m, finish);
}

/// Performs a system call of a user outside of the simulated workload, on the first online CPU. No
/// CPU is charged for the call. Afterwards the CPU reschedules if necessary.
pub(crate) fn run_as_user<T>(m: &mut Machine, call: impl FnOnce(&mut Machine) -> T) -> T {
    run_as_user_on(m, m.online_cpus.first().expect("one CPU always stays online"), call)
}

/// Performs a user's system call like [`run_as_user`], but on `cpu`.
pub(crate) fn run_as_user_on<T>(m: &mut Machine, cpu: CpuId, call: impl FnOnce(&mut Machine) -> T) -> T {
    let this_cpu = m.this_cpu;
    m.enter(cpu);
    let debts: Vec<(u64, u64)> = m.rqs.iter().map(|rq| (rq.debt(), rq.carry_ps)).collect();
    let result = call(m);
    m.leave();
    m.this_cpu = this_cpu;
    // Other CPUs may have executed since the call began if callbacks overlap.
    let only = m.is_handler_overlapped().then_some(cpu);
    for (other, (rq, (debt, carry_ps))) in m.rqs.iter_mut().zip(debts).enumerate() {
        if only.is_some_and(|only| only.index() != other) {
            continue;
        }
        rq.set_debt(debt);
        rq.carry_ps = carry_ps;
        rq.charged = rq.charged.min(debt);
    }
    result
}

/// Enables the installed policy. Calls ops.init_task() for all tasks, and moves the tasks that the
/// policy schedules to the ext class.
///
/// # Errors
/// The exit record if the policy could not be enabled. The policy has then been removed.
pub(crate) fn enable(m: &mut Machine, cid: bool) -> Result<(), Box<Exit>> {
    run_as_user(m, |m| enable_policy(m, cid))
}

fn enable_policy(m: &mut Machine, cid: bool) -> Result<(), Box<Exit>> {
    m.ext.is_linux_7_3 = m.options.release >= Release::LINUX_7_3;
    m.ext.begin();
    m.ext.uses_cids = cid;
    m.ext.rescue = RescueKnobs::new(m.ext.ops(), m.tick_ns());
    cid::enable(m, cid);
    m.ext.enabling = true;
    let result = run_enable_steps(m);
    m.ext.enabling = false;
    if let Err(errno) = result {
        exit::error(m, format!("scx_root_enable() failed ({errno})"));
    }
    // The policy may have ended although no step returned an errno, for example because of an error
    // in a callback.
    if m.ext.exit.is_some() {
        finish(m);
        return Err(Box::new(m.ext.exit.clone().expect("the exit record exists")));
    }
    m.ext.enable_seq += 1;
    let cpu = m.this_cpu;
    m.trace(cpu, trace::Event::Policy { loaded: true });
    Ok(())
}

/// Performs the steps of the kernel's enable path, in the same order. Stops at the first step that
/// returns an errno.
fn run_enable_steps(m: &mut Machine) -> Result<(), i32> {
    watchdog::start(m);
    deadline::attach(m, Server::Ext);
    let (flags, has_update_idle) = (m.ext.ops().flags, m.ext.ops().defines(Callback::UpdateIdle));
    idle::enable(m, flags, has_update_idle);
    if m.ext.is_linux_7_3 {
        call_init_cids(m)?;
        cid::alloc_masks(m)?;
        call_init(m)?;
    } else {
        call_init(m)?;
        cid::alloc_masks(m)?;
    }
    m.ext.activate_ops(ops_table::hotplug_ops());
    check_hotplug_seq(m)?;
    validate(m)?;
    bypass::set(m, true);
    m.ext.activate_ops(ops_table::normal_ops());
    m.ext.init_task_enabled = true;
    match cgroup::init(m) {
        0 => {}
        errno => return Err(errno),
    }
    let tasks = all_tasks(m);
    for &task in &tasks {
        m.scx_set_state(task, TaskState::InitBegin);
        let errno = lifecycle::init_task(m, task, false);
        if errno != 0 {
            m.scx_set_state(task, TaskState::None);
            let t = &m.tasks[task];
            let message = format!("ops.init_task() failed ({errno}) for {}[{}]", t.comm(), t.pid());
            exit::error(m, message);
            return Err(errno);
        }
        m.scx_set_state(task, TaskState::Init);
        m.scx_set_state(task, TaskState::Ready);
        m.ext.nr_accepted += 1;
    }
    m.ext.switching_all = flags & SCX_OPS_SWITCH_PARTIAL == 0;
    m.ext.enabled = true;
    for task in tasks {
        let class = super::class_for(m, &m.tasks[task]);
        m.scx_entity_mut(task).slice = m.ext.slice_dfl;
        set_class(m, task, class);
    }
    bypass::set(m, false);
    if m.ext.switching_all {
        deadline::detach(m, Server::Fair);
    }
    if m.ext.exit.is_some() {
        return Ok(());
    }
    m.ext.state = EnableState::Enabled;
    Ok(())
}

/// Calls ops.init_cids(), which may replace the mapping of cids (Linux 7.3).
///
/// # Errors
/// A negative errno, if the callback failed.
fn call_init_cids(m: &mut Machine) -> Result<(), i32> {
    if m.ext.cids.uses_cids() && m.ext.ops().defines(Callback::InitCids) {
        let result = ops::call_framed(m, Callback::InitCids, Frame::NONE, &[]).map_or(-EFAULT, |result| result as i32);
        if result != 0 {
            let errno = exit::sanitize(m, "init_cids", result);
            exit::error(m, format!("ops.init_cids() failed ({errno})"));
            return Err(errno);
        }
    }
    Ok(())
}

/// Calls ops.init().
///
/// # Errors
/// A negative errno, if the callback failed.
pub(super) fn call_init(m: &mut Machine) -> Result<(), i32> {
    if m.ext.ops().defines(Callback::Init) {
        let result = ops::call_framed(m, Callback::Init, Frame::NONE, &[]).map_or(-EFAULT, |result| result as i32);
        if result != 0 {
            let errno = exit::sanitize(m, "init", result);
            exit::error(m, format!("ops.init() failed ({errno})"));
            return Err(errno);
        }
        m.ext.exit_flags |= SCX_EFLAG_INITIALIZED;
    }
    Ok(())
}

/// Returns all live tasks, oldest first.
pub(super) fn all_tasks(m: &Machine) -> Vec<TaskId> {
    m.pids.iter().copied().filter(|&task| task != IDLE).collect()
}

/// Moves a task to another class.
fn set_class(m: &mut Machine, task: TaskId, class: Class) {
    let old = m.tasks[task].class;
    if old == class {
        return;
    }
    let cpu = m.tasks[task].cpu();
    m.change_queued(task, flags::MOVE | flags::CLASS, |m| {
        m.class_switched_from(old, cpu, task);
        m.tasks[task].class = class;
        super::switching_class(m, task, old);
    });
    m.class_changed(task, old);
}

/// Ends the policy if CPUs went online or offline after its object was opened (check_hotplug_seq).
fn check_hotplug_seq(m: &mut Machine) -> Result<(), i32> {
    let (expected, actual) = (m.ext.ops().hotplug_seq, m.ext.hotplug_seq);
    if expected == 0 || expected == actual {
        return Ok(());
    }
    let code = (SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG) as i64;
    let message = format!("expected hotplug seq {expected} did not match actual {actual}");
    exit::exit(m, ExitKind::UnregKern, code, message);
    Err(-EBUSY)
}

/// Checks that the flags and callbacks of the policy are compatible (validate_ops).
pub(super) fn validate(m: &mut Machine) -> Result<(), i32> {
    let ops = &m.ext.ops();
    let keeps_idle = ops.flags & SCX_OPS_KEEP_BUILTIN_IDLE != 0 || !ops.defines(Callback::UpdateIdle);
    let message = if ops.flags & SCX_OPS_ENQ_LAST != 0 && !ops.defines(Callback::Enqueue) {
        "SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented"
    } else if ops.flags & SCX_OPS_BUILTIN_IDLE_PER_NODE != 0 && !keeps_idle {
        "SCX_OPS_BUILTIN_IDLE_PER_NODE requires CPU idle selection enabled"
    } else if !m.ext.cids.uses_cids() && (ops.defines(Callback::SubAttach) || ops.defines(Callback::SubDetach)) {
        "sub_attach/sub_detach requires cid-form struct_ops"
    } else {
        return Ok(());
    };
    exit::error(m, message);
    Err(-EINVAL)
}

/// Performs the next step of ending the policy, if it is due.
pub(super) fn advance_ending(m: &mut Machine) {
    if m.ext.has_subs() {
        sub::advance_endings(m);
    }
    match m.ext.ending {
        Ending::Bypass { at } if m.now >= at => {
            begin_bypass(m);
            // A script does not wait for grace periods.
            let ticks = if m.stepped.is_some() { 0 } else { GRACE_TICKS };
            let at = m.now + ticks * m.tick_ns();
            m.ext.ending = Ending::Disable { at };
            let cpu = m.this_cpu;
            m.events.push(at, Event::ExtDeferred { cpu });
        }
        // static_branch_disable() waits until the CPU is online or offline.
        Ending::Disable { at } if m.now >= at && !m.cpus_write_locked => disable(m),
        _ => {}
    }
}

/// Returns whether a step of ending the policy is due.
pub(super) fn has_due_ending(m: &Machine) -> bool {
    matches!(m.ext.ending, Ending::Bypass { at } | Ending::Disable { at } if m.now >= at)
}

/// Ends the policy immediately, without waiting for grace periods.
fn finish(m: &mut Machine) {
    if matches!(m.ext.ending, Ending::Bypass { .. }) {
        begin_bypass(m);
    }
    disable(m);
}

/// Number of bytes by which the memory limit is raised for the dump and for the arguments of
/// ops.exit(). A policy that has used up its memory can therefore still exit properly.
pub(super) const EXIT_RESERVE: u64 = 256 << 20;

/// Writes the dump of an ending policy and enters bypass mode.
fn begin_bypass(m: &mut Machine) {
    // A task on a wake list may have been dispatched by ops.select_cpu(). It must reach its DSQ
    // before the policy is gone.
    m.finish_wakeups();
    let memory = m.region.memory();
    memory.set_limit(memory.limit() + EXIT_RESERVE);
    let mut exit = m.ext.exit.take().expect("an ending policy has an exit record");
    if exit.kind.is_error() {
        exit.dump = dump::state(m, &exit);
    }
    m.ext.exit = Some(exit);
    bypass::set(m, true);
    m.ext.state = EnableState::Disabling;
}

/// Disables the policy and removes it (scx_root_disable). Bypass mode is on.
fn disable(m: &mut Machine) {
    if m.ext.has_subs() {
        sub::finish_children(m, SchedId::ROOT);
        m.ext.forget_scheds();
    }
    m.ext.ending = Ending::No;
    m.ext.switching_all = false;
    cgroup::exit(m);
    m.ext.init_task_enabled = false;
    for task in all_tasks(m) {
        let class = super::class_for(m, &m.tasks[task]);
        set_class(m, task, class);
        lifecycle::disable_and_exit_task(m, task);
    }
    kick::end_all_waits(m);
    m.reset_perf_targets();
    deadline::detach(m, Server::Ext);
    deadline::attach(m, Server::Fair);
    m.ext.enabled = false;
    m.ext.deactivate_ops();
    idle::disable(m);
    if m.stepped.is_some() {
        // During the grace period, the CPUs reschedule.
        m.step_interrupts();
    }
    if m.ext.ops().defines(Callback::Exit) {
        call_exit(m);
    }
    m.drop_all_references();
    remove_policy(m);
    let memory = m.region.memory();
    memory.set_limit(memory.limit() - EXIT_RESERVE);
    m.ext.direct = DirectDispatch::Closed;
    m.ext.state = EnableState::Disabled;
    while m.ext.bypass_depth > 0 {
        bypass::set(m, false);
    }
    let cpu = m.this_cpu;
    m.trace(cpu, trace::Event::Policy { loaded: false });
}

/// If a policy is ending, ends it immediately, without waiting for grace periods. Called at the end
/// of a run.
pub(crate) fn end_now(m: &mut Machine) {
    if m.ext.has_subs() {
        sub::finish_failed(m);
    }
    if m.ext.ending != Ending::No {
        run_as_user(m, finish);
    }
}

/// Calls ops.exit() with the exit record as a struct scx_exit_info that the policy can read.
pub(super) fn call_exit(m: &mut Machine) {
    let exit = m.ext.exit.as_ref().expect("a disabled policy has an exit record");
    let region = &m.region;
    let text = |text: &str| -> Option<u64> {
        let addr = region.alloc(text.len() as u64 + 1)?;
        region.write(addr, &[text.as_bytes(), &[0]].concat()).ok()?;
        Some(addr)
    };
    let texts = [exit.reason, exit.message.as_str(), exit.dump.as_str()].map(text);
    let info = region.alloc(size_of::<scx_exit_info>() as u64);
    if let ([Some(reason), Some(msg), Some(dump)], Some(info)) = (texts, info) {
        let record = scx_exit_info {
            kind: exit.kind as u32,
            exit_cpu: exit.cpu,
            exit_code: exit.code,
            flags: exit.flags,
            reason: reason as *mut i8,
            msg: msg as *mut i8,
            dump: dump as *mut i8,
        };
        // SAFETY: the record was allocated just now, is large enough, and no other reference to it
        // exists.
        unsafe { region.host::<scx_exit_info>(info).write(record) };
        ops::call(m, Callback::Exit, &[info]);
    }
    for addr in texts.into_iter().chain([info]).flatten() {
        m.region.free(addr);
    }
}
