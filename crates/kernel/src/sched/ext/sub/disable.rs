// SPDX-License-Identifier: GPL-2.0-only
//! The end of sub-schedulers, whose tasks return to the parent (scx_sub_disable).

use super::{attached_to, call_parent, in_sched, in_sched_of};
use crate::layout::callbacks::Callback;
use crate::layout::enums::SCX_ECODE_RSN_CGROUP_OFFLINE;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::ext::enable::{self, EXIT_RESERVE, run_as_user};
use crate::sched::ext::state::core::Ending;
use crate::sched::ext::state::entity::TaskState;
use crate::sched::ext::state::exit_info::ExitKind;
use crate::sched::ext::state::scheds::{Phase, SchedId};
use crate::sched::ext::{bypass, dump, ecaps, exit, handover, lifecycle};
use crate::simulation::event::Event;
use crate::simulation::id::TaskId;
use bpf::errno::EINVAL;
use bpf::memory::Use;

/// Number of ticks from the start of bypass mode until the tasks return to the parent. It
/// corresponds to one RCU grace period of about two ticks (percpu_down_write of scx_fork_rwsem).
const GRACE_TICKS: u64 = 2;

/// Ends the sub-scheduler of a cgroup that is removed (scx_cgroup_lifetime_notify).
#[cold]
pub(in crate::sched::ext) fn cgroup_offline(m: &mut Machine, cgroup: u32) {
    if let Some(id) = attached_to(m, cgroup) {
        let message = format!("cgroup {} going offline", m.layout.cgroup_id(cgroup));
        let code = SCX_ECODE_RSN_CGROUP_OFFLINE as i64;
        in_sched(m, id, |m| exit::exit(m, ExitKind::UnregKern, code, message));
    }
}

/// Performs the next step of ending each sub-scheduler for which a step is due.
pub(in crate::sched::ext) fn advance_endings(m: &mut Machine) {
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
            Ending::Disable { at } if m.now >= at => disable(m, id, |_| ()),
            _ => {}
        }
    }
}

/// Detaches a sub-scheduler, and those below it, in a script. Linux ends each of them in a thread, and all
/// threads run on CPU 0, one until it waits. The first thread whose sub-scheduler has no children waits
/// when the tasks are back at the parent (synchronize_rcu_expedited). Only then do the others begin.
fn end_stepped_tree(m: &mut Machine, id: SchedId) {
    let below = m.ext.descendants(id);
    for &child in &below {
        in_sched(m, child, |m| exit::exit_on(m, ExitKind::Parent, 0, -1, ""));
    }
    let begin = |m: &mut Machine, id| {
        begin_bypass(m, id);
        in_sched(m, id, |m| m.ext.ending = Ending::Disable { at: m.now });
    };
    let mut threads = below.into_iter().chain([id]);
    for id in threads.by_ref() {
        begin(m, id);
        if m.ext.descendants(id).is_empty() {
            disable(m, id, |m| threads.for_each(|id| begin(m, id)));
            break;
        }
    }
    disable(m, id, |_| ());
}

/// Ends the sub-schedulers below a policy immediately.
pub(in crate::sched::ext) fn finish_children(m: &mut Machine, of: SchedId) {
    for id in m.ext.descendants(of).into_iter().rev() {
        in_sched(m, id, |m| exit::exit_on(m, ExitKind::Parent, 0, -1, ""));
        finish(m, id);
    }
}

/// Ends those sub-schedulers immediately that have failed.
pub(in crate::sched::ext) fn finish_failed(m: &mut Machine) {
    let subs: Vec<SchedId> = m.ext.live_subs().rev().collect();
    for id in subs {
        if m.ext.ending_of(id) != Ending::No {
            run_as_user(m, |m| finish(m, id));
        }
    }
}

/// Ends a sub-scheduler that has an exit record, without waiting for a grace period.
pub(super) fn finish(m: &mut Machine, id: SchedId) {
    let begins = matches!(m.ext.ending_of(id), Ending::Bypass { .. });
    if begins && m.stepped.is_some() && !m.ext.descendants(id).is_empty() {
        end_stepped_tree(m, id);
        return;
    }
    if begins {
        begin_bypass(m, id);
    }
    disable(m, id, |_| ());
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
/// bypass mode. While its thread waits until no CPU uses the sub-scheduler any more, `others` is called.
fn disable(m: &mut Machine, id: SchedId, others: impl FnOnce(&mut Machine)) {
    in_sched(m, id, |m| m.ext.ending = Ending::No);
    finish_children(m, id);
    wait_for_readers(m);
    let parent = m.ext.sched(id).parent;
    m.ext.sched_mut(id).phase = Phase::Linked;
    if m.ext.is_linux_7_3 {
        handover::return_cgroups(m, id, parent);
    }
    let tasks = handover::tasks_of(m, |m, task| m.tasks[task].ext.sched == id);
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
    others(m);
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
pub(super) fn wait_for_readers(m: &mut Machine) {
    if m.stepped.is_some() {
        m.step_interrupts();
    }
}

/// Returns whether a step of ending a sub-scheduler is due.
pub(in crate::sched::ext) fn has_due_ending(m: &Machine) -> bool {
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
    ecaps::discard(m, id);
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
