// SPDX-License-Identifier: GPL-2.0-only
//! Sub-schedulers: policies that schedule the tasks of a cgroup and of the cgroups below it, on
//! behalf of the policy that schedules the rest of the machine (scx_sub_enable_workfn,
//! scx_sub_disable and scx_bpf_sub_dispatch of Linux 7.2). In Linux 7.3, sub-schedulers need
//! capabilities to use CPUs (`caps`). Sub-schedulers can have sub-schedulers.
//!
//! The code of sched_ext acts for the current policy ([`Core::current_sched`]). [`in_sched`] makes a
//! different policy the current one during a call.
//!
//! A sub-scheduler that fails is put into bypass mode, and its tasks go to the bypass DSQs of its
//! parent. After a grace period they return to the parent. Neither the parent nor the other
//! sub-schedulers are interrupted.
//!
//! [`Core::current_sched`]: crate::sched::ext::state::core::Core::current_sched

use super::enable::{self, EXIT_RESERVE, run_as_user};
use super::{bypass, caps, cid, dispatch, dump, exit, handover, lifecycle, ops, watchdog};
use crate::layout::callbacks::Callback;
use crate::layout::enums::{SCX_CAP_BASE, SCX_ECODE_RSN_CGROUP_OFFLINE, SCX_OPS_TID_TO_TASK, SCX_SUB_MAX_DEPTH};
use crate::layout::{sched_ext_ops, scx_sub_attach_args};
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext::state::core::Ending;
use crate::sched::ext::state::entity::TaskState;
use crate::sched::ext::state::exit_info::{Exit, ExitKind};
use crate::sched::ext::state::ops_table::{self, Frame, PreparedPolicy};
use crate::sched::ext::state::scheds::{MAX_SUBS, Phase, SchedId};
use crate::sched::tracepoint::state::{Hook, Tracing};
use crate::simulation::event::Event;
use crate::simulation::id::TaskId;
use bpf::errno::{EBUSY, EFAULT, EINVAL, ENODEV, ENOENT, EOPNOTSUPP};
use bpf::memory::Use;
use std::mem::offset_of;

/// Number of ticks from the start of bypass mode until the tasks return to the parent. It
/// corresponds to one RCU grace period of about two ticks (percpu_down_write of scx_fork_rwsem).
const GRACE_TICKS: u64 = 2;

/// Bits of the functions that the kernel calls when it registers a policy. Programs of the scx headers
/// are attached to them. They run before the policy is enabled, so a sub-scheduler may have them.
const AT_REGISTRATION: u32 = 1 << Hook::BpfScxReg as u32 | 1 << Hook::BpfScxRegCid as u32;

/// Calls `f` while `id` is the current policy.
#[inline]
pub(crate) fn in_sched<R>(m: &mut Machine, id: SchedId, f: impl FnOnce(&mut Machine) -> R) -> R {
    // `f` is called in one place only, so that the compiler can inline it.
    let outer = (m.ext.current_sched() != id).then(|| enter(m, id));
    let result = f(m);
    if let Some((outer, frame)) = outer {
        leave(m, outer, frame);
    }
    result
}

/// Calls `f` while the policy that schedules `task` is the current one.
#[inline(always)]
pub(crate) fn in_sched_of<R>(m: &mut Machine, task: TaskId, f: impl FnOnce(&mut Machine) -> R) -> R {
    let id = m.tasks[task].ext.sched;
    in_sched(m, id, f)
}

#[cold]
fn enter(m: &mut Machine, id: SchedId) -> (SchedId, Frame) {
    settle(m);
    let (outer, frame) = (m.ext.current_sched(), m.ext.frame);
    // The callbacks of the policies that are suspended meanwhile are not visible to this policy. The
    // lock of the runqueue remains held.
    m.ext.frame = Frame {
        locked_cpu: frame.locked_cpu,
        ..Frame::NONE
    };
    m.ext.switch_to(id);
    (outer, frame)
}

#[cold]
fn leave(m: &mut Machine, outer: SchedId, frame: Frame) {
    settle(m);
    m.ext.switch_to(outer);
    m.ext.frame = frame;
}

/// Charges the current CPU for the code of the current policy, if a policy is loaded.
fn settle(m: &mut Machine) {
    if m.ext.has_policy() {
        ops::settle(m);
    }
}

/// Returns the policy that schedules the tasks of a cgroup (cgroup.scx_sched).
pub(crate) fn sched_of_cgroup(m: &Machine, cgroup: u32) -> SchedId {
    if !m.ext.has_subs() {
        return SchedId::ROOT;
    }
    let mut at = Some(cgroup);
    while let Some(cgroup) = at {
        let owns = |&id: &SchedId| {
            let sched = m.ext.sched(id);
            sched.phase == Phase::Owner && sched.cgroup == cgroup
        };
        if let Some(owner) = m.ext.live_subs().find(owns) {
            return owner;
        }
        at = m.layout.parent_of_cgroup(cgroup);
    }
    SchedId::ROOT
}

fn cgroup_path(m: &Machine, cgroup: u32) -> &str {
    m.workload
        .cgroups
        .get(cgroup as usize)
        .map_or("/", |cgroup| &cgroup.path)
}

/// Returns whether `cgroup` is `ancestor` or below it.
pub(super) fn is_below(m: &Machine, cgroup: u32, ancestor: u32) -> bool {
    std::iter::successors(Some(cgroup), |&at| m.layout.parent_of_cgroup(at)).any(|at| at == ancestor)
}

/// Why a cgroup cannot have a sub-scheduler, with the kernel's errno.
#[derive(Debug, thiserror::Error)]
enum NoParent {
    #[error("no policy is loaded that could accept a sub-scheduler ({errno})", errno = -ENODEV)]
    NoPolicy,
    #[error("cgroup {0} does not exist ({errno})", errno = -ENOENT)]
    NoCgroup(String),
    #[error("policy \"{0}\" is already attached to cgroup {1} ({errno})", errno = -EBUSY)]
    Attached(String, String),
    #[error("policy \"{0}\" accepts no sub-schedulers: it has no ops.sub_attach() ({errno})", errno = -EOPNOTSUPP)]
    NoCallback(String),
    #[error("cgroup {0}, which is below {1}, has a sub-scheduler already ({errno})", errno = -EBUSY)]
    Below(String, String),
    #[error("parent disabled ({errno})", errno = -ENOENT)]
    Disabled,
}

/// Returns the policy that would be the parent of a sub-scheduler of `cgroup` (find_parent_sched).
fn find_parent(m: &Machine, cgroup: u32) -> Result<SchedId, NoParent> {
    let path = cgroup_path(m, cgroup);
    if !m.ext.enabled {
        return Err(NoParent::NoPolicy);
    }
    if !m.cgroups.get(cgroup).online {
        return Err(NoParent::NoCgroup(path.into()));
    }
    let parent = sched_of_cgroup(m, cgroup);
    let name = m.ext.ops_of(parent).name();
    let own = if parent == SchedId::ROOT {
        0
    } else {
        m.ext.sched(parent).cgroup
    };
    if own == cgroup {
        return Err(NoParent::Attached(name.into(), path.into()));
    }
    if !m.ext.ops_of(parent).defines(Callback::SubAttach) {
        return Err(NoParent::NoCallback(name.into()));
    }
    let below = |&id: &SchedId| m.ext.parent_of(id) == Some(parent) && is_below(m, m.ext.sched(id).cgroup, cgroup);
    if let Some(child) = m.ext.live_subs().find(below) {
        let child = cgroup_path(m, m.ext.sched(child).cgroup);
        return Err(NoParent::Below(child.into(), path.into()));
    }
    if m.ext.exit_of(parent).is_some() {
        return Err(NoParent::Disabled);
    }
    Ok(parent)
}

/// Adds a sub-scheduler for `cgroup` to the hierarchy. Afterwards its programs can run, and it can
/// be [enabled](enable).
///
/// # Errors
/// The exit record if the kernel would reject the policy, or if the simulator does not support it.
pub(crate) fn install(
    m: &mut Machine,
    policy: PreparedPolicy,
    hooks: Tracing,
    cgroup: u32,
) -> Result<SchedId, Box<Exit>> {
    let PreparedPolicy { vm, ops, cid } = policy;
    let refuse = |m: &Machine, message: String| Exit::refusal(ops.name(), message, m.now);
    let parent = find_parent(m, cgroup).map_err(|error| refuse(m, error.to_string()))?;
    if !cid {
        return Err(refuse(m, "sub-sched requires cid-form struct_ops".into()));
    }
    if hooks.entry & !AT_REGISTRATION != 0 || hooks.exit != 0 {
        let message = "not supported: a sub-scheduler with tracing programs, such as tp_btf or fentry";
        return Err(refuse(m, message.into()));
    }
    if m.overlap.is_some() {
        return Err(refuse(
            m,
            "not supported: sub-schedulers while callbacks overlap".into(),
        ));
    }
    let Some(id) = m.ext.add_sched(parent, cgroup) else {
        return Err(refuse(
            m,
            format!("not supported: more than {MAX_SUBS} sub-schedulers in one run"),
        ));
    };
    in_sched(m, id, |m| {
        m.ext.install(vm, ops, hooks);
        m.ext.begin_sched();
    });
    Ok(id)
}

/// Enables an installed sub-scheduler: asks the parent, calls ops.init_task() for the tasks of the
/// cgroup, and takes them over from the parent.
///
/// # Errors
/// The exit record if the sub-scheduler could not be enabled. It has then been removed.
pub(crate) fn enable(m: &mut Machine, id: SchedId) -> Result<(), Box<Exit>> {
    run_as_user(m, |m| {
        m.ext.enabling = true;
        let result = run_enable_steps(m, id);
        m.ext.enabling = false;
        if let Err(errno) = result {
            in_sched(m, id, |m| exit::error(m, format!("scx_sub_enable() failed ({errno})")));
        }
        if m.ext.exit_of(id).is_none() {
            return Ok(());
        }
        finish(m, id);
        let (_, exit) = m.ext.sub_exits.pop().expect("the sub-scheduler has ended");
        Err(Box::new(exit))
    })
}

/// Removes a sub-scheduler that could not be enabled, unless it has been removed already.
pub(crate) fn abandon(m: &mut Machine, id: SchedId) {
    if m.ext.sched(id).phase != Phase::Gone {
        run_as_user(m, |m| {
            in_sched(m, id, |m| exit::exit_on(m, ExitKind::Unreg, 0, -1, ""));
            finish(m, id);
        });
    }
}

/// Detaches the sub-scheduler of a cgroup if there is one (bpf_scx_unreg).
pub(crate) fn detach(m: &mut Machine, cgroup: u32) {
    let attached = |&id: &SchedId| m.ext.sched(id).cgroup == cgroup;
    let found = m.ext.live_subs().find(attached);
    if let Some(id) = found {
        abandon(m, id);
    }
}

/// Performs the steps of scx_sub_enable_workfn() in its order. Stops at the first step that returns
/// an errno.
fn run_enable_steps(m: &mut Machine, id: SchedId) -> Result<(), i32> {
    let parent = m.ext.sched(id).parent;
    let shares_tids = m.ext.ops_of(SchedId::ROOT).flags & SCX_OPS_TID_TO_TASK != 0;
    in_sched(m, id, |m| {
        watchdog::start(m);
        if m.ext.is_linux_7_3 {
            check_tids(m, shares_tids)?;
            enable::validate(m)?;
            caps::alloc(m)?;
        }
        if m.ext.level_of(id) >= SCX_SUB_MAX_DEPTH {
            exit::error(m, format!("max nesting depth {SCX_SUB_MAX_DEPTH} violated"));
            return Err(-EINVAL);
        }
        if m.ext.is_linux_7_3 {
            cid::alloc_masks(m)?;
            return enable::call_init(m);
        }
        enable::call_init(m)?;
        cid::alloc_masks(m)?;
        check_tids(m, shares_tids)?;
        enable::validate(m)
    })?;
    let result = call_parent(m, Callback::SubAttach, id).map_or(-EFAULT, |result| result as i32);
    if result != 0 {
        return in_sched(m, id, |m| {
            let errno = exit::sanitize(m, "sub_attach", result);
            exit::error(m, format!("parent rejected ({errno})"));
            Err(errno)
        });
    }
    m.ext.sched_mut(id).attached = true;
    in_sched(m, id, |m| {
        bypass::set(m, true);
        m.ext.activate_ops(ops_table::normal_ops());
    });
    wait_for_readers(m);
    m.ext.sched_mut(id).phase = Phase::Owner;
    if m.ext.is_linux_7_3 {
        handover::claim_cgroups(m, id, parent)?;
    }
    claim_tasks(m, id, parent)?;
    in_sched(m, id, |m| bypass::set(m, false));
    if m.ext.is_linux_7_3 {
        caps::seed(m, id);
    }
    Ok(())
}

/// Checks that the root policy has a table of tids if the sub-scheduler needs one.
fn check_tids(m: &mut Machine, shares_tids: bool) -> Result<(), i32> {
    if m.ext.ops().flags & SCX_OPS_TID_TO_TASK != 0 && !shares_tids {
        exit::error(m, "SCX_OPS_TID_TO_TASK requires root scheduler to enable it");
        return Err(-EINVAL);
    }
    Ok(())
}

/// Returns the path of the cgroup that a policy schedules.
pub(super) fn cgroup_path_of(m: &Machine, id: SchedId) -> &str {
    match id {
        SchedId::ROOT => "/",
        _ => cgroup_path(m, m.ext.sched(id).cgroup),
    }
}

/// Moves the tasks of the sub-scheduler's cgroups from the parent to it. Every task is first
/// initialized for the sub-scheduler, so that all tasks stay with the parent if one is rejected.
fn claim_tasks(m: &mut Machine, id: SchedId, parent: SchedId) -> Result<(), i32> {
    let mut tasks = enable::all_tasks(m);
    tasks.retain(|&task| m.tasks[task].ext.sched == parent && sched_of_cgroup(m, m.tasks[task].cgroup()) == id);
    for (index, &task) in tasks.iter().enumerate() {
        let errno = in_sched(m, id, |m| lifecycle::init_task(m, task, false));
        if errno != 0 {
            for &task in &tasks[..index] {
                in_sched(m, id, |m| lifecycle::call_exit_task(m, task, true));
            }
            return Err(errno);
        }
    }
    for task in tasks {
        m.change_queued(task, flags::MOVE, |m| {
            in_sched(m, parent, |m| lifecycle::disable_and_call_exit_task(m, task));
            m.tasks[task].ext.sched = id;
            if m.tasks[task].class == Class::Ext {
                in_sched(m, id, |m| lifecycle::enable_task(m, task));
            }
        });
    }
    Ok(())
}

/// Calls ops.sub_attach() or ops.sub_detach() of the parent of `id`. Returns the result, or `None` if
/// the callback faults.
fn call_parent(m: &mut Machine, op: Callback, id: SchedId) -> Option<u64> {
    let cgroup = m.ext.sched(id).cgroup;
    let child = m.ext.ops_of(id);
    let (flags, name) = (child.flags, child.name().to_owned());
    let (region, path) = (m.region.clone(), m.layout.cgroup_path_addr(cgroup));
    let table = region.alloc(size_of::<sched_ext_ops>() as u64)?;
    let Some(args) = region.alloc(size_of::<scx_sub_attach_args>() as u64) else {
        region.free(table);
        return None;
    };
    let cgroup_id = m.layout.cgroup_id(cgroup);
    let written = region
        .write(table, &vec![0; size_of::<sched_ext_ops>()])
        .and_then(|()| region.store(table + offset_of!(sched_ext_ops, sub_cgroup_id) as u64, cgroup_id))
        .and_then(|()| region.store(table + offset_of!(sched_ext_ops, flags) as u64, flags))
        .and_then(|()| region.write(table + offset_of!(sched_ext_ops, name) as u64, name.as_bytes()))
        .and_then(|()| region.store(args + offset_of!(scx_sub_attach_args, ops) as u64, table))
        .and_then(|()| region.store(args + offset_of!(scx_sub_attach_args, cgroup_path) as u64, path));
    debug_assert!(written.is_ok());
    let parent = m.ext.sched(id).parent;
    let result = in_sched(m, parent, |m| ops::call_framed(m, op, Frame::NONE, &[args]));
    region.free(table);
    region.free(args);
    result
}

/// Calls ops.dispatch() of the sub-scheduler of a cgroup, which must be a direct child of the current
/// policy (scx_bpf_sub_dispatch). Returns whether the CPU then has a task to run.
pub(crate) fn dispatch(m: &mut Machine, cgroup_id: u64) -> bool {
    let (current, cpu) = (m.ext.current_sched(), m.ext.dsp.cpu);
    let named = |&id: &SchedId| m.layout.cgroup_id(m.ext.sched(id).cgroup) == cgroup_id;
    let Some(child) = m.ext.live_subs().find(named) else {
        return false;
    };
    if m.ext.parent_of(child) != Some(current) {
        exit::error(
            m,
            format!("trying to dispatch a distant sub-sched on cgroup {cgroup_id}"),
        );
        return false;
    }
    if caps::missing(m, child, cpu, SCX_CAP_BASE) != 0 {
        return false;
    }
    in_sched(m, child, |m| dispatch::dispatch_nested(m, cpu))
}

/// Ends the sub-scheduler of a cgroup that is removed (scx_cgroup_lifetime_notify).
#[cold]
pub(super) fn cgroup_offline(m: &mut Machine, cgroup: u32) {
    let attached = |&id: &SchedId| m.ext.sched(id).cgroup == cgroup;
    let found = m.ext.live_subs().find(attached);
    if let Some(id) = found {
        let message = format!("cgroup {} going offline", m.layout.cgroup_id(cgroup));
        let code = SCX_ECODE_RSN_CGROUP_OFFLINE as i64;
        in_sched(m, id, |m| exit::exit(m, ExitKind::UnregKern, code, message));
    }
}

/// Performs the next step of ending each sub-scheduler for which a step is due.
pub(super) fn advance_endings(m: &mut Machine) {
    let subs: Vec<SchedId> = m.ext.live_subs().rev().collect();
    for id in subs {
        // The end of a sub-scheduler also ends the sub-schedulers below it.
        if m.ext.sched(id).phase == Phase::Gone {
            continue;
        }
        match m.ext.ending_of(id) {
            Ending::Bypass { at } if m.now >= at => {
                begin_bypass(m, id);
                // No time passes while the stepped kernel waits for a grace period.
                let ticks = if m.stepped.is_some() { 0 } else { GRACE_TICKS };
                let at = m.now + ticks * m.tick_ns();
                in_sched(m, id, |m| m.ext.ending = Ending::Disable { at });
                let cpu = m.this_cpu;
                m.events.push(at, Event::ExtDeferred { cpu });
            }
            Ending::Disable { at } if m.now >= at => disable(m, id),
            _ => {}
        }
    }
}

/// Ends the sub-schedulers below a policy immediately.
pub(super) fn finish_children(m: &mut Machine, of: SchedId) {
    for id in m.ext.descendants(of).into_iter().rev() {
        in_sched(m, id, |m| exit::exit_on(m, ExitKind::Parent, 0, -1, ""));
        finish(m, id);
    }
}

/// Ends those sub-schedulers immediately that have failed.
pub(super) fn finish_failed(m: &mut Machine) {
    let subs: Vec<SchedId> = m.ext.live_subs().rev().collect();
    for id in subs {
        if m.ext.ending_of(id) != Ending::No {
            run_as_user(m, |m| finish(m, id));
        }
    }
}

/// Ends a sub-scheduler that has an exit record, without waiting for a grace period.
fn finish(m: &mut Machine, id: SchedId) {
    if matches!(m.ext.ending_of(id), Ending::Bypass { .. }) {
        begin_bypass(m, id);
    }
    disable(m, id);
}

/// Writes the dump of a failed sub-scheduler and puts it into bypass mode.
fn begin_bypass(m: &mut Machine, id: SchedId) {
    m.finish_wakeups();
    let memory = m.region.memory();
    memory.set_limit(memory.limit() + EXIT_RESERVE);
    in_sched(m, id, |m| {
        let mut exit = m.ext.exit.take().expect("a sub-scheduler that ends has an exit record");
        if exit.kind.is_error() {
            exit.dump = dump::state(m, &exit);
        }
        m.ext.exit = Some(exit);
        bypass::set(m, true);
    });
}

/// Returns the tasks of a sub-scheduler to its parent, and removes it (scx_sub_disable). It is in
/// bypass mode.
fn disable(m: &mut Machine, id: SchedId) {
    in_sched(m, id, |m| m.ext.ending = Ending::No);
    finish_children(m, id);
    wait_for_readers(m);
    let parent = m.ext.sched(id).parent;
    m.ext.sched_mut(id).phase = Phase::Linked;
    if m.ext.is_linux_7_3 {
        handover::return_cgroups(m, id, parent);
    }
    let mut tasks = enable::all_tasks(m);
    tasks.retain(|&task| m.tasks[task].ext.sched == id);
    let mut failed = false;
    for task in tasks {
        let errno = match failed {
            false => in_sched(m, parent, |m| lifecycle::init_task(m, task, false)),
            true => -EINVAL,
        };
        if errno != 0 && !failed {
            failed = true;
            fail_parent(m, parent, task, errno);
        }
        return_task(m, task, parent, errno == 0);
    }
    wait_for_readers(m);
    bypass::release_host(m, id);
    if m.ext.sched(id).attached && m.ext.ops_of(parent).defines(Callback::SubDetach) {
        call_parent(m, Callback::SubDetach, id);
    }
    in_sched(m, id, |m| {
        m.ext.deactivate_ops();
        if m.ext.ops().defines(Callback::Exit) {
            enable::call_exit(m);
        }
    });
    log_end(m, id);
    remove(m, id);
}

/// Waits for the readers of scx_fork_rwsem, or for a grace period of RCU. In a script, the CPUs then handle
/// the interrupts that have been sent to them. Otherwise the time that CPUs need to reschedule is not
/// modelled here.
fn wait_for_readers(m: &mut Machine) {
    if m.stepped.is_some() {
        m.step_interrupts();
    }
}

/// Returns whether a step of ending a sub-scheduler is due.
pub(super) fn has_due_ending(m: &Machine) -> bool {
    m.ext.live_subs().any(|id| match m.ext.ending_of(id) {
        Ending::Bypass { at } | Ending::Disable { at } => m.now >= at,
        Ending::No => false,
    })
}

/// Gives a task of a sub-scheduler back to the parent. `is_ready` says whether the parent has
/// initialized the task. Otherwise the parent is ending, and must never learn of the task
/// (scx_fail_parent).
fn return_task(m: &mut Machine, task: TaskId, parent: SchedId, is_ready: bool) {
    m.change_queued(task, flags::MOVE, |m| {
        in_sched_of(m, task, |m| lifecycle::disable_and_exit_task(m, task));
        m.tasks[task].ext.sched = parent;
        if is_ready {
            m.scx_set_state(task, TaskState::InitBegin);
            m.scx_set_state(task, TaskState::Init);
            m.scx_set_state(task, TaskState::Ready);
            if m.tasks[task].class == Class::Ext {
                in_sched(m, parent, |m| lifecycle::enable_task(m, task));
            }
        }
    });
}

/// Ends the parent of a sub-scheduler, because it has rejected a task that returns to it.
fn fail_parent(m: &mut Machine, parent: SchedId, task: TaskId, errno: i32) {
    let t = &m.tasks[task];
    let message = format!(
        "ops.init_task() failed ({errno}) for {}[{}] while disabling a sub-scheduler",
        t.comm(),
        t.pid()
    );
    in_sched(m, parent, |m| {
        exit::error(m, message);
        bypass::set(m, true);
    });
}

/// Logs the end of a sub-scheduler as the kernel does, and keeps its exit record.
fn log_end(m: &mut Machine, id: SchedId) {
    let cgroup = m.ext.sched(id).cgroup;
    let exit = in_sched(m, id, |m| m.ext.exit.clone());
    let exit = exit.expect("a sub-scheduler that has ended has an exit record");
    let text = exit.to_string().replacen("BPF scheduler", "BPF sub-scheduler", 1);
    m.trace_text(m.this_cpu, trace::Event::Printk { text });
    m.ext.sub_exits.push((cgroup, exit));
}

/// Removes the programs, timers, maps and DSQs of a sub-scheduler that has no tasks.
fn remove(m: &mut Machine, id: SchedId) {
    caps::discard(m, id);
    if let Some(costs) = m.ext.costs_of(id) {
        m.ext.ended_subs.push(costs);
    }
    for rq in &mut m.rqs {
        rq.ext.reenq_users.retain(|&(_, _, owner)| owner != id);
        rq.ext.kicks.pending.retain(|kick| kick.sched != id);
    }
    let queues = in_sched(m, id, |m| {
        m.ext.remove_policy_of_sub();
        m.ext.dsqs.destroy_namespace()
    });
    let memory = m.region.memory();
    memory.uncharge_records(Use::Queues, queues);
    memory.set_limit(memory.limit() - EXIT_RESERVE);
    m.ext.sched_mut(id).phase = Phase::Gone;
}
