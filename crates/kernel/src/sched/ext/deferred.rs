// SPDX-License-Identifier: GPL-2.0-only
//! Deferred work of sched_ext: direct dispatches to the local DSQs of other CPUs, and re-enqueues,
//! which pass queued tasks to the policy again.
//!
//! Such work needs a runqueue lock that the code which requests the work may not acquire. A CPU
//! performs it soon afterwards (run_deferred).

use super::dsq::{dispatch_dequeue, find_dsq_for_dispatch, lock_dsq, rq_is_open, unlink_from_dsq};
use super::enqueue::{clear_direct_dispatch, do_enqueue_task};
use super::migrate::{TASK, dispatch_to_local_dsq};
use super::{caps, exit, kick, ops, rescue, sub};
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dsq::DsqRef;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::event::{Event, NEVER};
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::timeline::LockId;

/// Schedules run_deferred() for `cpu` while the runqueue of `cpu` is locked
/// (schedule_deferred_locked).
pub(super) fn schedule_locked(m: &mut Machine, cpu: CpuId) {
    // During a wake-up nothing has to be scheduled, because task_woken() performs deferred work at
    // the end of the wake-up.
    if !m.rqs[cpu].ext.in_wakeup {
        schedule_deferred(m, cpu);
    }
}

/// Schedules run_deferred() on `cpu` (schedule_deferred).
fn schedule_deferred(m: &mut Machine, cpu: CpuId) {
    if std::mem::replace(&mut m.rqs[cpu].ext.deferred, true) {
        return;
    }
    m.rqs[cpu].ext.deferred_at = NEVER;
    if cpu == m.this_cpu {
        kick::queue_irq_work(m, cpu);
        return;
    }
    ops::settle(m);
    let at = m.interrupt_cpu(cpu, Event::ExtDeferred { cpu });
    m.rqs[cpu].ext.deferred_at = at;
}

/// Handles the IPI for deferred work.
pub(super) fn arrived(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].ext.deferred {
        m.lock(LockId::Rq(cpu));
        run_deferred(m, cpu);
        m.unlock(LockId::Rq(cpu));
    }
}

/// Performs the deferred work of a CPU that is about to reschedule, if the IPI for this work has arrived
/// as well: a CPU handles all its interrupts before it calls schedule().
pub(super) fn before_resched(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].ext.deferred_at <= m.now {
        arrived(m, cpu);
    }
}

/// Performs the deferred work of a CPU whose runqueue is locked.
pub(super) fn run_deferred(m: &mut Machine, cpu: CpuId) {
    m.rqs[cpu].ext.deferred = false;
    while !m.rqs[cpu].ext.ddsp_deferred.is_empty() {
        let task = m.rqs[cpu].ext.ddsp_deferred.remove(0);
        sub::in_sched_of(m, task, |m| {
            let scx = m.scx_entity(task);
            let (dsq_id, mut enq_flags) = (scx.ddsp_dsq_id, scx.ddsp_enq_flags);
            if m.ext.is_linux_7_3 {
                enq_flags |= SCX_ENQ_APPLY_SLICE;
            }
            clear_direct_dispatch(m, task);
            let dsq = find_dsq_for_dispatch(m, cpu, dsq_id, cpu, Some(task));
            dispatch_to_local_dsq(m, cpu, dsq, task, enq_flags);
        });
    }
    if m.rqs[cpu].ext.reenq_local != 0 {
        sub::in_sched(m, SchedId::ROOT, |m| reenq_locals(m, cpu));
    }
    while let Some((dsq, flags, owner)) = m.rqs[cpu].ext.reenq_users.pop() {
        sub::in_sched(m, owner, |m| match m.ext.dsqs.local_cpu(dsq) {
            Some(local) if local == cpu => {
                reenq_local(m, cpu, flags);
            }
            _ => reenq_user(m, cpu, dsq, flags),
        });
    }
    if m.ext.enforces_caps() {
        caps::reenq_rejected(m, cpu);
    }
}

/// Returns whether a CPU has deferred work that task_woken() has to perform.
#[inline]
pub(super) fn pending(m: &Machine, cpu: CpuId) -> bool {
    let rq = &m.rqs[cpu].ext;
    !rq.ddsp_deferred.is_empty()
        || rq.reenq_local != 0
        || !rq.reenq_users.is_empty()
        || (m.ext.enforces_caps() && !m.ext.dsqs.is_empty(m.ext.dsqs.reject(cpu)))
}

/// Schedules a re-enqueue of those tasks on the local DSQ of `cpu` that were inserted with
/// SCX_ENQ_IMMED and cannot run immediately.
pub(super) fn schedule_reenq_local(m: &mut Machine, cpu: CpuId) {
    let local = m.ext.dsqs.local(cpu);
    schedule_dsq_reenq(m, local, 0, Some(cpu));
}

/// Schedules a re-enqueue of those tasks on the local DSQ of `cpu` whose policies may no longer use the
/// CPU.
pub(super) fn schedule_reenq_revoked(m: &mut Machine, cpu: CpuId) {
    let local = m.ext.dsqs.local(cpu);
    sub::in_sched(m, SchedId::ROOT, |m| {
        schedule_dsq_reenq(m, local, SCX_REENQ_CAP_REVOKE, Some(cpu));
    });
}

/// Bit that makes `reenq_local` different from 0 when a re-enqueue without SCX_REENQ_* flags is
/// pending.
const DUE: u64 = 1 << 63;

/// Schedules a re-enqueue of the tasks on a DSQ (scx_bpf_dsq_reenq). `locked_cpu` is the CPU whose
/// runqueue the caller has locked.
pub(super) fn schedule_dsq_reenq(m: &mut Machine, dsq: DsqRef, flags: u64, locked_cpu: Option<CpuId>) {
    if m.ext.bypassing() {
        return;
    }
    let id = m.ext.dsqs.id(dsq);
    let owner = m.ext.current_sched();
    if let Some(cpu) = m.ext.dsqs.local_cpu(dsq).filter(|_| m.ext.is_linux_7_3) {
        if !m.online_cpus.contains(cpu) {
            return;
        }
        if caps::missing(m, owner, cpu, SCX_CAP_BASE) != 0 {
            m.ext.stats.sub_reenq_denied += 1;
            return;
        }
    }
    let cpu = match m.ext.dsqs.local_cpu(dsq) {
        // A sub-scheduler re-enqueues only its own tasks and those of the policies below it.
        Some(cpu) if flags & SCX_REENQ_ANY != 0 && owner != SchedId::ROOT => {
            schedule_on(m, cpu, dsq, flags);
            cpu
        }
        Some(cpu) => {
            m.rqs[cpu].ext.reenq_local |= flags | DUE;
            cpu
        }
        None if id & SCX_DSQ_FLAG_BUILTIN == 0 => {
            let cpu = m.this_cpu;
            schedule_on(m, cpu, dsq, flags);
            cpu
        }
        None => {
            exit::error(m, format!("DSQ 0x{id:x} not allowed for reenq"));
            return;
        }
    };
    if Some(cpu) == locked_cpu {
        schedule_locked(m, cpu);
    } else {
        schedule_deferred(m, cpu);
    }
}

/// Adds a DSQ to those that `cpu` re-enqueues for the current policy.
fn schedule_on(m: &mut Machine, cpu: CpuId, dsq: DsqRef, flags: u64) {
    let owner = m.ext.current_sched();
    m.ext.charge_program(m.rqs[cpu].ext.reenq_users.len() as u64);
    let users = &mut m.rqs[cpu].ext.reenq_users;
    match users.iter_mut().find(|(user, _, by)| (*user, *by) == (dsq, owner)) {
        Some((_, pending, _)) => *pending |= flags,
        None => users.insert(0, (dsq, flags, owner)),
    }
}

/// Re-enqueues the tasks of a CPU's local DSQ, and repeats this until no further re-enqueue is
/// pending. After more than SCX_REENQ_LOCAL_MAX_REPEAT repetitions, ends the policy with an error.
/// Linux 7.3 counts the repetitions by task instead (`count_reenqueue`).
fn reenq_locals(m: &mut Machine, cpu: CpuId) {
    for repeats in 0_u32.. {
        let flags = std::mem::take(&mut m.rqs[cpu].ext.reenq_local);
        if flags == 0 {
            return;
        }
        if m.ext.is_linux_7_3 {
            reenq_local(m, cpu, flags & !DUE);
            continue;
        }
        if repeats > 0 {
            m.ext.stats.reenq_local_repeat += 1;
        }
        if u64::from(repeats) > SCX_REENQ_LOCAL_MAX_REPEAT {
            exit::error(m, format!("SCX_ENQ_REENQ on SCX_DSQ_LOCAL repeated {repeats} times"));
            return;
        }
        reenq_local(m, cpu, flags & !DUE);
    }
}

/// Passes tasks of a local DSQ back to the policy and returns their number.
///
/// With SCX_REENQ_ANY, passes back all tasks on the DSQ. Otherwise passes back only tasks that were
/// inserted with SCX_ENQ_IMMED and cannot run immediately.
pub(super) fn reenq_local(m: &mut Machine, cpu: CpuId, flags: u64) -> u32 {
    let open = rq_is_open(m, cpu, 0);
    let local = m.ext.dsqs.local(cpu);
    let mut tasks: Vec<(TaskId, u64)> = Vec::new();
    let (mut at, mut first) = (m.ext.dsqs.first(local), true);
    while let Some(task) = at {
        at = m.ext.dsqs.next(task);
        m.ext.charge_program(TASK);
        // The stopper is about to move the task.
        if m.tasks[task].rare.migration_pending.is_some() {
            continue;
        }
        if m.ext.has_subs() && !m.ext.is_descendant(m.tasks[task].ext.sched, m.ext.current_sched()) {
            continue;
        }
        let is_rescued = || m.ext.enforces_caps() && rescue::rescuee(m, cpu) == Some(task);
        if m.scx_flag(task, SCX_TASK_PROTECTED) || is_rescued() {
            first = false;
            continue;
        }
        let immed = m.scx_flag(task, SCX_TASK_IMMED) && (!first || !open);
        first = false;
        let revoked = !immed && flags & SCX_REENQ_CAP_REVOKE != 0 && caps::lost_place(m, cpu, task);
        let reason = if immed {
            SCX_TASK_REENQ_IMMED
        } else if revoked {
            SCX_TASK_REENQ_CAP
        } else {
            SCX_TASK_REENQ_KFUNC
        };
        m.ext.stats.reenq_immed += i64::from(immed);
        if immed || revoked || flags & SCX_REENQ_ANY != 0 {
            dispatch_dequeue(m, cpu, task);
            tasks.push((task, reason));
        }
    }
    for &(task, reason) in &tasks {
        reenqueue(m, cpu, task, reason);
    }
    let curr = m.rqs[cpu].curr;
    if flags & SCX_REENQ_CAP_REVOKE != 0 && m.curr_class(cpu) == Class::Ext && caps::lost_place(m, cpu, curr) {
        rescue::set_slice(m, curr, 0);
        m.resched_curr(cpu);
    }
    tasks.len() as u32
}

/// Calls ops.enqueue() again for a task. The task's flags contain `reason` during the call.
fn reenqueue(m: &mut Machine, cpu: CpuId, task: TaskId, reason: u64) {
    m.scx_set_flag(task, reason);
    sub::in_sched_of(m, task, |m| do_enqueue_task(m, cpu, task, SCX_ENQ_REENQ));
    m.scx_clear_flag(task, SCX_TASK_REENQ_REASON_MASK);
}

/// Passes the tasks of a user-created DSQ back to the policy. The runqueue of `cpu` is locked.
fn reenq_user(m: &mut Machine, cpu: CpuId, dsq: DsqRef, flags: u64) {
    if flags & SCX_REENQ_ANY == 0 {
        return;
    }
    let cursor = m.ext.dsqs.cursor_new(dsq, false);
    let mut locked = cpu;
    while !m.ext.bypassing() {
        let Some(task) = m.ext.dsqs.cursor_next(cursor) else {
            break;
        };
        let task_cpu = m.tasks[task].cpu();
        if locked != task_cpu {
            m.unlock(LockId::Rq(locked));
            m.lock(LockId::Rq(task_cpu));
            locked = task_cpu;
        }
        if m.ext.dsqs.current(task) != dsq {
            continue;
        }
        let lock = lock_dsq(m, dsq);
        unlink_from_dsq(m, task, dsq);
        m.release(lock);
        reenqueue(m, task_cpu, task, SCX_TASK_REENQ_KFUNC);
    }
    m.ext.dsqs.cursor_drop(cursor);
    if locked != cpu {
        m.unlock(LockId::Rq(locked));
        m.lock(LockId::Rq(cpu));
    }
}
