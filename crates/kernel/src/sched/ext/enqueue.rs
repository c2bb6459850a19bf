// SPDX-License-Identifier: GPL-2.0-only
//! Queueing and dequeueing of tasks that a policy schedules: enqueue_task_scx(), dequeue_task_scx()
//! and the functions they call.

use super::insert::lock_dsq;
use super::ops::{self};
use super::{caps, cid, deferred, exit, rescue};
use crate::layout::PF_EXITING;
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::deadline;
use crate::sched::ext::state::core::DirectDispatch;
use crate::sched::ext::state::dsq::{DsqRef, NO_DSQ, Position};
use crate::sched::ext::state::entity::OpsState;
use crate::sched::ext::state::exit_info::ExitKind;
use crate::simulation::id::{CpuId, Server, TaskId};
use crate::watch::state::observed::Handler;

/// Queues a task that became runnable on `cpu` (enqueue_task_scx).
pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, core_flags: u32) {
    let mut enq_flags = u64::from(core_flags);
    m.rqs[cpu].ext.in_wakeup = core_flags & flags::WAKEUP != 0;
    // A running task whose parameters change goes directly back to the local DSQ of its CPU.
    let stays = core_flags & flags::RESTORE != 0 && m.rqs[cpu].curr == task;
    if stays {
        enq_flags |= SCX_ENQ_IGNORE_CAPS;
    }
    debug_assert!(!m.scx_flag(task, SCX_TASK_QUEUED));
    m.set_task_runnable(task);
    m.scx_set_flag(task, SCX_TASK_QUEUED);
    m.rqs[cpu].ext.nr_running += 1;
    m.domains.overloaded |= m.rqs[cpu].nr_running == 2;
    let migrating = core_flags & (flags::WAKEUP | flags::RESTORE | flags::INITIAL) == 0;
    if m.ext.has_op(Callback::Runnable) && !migrating {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Runnable, task, &[addr, enq_flags]);
    }
    if m.rqs[cpu].ext.nr_running == 1 {
        deadline::start(m, cpu, Server::Ext);
    }
    if stays {
        let local = m.ext.dsqs.local(cpu);
        dispatch_enqueue(m, cpu, local, task, enq_flags);
    } else {
        do_enqueue_task(m, cpu, task, enq_flags);
    }
    m.rqs[cpu].ext.in_wakeup = false;
    if enq_flags & SCX_ENQ_CPU_SELECTED != 0 && cpu.nr() as i32 != m.scx_entity(task).selected_cpu {
        m.ext.stats.select_cpu_fallback += 1;
    }
}

/// Passes a runnable task to ops.enqueue(). In some cases, such as bypass mode, inserts the task
/// into a DSQ without calling the policy.
pub(super) fn do_enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, mut enq_flags: u64) {
    debug_assert!(m.scx_flag(task, SCX_TASK_QUEUED));
    m.scx_clear_flag(task, SCX_TASK_IMMED);
    if m.ext.is_linux_7_3 && enq_flags & SCX_ENQ_REENQ != 0 && !count_reenqueue(m, cpu, task) {
        return;
    }
    let local = m.ext.dsqs.local(cpu);
    if !rq_online(m, cpu) {
        enqueue_with_default_slice(m, cpu, local, task, enq_flags);
        return;
    }
    if m.ext.bypassing() {
        m.ext.stats.bypass_dispatch += 1;
        let bypass = m.ext.bypass_target(cpu);
        enqueue_with_default_slice(m, cpu, bypass, task, enq_flags);
        return;
    }
    if m.scx_entity(task).ddsp_dsq_id != SCX_DSQ_INVALID {
        direct_dispatch(m, cpu, task, enq_flags);
        return;
    }
    let ops_flags = m.ext.loaded().ops.flags;
    let t = &m.tasks[task];
    if ops_flags & SCX_OPS_ENQ_EXITING == 0 && t.flags() & PF_EXITING != 0 {
        m.ext.stats.enq_skip_exiting += 1;
        if m.ext.is_linux_7_3 {
            enq_flags |= SCX_ENQ_RESCUE;
        }
        enqueue_with_default_slice(m, cpu, local, task, enq_flags);
        return;
    }
    if ops_flags & SCX_OPS_ENQ_MIGRATION_DISABLED == 0 && t.migration_disabled() > 0 {
        m.ext.stats.enq_skip_migration_disabled += 1;
        enqueue_with_default_slice(m, cpu, local, task, enq_flags);
        return;
    }
    if !m.ext.has_op(Callback::Enqueue) {
        let global = global_dsq(m, cpu);
        enqueue_with_default_slice(m, cpu, global, task, enq_flags);
        return;
    }
    let entity = &mut m.tasks[task].ext;
    entity.qseq = entity.qseq.wrapping_add(1).max(1);
    debug_assert_eq!(entity.ops_state, OpsState::None);
    entity.ops_state = OpsState::Queueing;
    let addr = m.tasks[task].addr();
    debug_assert_eq!(m.ext.direct, DirectDispatch::Closed);
    m.ext.direct = DirectDispatch::For(task);
    m.note_decision_handler(Handler::Enqueue, task);
    ops::call_on(m, Callback::Enqueue, cpu, task, &[addr, enq_flags]);
    m.ext.direct = DirectDispatch::Closed;
    if m.scx_entity(task).ddsp_dsq_id != SCX_DSQ_INVALID {
        direct_dispatch(m, cpu, task, enq_flags);
        return;
    }
    m.scx_set_flag(task, SCX_TASK_IN_CUSTODY);
    m.tasks[task].ext.ops_state = OpsState::Queued;
}

/// Counts a re-enqueue of a task that has not run since the last one. Returns false if there were too
/// many, which ends the policy. The task is then on no DSQ until the policy has ended.
#[cold]
fn count_reenqueue(m: &mut Machine, cpu: CpuId, task: TaskId) -> bool {
    m.tasks[task].rare.linux_7_3.reenq_count += 1;
    let count = m.tasks[task].rare.linux_7_3.reenq_count;
    if count > 1 {
        m.ext.stats.reenq_local_repeat += 1;
    }
    if u64::from(count) <= SCX_REENQ_MAX_REPEAT {
        return true;
    }
    let t = &m.tasks[task];
    let message = format!("{}[{}] reenqueued {count} times without running", t.comm(), t.pid());
    exit::exit_on(m, ExitKind::ErrorReenq, 0, cpu.nr() as i32, message);
    false
}

/// Inserts a task into a DSQ with the default slice, without calling the policy.
fn enqueue_with_default_slice(m: &mut Machine, cpu: CpuId, dsq: DsqRef, task: TaskId, enq_flags: u64) {
    refill_slice(m, task);
    clear_direct_dispatch(m, task);
    dispatch_enqueue(m, cpu, dsq, task, enq_flags);
}

/// Sets a task's slice to the default (refill_task_slice_dfl).
pub(super) fn refill_slice(m: &mut Machine, task: TaskId) {
    if !m.ext.is_linux_7_3 || !m.scx_flag(task, SCX_TASK_PROTECTED) {
        m.scx_entity_mut(task).slice = m.ext.slice_dfl_of(m.tasks[task].ext.sched);
    }
    m.ext.stats.refill_slice_dfl += 1;
}

/// Clears the direct dispatch that a callback requested for a task.
#[inline(always)]
pub(super) fn clear_direct_dispatch(m: &mut Machine, task: TaskId) {
    let scx = m.scx_entity_mut(task);
    scx.ddsp_dsq_id = SCX_DSQ_INVALID;
    scx.ddsp_enq_flags = 0;
}

/// Performs the direct dispatch that ops.select_cpu() or ops.enqueue() requested for a task.
#[inline(always)]
fn direct_dispatch(m: &mut Machine, cpu: CpuId, task: TaskId, enq_flags: u64) {
    let dsq_id = m.scx_entity(task).ddsp_dsq_id;
    let dsq = find_dsq_for_dispatch(m, cpu, dsq_id, cpu, Some(task));
    m.scx_entity_mut(task).ddsp_enq_flags |= enq_flags;
    m.tasks[task].ext.ops_state = OpsState::None;
    // The runqueue lock of another CPU cannot be acquired here, so the move to that CPU is
    // deferred.
    if m.ext.dsqs.local_cpu(dsq).is_some_and(|local| local != cpu) {
        m.rqs[cpu].ext.ddsp_deferred.push(task);
        deferred::schedule_locked(m, cpu);
        return;
    }
    let mut flags = m.scx_entity(task).ddsp_enq_flags;
    clear_direct_dispatch(m, task);
    if m.ext.is_linux_7_3 {
        flags |= SCX_ENQ_APPLY_SLICE;
    }
    dispatch_enqueue(m, cpu, dsq, task, flags | SCX_ENQ_CLEAR_OPSS);
}

/// Returns the DSQ with the id `dsq_id` for a dispatch on `cpu`.
///
/// If the DSQ does not exist, ends the policy with an error, and returns the global DSQ of the node
/// of `task_cpu`. `task` is given if the callback that requested the insertion has already
/// returned. The error can then be attributed to that callback.
pub(super) fn find_dsq_for_dispatch(
    m: &mut Machine,
    cpu: CpuId,
    dsq_id: u64,
    task_cpu: CpuId,
    task: Option<TaskId>,
) -> DsqRef {
    if dsq_id == SCX_DSQ_LOCAL {
        return m.ext.dsqs.local(cpu);
    }
    if dsq_id & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON {
        let target = cid::cpu_ret(m, (dsq_id & SCX_DSQ_LOCAL_CPU_MASK) as i32);
        let Some(cpu) = m.cpu_id(target) else {
            exit::insertion_error(
                m,
                format!("invalid CPU {target} in SCX_DSQ_LOCAL_ON dispatch verdict"),
                task,
            );
            return global_dsq(m, task_cpu);
        };
        return m.ext.dsqs.local(cpu);
    }
    if dsq_id == SCX_DSQ_GLOBAL {
        return global_dsq(m, task_cpu);
    }
    match m.ext.dsqs.find(dsq_id) {
        Some(dsq) => dsq,
        None => {
            exit::no_such_dsq(m, &format!("non-existent DSQ 0x{dsq_id:x}"), task);
            global_dsq(m, task_cpu)
        }
    }
}

/// Returns the global DSQ of a CPU's node.
#[inline(always)]
pub(super) fn global_dsq(m: &Machine, cpu: CpuId) -> DsqRef {
    m.ext.dsqs.global(m.spec.topology.cpus[cpu.index()].node)
}

/// Inserts a task into a DSQ. `cpu` is the task's CPU.
pub(super) fn dispatch_enqueue(m: &mut Machine, cpu: CpuId, dsq: DsqRef, task: TaskId, mut enq_flags: u64) {
    if let Some(local) = m.ext.dsqs.local_cpu(dsq) {
        if enq_flags & SCX_ENQ_DSQ_PRIQ != 0 {
            exit::error(m, "cannot use vtime ordering for built-in DSQs");
            enq_flags &= !SCX_ENQ_DSQ_PRIQ;
        }
        enqueue_local(m, local, task, enq_flags);
        if enq_flags & SCX_ENQ_CLEAR_OPSS != 0 {
            m.tasks[task].ext.ops_state = OpsState::None;
        }
        return;
    }
    let lock = lock_dsq(m, dsq);
    let id = m.ext.dsqs.id(dsq);
    let builtin = id & SCX_DSQ_FLAG_BUILTIN != 0;
    if builtin && enq_flags & SCX_ENQ_DSQ_PRIQ != 0 {
        exit::error(m, "cannot use vtime ordering for built-in DSQs");
        enq_flags &= !SCX_ENQ_DSQ_PRIQ;
    }
    if enq_flags & SCX_ENQ_APPLY_SLICE != 0 {
        apply_carried(m, task, enq_flags);
    }
    let position = if enq_flags & SCX_ENQ_DSQ_PRIQ != 0 {
        if m.ext.dsqs.has_fifo(dsq) {
            exit::error(m, format!("DSQ ID 0x{id:016x} already had FIFO-enqueued tasks"));
        }
        Position::Vtime(m.scx_entity(task).dsq_vtime)
    } else {
        if m.ext.dsqs.has_priq(dsq) {
            exit::error(m, format!("DSQ ID 0x{id:016x} already had PRIQ-enqueued tasks"));
        }
        if enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0 {
            Position::Head
        } else {
            Position::Tail
        }
    };
    m.ext.dsqs.insert(dsq, task, position);
    m.charge_dsq_insert(dsq, task);
    show_change(m, dsq, task);
    debug_assert!(enq_flags & SCX_ENQ_IMMED == 0 || enq_flags & SCX_ENQ_GDSQ_FALLBACK != 0);
    let terminal = id == SCX_DSQ_GLOBAL || id == SCX_DSQ_BYPASS;
    let call_dequeue = terminal && leave_custody(m, task);
    if !terminal {
        m.scx_set_flag(task, SCX_TASK_IN_CUSTODY);
    }
    m.release(lock);
    if call_dequeue && m.ext.has_op(Callback::Dequeue) {
        let addr = m.tasks[task].addr();
        ops::call_framed(
            m,
            Callback::Dequeue,
            crate::sched::ext::state::ops_table::Frame::about(task, Some(cpu)),
            &[addr, 0],
        );
    }
    if enq_flags & SCX_ENQ_CLEAR_OPSS != 0 {
        m.tasks[task].ext.ops_state = OpsState::None;
    }
}

/// Gives a task the slice and vtime that an insertion carries (apply_slice_vtime). A slice of 0 keeps
/// the rest of the task's slice.
pub(super) fn apply_carried(m: &mut Machine, task: TaskId, enq_flags: u64) {
    let (slice, vtime) = m.tasks[task].rare.linux_7_3.carried;
    let scx = m.scx_entity_mut(task);
    if enq_flags & SCX_ENQ_DSQ_PRIQ != 0 {
        scx.dsq_vtime = vtime;
    }
    if slice == 0 {
        scx.slice = scx.slice.max(1);
        return;
    }
    scx.slice = slice;
    if enq_flags & SCX_ENQ_SLICE_DFL == 0 {
        m.tasks[task].rare.linux_7_3.slice_oob = None;
    }
}

/// Inserts a task into the local DSQ of `cpu`. The runqueue lock of `cpu` protects this DSQ. If the
/// current policy may not use the CPU, the task goes to the reject or rescue DSQ of the CPU instead.
pub(super) fn enqueue_local(m: &mut Machine, cpu: CpuId, task: TaskId, enq_flags: u64) {
    if m.ext.is_linux_7_3 {
        enqueue_local_7_3(m, cpu, task, enq_flags);
        return;
    }
    let local = m.ext.dsqs.local(cpu);
    if enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0 {
        m.ext.dsqs.insert(local, task, Position::Head);
    } else {
        m.ext.dsqs.insert(local, task, Position::Tail);
    }
    show_change(m, local, task);
    count_immed(m, cpu, task, enq_flags);
    local_dsq_post_enq(m, cpu, task, enq_flags);
}

/// Performs [`enqueue_local`] as Linux 7.3 does.
fn enqueue_local_7_3(m: &mut Machine, cpu: CpuId, task: TaskId, mut enq_flags: u64) {
    let local = m.ext.dsqs.local(cpu);
    let dsq = if m.ext.enforces_caps() {
        caps::resolve_local_dsq(m, cpu, task, &mut enq_flags)
    } else {
        local
    };
    if enq_flags & SCX_ENQ_APPLY_SLICE != 0 {
        apply_carried(m, task, enq_flags);
    }
    if enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT) != 0 {
        insert_at_head(m, dsq, task);
    } else {
        m.ext.dsqs.insert(dsq, task, Position::Tail);
    }
    show_change(m, dsq, task);
    if dsq == local {
        count_immed(m, cpu, task, enq_flags);
        local_dsq_post_enq(m, cpu, task, enq_flags);
        return;
    }
    call_dequeue(m, task);
    if dsq == m.ext.dsqs.reject(cpu) {
        deferred::schedule_locked(m, cpu);
    }
}

/// Inserts a task at the head of a CPU's DSQ, behind tasks with SCX_TASK_PROTECTED (dsq_insert_head).
fn insert_at_head(m: &mut Machine, dsq: DsqRef, task: TaskId) {
    let mut protected = Vec::new();
    let mut at = m.ext.dsqs.first(dsq);
    while let Some(first) = at.filter(|&first| m.scx_flag(first, SCX_TASK_PROTECTED)) {
        protected.push(first);
        at = m.ext.dsqs.next(first);
    }
    for &first in &protected {
        m.ext.dsqs.remove(first);
    }
    m.ext.dsqs.insert(dsq, task, Position::Head);
    for &first in protected.iter().rev() {
        m.ext.dsqs.insert(dsq, first, Position::Head);
    }
}

/// Counts a task that was inserted into the local DSQ of `cpu`, if the insertion has the flag
/// SCX_ENQ_IMMED (dsq_inc_nr). Schedules a re-enqueue if such a task cannot run immediately.
#[inline]
fn count_immed(m: &mut Machine, cpu: CpuId, task: TaskId, enq_flags: u64) {
    if enq_flags & SCX_ENQ_IMMED != 0 {
        m.scx_set_flag(task, SCX_TASK_IMMED);
    }
    if m.scx_flag(task, SCX_TASK_IMMED) {
        m.rqs[cpu].ext.nr_immed += 1;
        if m.ext.dsqs.nr(m.ext.dsqs.local(cpu)) > 1 || !rq_is_open(m, cpu, enq_flags) {
            deferred::schedule_reenq_local(m, cpu);
        }
    }
}

/// Returns whether an ext task that is queued on `cpu` now can run immediately (rq_is_open).
pub(super) fn rq_is_open(m: &Machine, cpu: CpuId, enq_flags: u64) -> bool {
    match m.rqs[cpu].next_class {
        Class::Rt | Class::Fair => false,
        Class::Idle => true,
        Class::Ext if m.rqs[cpu].ext.in_balance => true,
        Class::Ext => {
            let curr = m.rqs[cpu].curr;
            let is_protected = || m.curr_class(cpu) == Class::Ext && m.scx_flag(curr, SCX_TASK_PROTECTED);
            enq_flags & SCX_ENQ_PREEMPT != 0 && !is_protected()
        }
    }
}

/// Completes an insertion into the local DSQ of `cpu` (local_dsq_post_enq). Calls ops.dequeue() if
/// the task leaves the policy's custody, and preempts the running task if SCX_ENQ_PREEMPT is set.
fn local_dsq_post_enq(m: &mut Machine, cpu: CpuId, task: TaskId, enq_flags: u64) {
    call_dequeue(m, task);
    if m.rqs[cpu].ext.in_balance {
        // The CPU is choosing its next task and needs no reschedule.
        if m.rqs[cpu].next_class > Class::Ext {
            m.rqs[cpu].next_class = Class::Ext;
            m.skip_next_update(cpu);
        }
        return;
    }
    if m.rqs[cpu].next_class > Class::Ext {
        ops::settle(m);
        m.wakeup_preempt(cpu, task, 0);
    }
    let curr = m.rqs[cpu].curr;
    if enq_flags & SCX_ENQ_PREEMPT != 0 && curr != task && m.curr_class(cpu) == Class::Ext {
        if !rescue::set_slice(m, curr, 0) {
            m.ext.stats.slice_denied += 1;
            return;
        }
        ops::settle(m);
        m.resched_curr(cpu);
    }
}

/// Calls ops.dequeue() if a task leaves the policy's custody because it was inserted.
fn call_dequeue(m: &mut Machine, task: TaskId) {
    if leave_custody(m, task) && m.ext.has_op(Callback::Dequeue) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Dequeue, task, &[addr, 0]);
    }
}

/// Ends the policy's custody of a task. A task is in the policy's custody while the policy is
/// responsible for it, from ops.enqueue() until ops.dequeue() (SCX_TASK_IN_CUSTODY). Returns
/// whether the task was in custody. If it was, the caller has to call ops.dequeue().
#[inline(always)]
fn leave_custody(m: &mut Machine, task: TaskId) -> bool {
    let leaves = m.scx_flag(task, SCX_TASK_IN_CUSTODY);
    if leaves {
        m.scx_clear_flag(task, SCX_TASK_IN_CUSTODY);
    }
    leaves
}

/// Returns whether `cpu` is online and is not about to go offline (scx_rq_online).
pub(super) fn rq_online(m: &Machine, cpu: CpuId) -> bool {
    m.rqs[cpu].ext.online && m.online_cpus.contains(cpu)
}

/// Shows observers that a task was inserted into a DSQ, or was removed from it.
#[inline]
fn show_change(m: &mut Machine, dsq: DsqRef, task: TaskId) {
    if m.details | m.ext.shows_dsqs {
        record_change(m, dsq, task);
    }
}

#[cold]
fn record_change(m: &mut Machine, dsq: DsqRef, task: TaskId) {
    if m.ext.shows_dsqs {
        show_dsq(m, dsq, task);
    }
    if m.details {
        let (dsq, nr) = (m.ext.dsqs.trace_id(dsq), m.ext.dsqs.nr(dsq));
        m.trace(m.this_cpu, trace::Event::DsqLength { dsq, nr });
    }
}

/// Updates `p->scx.dsq`, which the policy reads, and the DSQ that it points to.
fn show_dsq(m: &mut Machine, dsq: DsqRef, task: TaskId) {
    let addr = match m.layout.dispatch_q(&m.region, m.ext.dsqs.slot(dsq)) {
        Ok(mut seen) => {
            (seen.id, seen.nr) = (m.ext.dsqs.id(dsq), m.ext.dsqs.nr(dsq));
            seen.addr()
        }
        Err(error) => {
            exit::error(m, error.to_string());
            return;
        }
    };
    let is_on = m.ext.dsqs.current(task) == dsq;
    m.tasks[task].task_struct.scx_dsq = if is_on { addr as *mut _ } else { std::ptr::null_mut() };
}

/// Removes a task from its DSQ (task_unlink_from_dsq).
pub(super) fn unlink_from_dsq(m: &mut Machine, task: TaskId, dsq: DsqRef) {
    if let Some(cpu) = m.ext.dsqs.local_cpu(dsq) {
        m.ext.dsqs.remove(task);
        show_change(m, dsq, task);
        if m.scx_flag(task, SCX_TASK_IMMED) {
            m.rqs[cpu].ext.nr_immed -= 1;
        }
        return;
    }
    if m.ext.dsqs.is_rq_owned(dsq) {
        m.ext.dsqs.remove(task);
        show_change(m, dsq, task);
        return;
    }
    let neighbours = m.ext.dsqs.neighbours(task);
    m.ext.dsqs.remove(task);
    show_change(m, dsq, task);
    m.charge_dsq_remove(task, neighbours);
}

/// Removes a task from its DSQ, if it is on one (dispatch_dequeue).
pub(super) fn dispatch_dequeue(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let dsq = m.ext.dsqs.current(task);
    if dsq == NO_DSQ {
        m.tasks[task].ext.holding_cpu = None;
        // If a move of the task to the local DSQ of another CPU was deferred, cancels it.
        let deferred = &mut m.rqs[cpu].ext.ddsp_deferred;
        if !deferred.is_empty() {
            deferred.retain(|&other| other != task);
        }
        return;
    }
    if m.ext.dsqs.is_rq_owned(dsq) {
        unlink_from_dsq(m, task, dsq);
        return;
    }
    let lock = lock_dsq(m, dsq);
    unlink_from_dsq(m, task, dsq);
    m.release(lock);
}

/// Takes a task back from the policy (ops_dequeue).
pub(super) fn ops_dequeue(m: &mut Machine, task: TaskId, deq_flags: u64) {
    m.clr_task_runnable(task, false);
    m.tasks[task].ext.ops_state = OpsState::None;
    if leave_custody(m, task) && m.ext.has_op(Callback::Dequeue) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Dequeue, task, &[addr, deq_flags]);
    }
}

/// Removes a task from the queue of `cpu` (dequeue_task_scx). The task may be running.
pub(crate) fn dequeue_task(m: &mut Machine, cpu: CpuId, task: TaskId, core_flags: u32) {
    let mut deq_flags = u64::from(core_flags);
    if deq_flags & SCX_DEQ_SLEEP == 0 {
        deq_flags |= SCX_DEQ_SCHED_CHANGE;
    }
    if !m.scx_flag(task, SCX_TASK_QUEUED) {
        return;
    }
    ops_dequeue(m, task, deq_flags);
    let addr = m.tasks[task].addr();
    // The kernel also calls ops.stopping() before ops.quiescent().
    let is_current = m.rqs[cpu].curr == task;
    if is_current && !m.rqs[cpu].stopping && m.ext.has_op(Callback::Stopping) {
        ops::call_on(m, Callback::Stopping, cpu, task, &[addr, 0]);
    }
    let migrating = core_flags & (flags::SLEEP | flags::SAVE) == 0;
    if m.ext.has_op(Callback::Quiescent) && !migrating {
        ops::call_task(m, Callback::Quiescent, task, &[addr, deq_flags]);
    }
    if deq_flags & SCX_DEQ_SLEEP != 0 {
        m.scx_set_flag(task, SCX_TASK_DEQD_FOR_SLEEP);
    } else {
        m.scx_clear_flag(task, SCX_TASK_DEQD_FOR_SLEEP);
    }
    m.scx_clear_flag(task, SCX_TASK_QUEUED);
    m.rqs[cpu].ext.nr_running -= 1;
    dispatch_dequeue(m, cpu, task);
    if m.ext.enforces_caps() && (core_flags & flags::SAVE == 0 || !is_current) {
        rescue::slice_ended(m, cpu, task);
    }
    clear_direct_dispatch(m, task);
}
