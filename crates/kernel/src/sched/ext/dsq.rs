// SPDX-License-Identifier: GPL-2.0-only
//! Insertion of tasks into dispatch queues and their removal (dispatch_enqueue, dispatch_dequeue).

use super::{caps, cid, deferred, exit, ops, rescue};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::dsq::{DsqRef, NO_DSQ, Position};
use crate::sched::ext::state::entity::OpsState;
use crate::sched::ext::state::ops_table::Frame;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::timeline::{HeldLock, LockId};

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
    let leaves_custody = terminal && leave_custody(m, task);
    if !terminal {
        m.scx_set_flag(task, SCX_TASK_IN_CUSTODY);
    }
    m.release(lock);
    if leaves_custody && m.ext.has_op(Callback::Dequeue) {
        let addr = m.tasks[task].addr();
        ops::call_framed(m, Callback::Dequeue, Frame::about(task, Some(cpu)), &[addr, 0]);
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
    call_dequeue(m, task, 0);
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
    call_dequeue(m, task, 0);
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
    // While the stopper runs, no task of the ext class does.
    let is_ext = m.curr_class(cpu) == Class::Ext && !m.rqs[cpu].stopping;
    if enq_flags & SCX_ENQ_PREEMPT != 0 && curr != task && is_ext {
        if !rescue::set_slice(m, curr, 0) {
            m.ext.stats.slice_denied += 1;
            return;
        }
        ops::settle(m);
        m.resched_curr(cpu);
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

/// Ends the policy's custody of a task. Calls ops.dequeue() if the task was in custody
/// (call_task_dequeue).
pub(super) fn call_dequeue(m: &mut Machine, task: TaskId, deq_flags: u64) {
    if leave_custody(m, task) && m.ext.has_op(Callback::Dequeue) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Dequeue, task, &[addr, deq_flags]);
    }
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
    let (slot, id, nr) = (m.ext.dsqs.slot(dsq), m.ext.dsqs.id(dsq), m.ext.dsqs.nr(dsq));
    let addr = match m.layout.show_dispatch_q(&m.region, slot, id, nr) {
        Ok(addr) => addr,
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

/// Acquires the lock of a DSQ. `Machine::release` releases it. A local DSQ has no lock of its own,
/// because its runqueue's lock protects it.
pub(super) fn lock_dsq(m: &mut Machine, dsq: DsqRef) -> HeldLock {
    debug_assert_ne!(dsq, NO_DSQ);
    ops::settle(m);
    match m.ext.dsqs.lock(dsq) {
        Some(index) => m.reacquire(index),
        None => {
            let id = m.ext.dsqs.lock_id(dsq);
            let slot = m.ext.dsqs.slot(dsq);
            let held = m.lock_held(LockId::Dsq { slot, id });
            m.ext.dsqs.set_lock(dsq, held.index());
            held
        }
    }
}
