// SPDX-License-Identifier: GPL-2.0-only
//! Selection of the next ext task of a CPU: balance_one(), the calls of the ops.dispatch() callback
//! of the policy, and the consumption of DSQs. Also chooses CPUs for woken tasks.

use super::enqueue::{
    apply_carried, clear_direct_dispatch, dispatch_enqueue, enqueue_local, find_dsq_for_dispatch, global_dsq,
    refill_slice, rq_online, unlink_from_dsq,
};
use super::insert::lock_dsq;
use super::ops::{self};
use super::{bypass, caps, cid, deferred, exit, idle, kick, rescue, sub};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::deadline;
use crate::sched::ext::state::core::{DirectDispatch, Pending};
use crate::sched::ext::state::dsq::{DsqRef, NO_DSQ};
use crate::sched::ext::state::entity::OpsState;
use crate::sched::ext::state::ops_table::Frame;
use crate::simulation::id::{CpuId, IDLE, Server, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::DecisionKind;
use trace::MigrateReason;

/// Source of the next task of a CPU (enum scx_dsp_verdict).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There is no task to run.
    None,
    /// The local DSQ has tasks.
    Local,
    /// The previous task continues to run.
    Prev,
}

/// Returns the ext task that `cpu` runs next, or `None` (do_pick_task_scx).
#[inline(always)]
pub(crate) fn pick_task(m: &mut Machine, cpu: CpuId, prev: TaskId) -> Option<TaskId> {
    if !m.ext.enabled {
        return None;
    }
    kick::kick_sync(m, cpu);
    let rq = &mut m.rqs[cpu];
    rq.next_class = rq.next_class.max(Class::Ext);
    let verdict = balance_one(m, cpu, prev);
    kick::after_balance(m, cpu);
    if verdict == Verdict::Prev && m.class_of(prev) == Class::Ext {
        if m.scx_entity(prev).slice == 0 {
            if m.ext.enforces_caps() {
                rescue::slice_ended(m, cpu, prev);
            }
            refill_slice(m, prev);
        }
        return Some(prev);
    }
    let task = m.ext.dsqs.first(m.ext.dsqs.local(cpu))?;
    if m.scx_entity(task).slice == 0 && caps::can_stay(m, cpu, task) {
        refill_slice(m, task);
    }
    Some(task)
}

/// Fills the local DSQ of `cpu` if it is empty (balance_one).
#[inline]
fn balance_one(m: &mut Machine, cpu: CpuId, prev: TaskId) -> Verdict {
    m.rqs[cpu].ext.in_balance = true;
    let verdict = balance(m, cpu, prev);
    let local = m.ext.dsqs.local(cpu);
    if verdict != Verdict::None && m.rqs[cpu].ext.nr_immed > 0 && m.ext.dsqs.nr(local) > 1 {
        deferred::schedule_reenq_local(m, cpu);
    }
    m.rqs[cpu].ext.in_balance = false;
    verdict
}

#[inline]
fn balance(m: &mut Machine, cpu: CpuId, prev: TaskId) -> Verdict {
    if !m.rqs[cpu].ext.caps_to_sync.is_empty() {
        caps::process_sync(m, cpu, prev);
    }
    if m.rqs[cpu].ext.cpu_released {
        if m.ext.has_op(Callback::CpuAcquire) {
            ops::call_locked(m, Callback::CpuAcquire, cpu, &[u64::from(cpu), 0]);
        }
        m.rqs[cpu].ext.cpu_released = false;
    }
    let prev_on_ext = prev != IDLE && m.tasks[prev].class == Class::Ext;
    let prev_queued = prev_on_ext && m.scx_flag(prev, SCX_TASK_QUEUED);
    if prev_queued && m.scx_entity(prev).slice != 0 && !bypasses(m, prev) {
        return Verdict::Prev;
    }
    let local = m.ext.dsqs.local(cpu);
    if !m.ext.dsqs.is_empty(local) {
        return Verdict::Local;
    }
    m.ext.sub_dispatch_prev = prev;
    let verdict = dispatch(m, cpu, prev);
    m.ext.sub_dispatch_prev = IDLE;
    if verdict != Verdict::None {
        return verdict;
    }
    if m.ext.enforces_caps() {
        return keep_last_7_3(m, cpu, prev);
    }
    if prev_queued && (m.ext.loaded().ops.flags & SCX_OPS_ENQ_LAST == 0 || m.ext.bypassing()) {
        m.ext.stats.dispatch_keep_last += 1;
        return Verdict::Prev;
    }
    Verdict::None
}

/// Returns whether the slice of the previous task does not count, because of bypass mode. In Linux 7.3, that
/// of the task's own policy matters.
#[inline]
fn bypasses(m: &Machine, prev: TaskId) -> bool {
    if m.ext.enforces_caps() {
        m.ext.bypass_depth_of(m.tasks[prev].ext.sched) > 0
    } else {
        m.ext.bypassing()
    }
}

/// Decides whether the previous task keeps running because there is no other. In Linux 7.3, the flags
/// of its own policy count, and the policy must be allowed to use the CPU.
#[cold]
fn keep_last_7_3(m: &mut Machine, cpu: CpuId, prev: TaskId) -> Verdict {
    let is_queued = prev != IDLE && m.tasks[prev].class == Class::Ext && m.scx_flag(prev, SCX_TASK_QUEUED);
    if !is_queued || !caps::can_stay(m, cpu, prev) {
        return Verdict::None;
    }
    sub::in_sched_of(m, prev, |m| {
        let keeps = m.ext.loaded().ops.flags & SCX_OPS_ENQ_LAST == 0 || m.ext.bypassing();
        m.ext.stats.dispatch_keep_last += i64::from(keeps);
        if keeps { Verdict::Prev } else { Verdict::None }
    })
}

/// Fills the local DSQ on behalf of a sub-scheduler, which is the current policy. Returns whether the
/// CPU then has a task to run.
pub(super) fn dispatch_nested(m: &mut Machine, cpu: CpuId) -> bool {
    dispatch(m, cpu, m.ext.sub_dispatch_prev) != Verdict::None
}

/// Fills the local DSQ from the global DSQ or by calling ops.dispatch() (scx_dispatch_sched).
fn dispatch(m: &mut Machine, cpu: CpuId, prev: TaskId) -> Verdict {
    let prev_on_ext = prev != IDLE && m.tasks[prev].class == Class::Ext;
    let global = global_dsq(m, cpu);
    if consume_dispatch_q(m, cpu, global, 0) {
        return Verdict::Local;
    }
    if m.ext.bypassing() {
        let bypass = m.ext.dsqs.bypass(cpu);
        return if consume_dispatch_q(m, cpu, bypass, 0) {
            Verdict::Local
        } else {
            Verdict::None
        };
    }
    if m.ext.nr_hosted > 0 && bypass::takes_turn(m, cpu) && bypass::consume_hosted(m, cpu) {
        m.ext.stats.sub_bypass_dispatch += 1;
        return Verdict::Local;
    }
    if !m.ext.has_op(Callback::Dispatch) || !m.rqs[cpu].ext.online {
        return Verdict::None;
    }
    let local = m.ext.dsqs.local(cpu);
    let prev_on_sched = prev_on_ext && m.tasks[prev].ext.sched == m.ext.current_sched();
    let prev_addr = if prev_on_sched { m.tasks[prev].addr() } else { 0 };
    m.ext.dsp.cpu = cpu;
    let cpu_arg = m.ext.cids.arg(cpu);
    for round in 1..=SCX_DSP_MAX_LOOPS {
        m.ext.dsp.nr_tasks = 0;
        ops::call_locked(m, Callback::Dispatch, cpu, &[cpu_arg, prev_addr]);
        flush_dispatch_buf(m, cpu);
        // ops.dispatch() can give the previous task a new slice, so that it continues to run.
        if prev_on_ext && m.scx_flag(prev, SCX_TASK_QUEUED) && m.scx_entity(prev).slice != 0 {
            return Verdict::Prev;
        }
        if !m.ext.dsqs.is_empty(local) || consume_dispatch_q(m, cpu, global, 0) {
            return Verdict::Local;
        }
        if round == SCX_DSP_MAX_LOOPS {
            // The policy dispatches tasks again and again, but none for this CPU. The kick makes
            // the CPU try again later.
            kick::kernel_kicks(m, cpu, 0);
        }
        if m.ext.dsp.nr_tasks == 0 {
            break;
        }
    }
    // The CPU must not become idle while bypassed children have tasks.
    if m.ext.nr_hosted > 0 && bypass::consume_hosted(m, cpu) {
        return Verdict::Local;
    }
    Verdict::None
}

/// Performs the insertions that ops.dispatch() has buffered so far.
#[inline(always)]
pub(super) fn flush_dispatch_buf(m: &mut Machine, cpu: CpuId) {
    if !m.ext.dsp.buffer.is_empty() {
        finish_dispatch_buf(m, cpu);
    }
}

fn finish_dispatch_buf(m: &mut Machine, cpu: CpuId) {
    for index in 0..m.ext.dsp.buffer.len() {
        let pending = m.ext.dsp.buffer[index];
        finish_dispatch(m, cpu, pending);
    }
    m.ext.dsp.nr_tasks += m.ext.dsp.buffer.len() as u32;
    m.ext.dsp.buffer.clear();
}

/// Performs one buffered insertion, unless the policy no longer owns the task, or has lost and
/// regained the task since it requested the insertion.
fn finish_dispatch(m: &mut Machine, cpu: CpuId, pending: Pending) {
    let Pending {
        task,
        queued,
        qseq,
        dsq_id,
        mut enq_flags,
        slice,
        vtime,
    } = pending;
    m.await_queued(task);
    if m.tasks[task].ext.sched != m.ext.current_sched() {
        m.ext.stats.insert_not_owned += 1;
        return;
    }
    let entity = &mut m.tasks[task].ext;
    if !queued || entity.ops_state != OpsState::Queued || entity.qseq != qseq {
        return;
    }
    let task_cpu = m.tasks[task].cpu();
    let dsq = find_dsq_for_dispatch(m, cpu, dsq_id, task_cpu, Some(task));
    m.tasks[task].ext.ops_state = OpsState::None;
    if m.ext.is_linux_7_3 {
        m.tasks[task].rare.linux_7_3.carried = (slice, vtime);
        enq_flags |= SCX_ENQ_APPLY_SLICE;
    }
    if m.ext.dsqs.local_cpu(dsq).is_some() {
        dispatch_to_local_dsq(m, cpu, dsq, task, enq_flags);
    } else {
        dispatch_enqueue(m, task_cpu, dsq, task, enq_flags | SCX_ENQ_CLEAR_OPSS);
    }
}

/// Inserts a task that is on no DSQ into `dsq`, which must be a local DSQ but may belong to another
/// CPU. The runqueue of `cpu` is locked before and after the call.
pub(super) fn dispatch_to_local_dsq(m: &mut Machine, cpu: CpuId, dsq: DsqRef, task: TaskId, mut enq_flags: u64) {
    let src_cpu = m.tasks[task].cpu();
    let dst_cpu = m.ext.dsqs.local_cpu(dsq).expect("the DSQ must be a local DSQ");
    if cpu == src_cpu && cpu == dst_cpu {
        dispatch_enqueue(m, cpu, dsq, task, enq_flags | SCX_ENQ_CLEAR_OPSS);
        return;
    }
    if !lock_held_task(m, task, cpu, src_cpu) {
        switch_rq_lock(m, src_cpu, cpu);
        return;
    }
    let mut locked = src_cpu;
    let mut fallback = false;
    if src_cpu == dst_cpu {
        dispatch_enqueue(m, dst_cpu, dsq, task, enq_flags);
    } else if can_run_on_remote_rq(m, task, dst_cpu, true) {
        if enq_flags & SCX_ENQ_APPLY_SLICE != 0 {
            apply_carried(m, task, enq_flags);
            enq_flags &= !SCX_ENQ_APPLY_SLICE;
        }
        move_remote_task_to_local_dsq(m, task, enq_flags, src_cpu, dst_cpu);
        locked = dst_cpu;
    } else {
        fallback = true;
        let global = global_dsq(m, src_cpu);
        dispatch_enqueue(m, src_cpu, global, task, enq_flags | SCX_ENQ_GDSQ_FALLBACK);
    }
    if !fallback && m.curr_class(dst_cpu) > Class::Ext {
        ops::settle(m);
        m.resched_curr(dst_cpu);
    }
    switch_rq_lock(m, locked, cpu);
}

/// Releases one runqueue lock and acquires another.
#[inline]
fn switch_rq_lock(m: &mut Machine, from: CpuId, to: CpuId) {
    if from != to {
        ops::settle(m);
        m.unlock(LockId::Rq(from));
        m.lock(LockId::Rq(to));
    }
}

/// Releases the lock of `cpu` and acquires that of `src_cpu`, whose runqueue has a task that is on
/// no DSQ. Returns false if the task was dequeued in between, which is possible only if callbacks
/// overlap.
#[inline(always)]
fn lock_held_task(m: &mut Machine, task: TaskId, cpu: CpuId, src_cpu: CpuId) -> bool {
    if m.overlap.is_none() {
        switch_rq_lock(m, cpu, src_cpu);
        return true;
    }
    m.tasks[task].ext.holding_cpu = Some(cpu);
    switch_rq_lock(m, cpu, src_cpu);
    let held = m.tasks[task].ext.holding_cpu.take() == Some(cpu);
    held && m.tasks[task].cpu() == src_cpu
}

/// Returns whether a task may move from another CPU's runqueue to `cpu`. If `enforce` is set, a
/// move that violates the task's affinity or disabled migration ends the policy with an error. A
/// move to an offline CPU is only counted.
pub(super) fn can_run_on_remote_rq(m: &mut Machine, task: TaskId, cpu: CpuId, enforce: bool) -> bool {
    let t = &m.tasks[task];
    if t.migration_disabled() > 0 {
        if enforce {
            let message = format!(
                "SCX_DSQ_LOCAL[_ON] cannot move migration disabled {}[{}] from CPU {} to {cpu}",
                t.comm(),
                t.pid(),
                t.cpu()
            );
            exit::insertion_error(m, message, Some(task));
        }
        return false;
    }
    if !t.may_use(cpu) {
        if enforce {
            let message = format!(
                "SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {}[{}]",
                t.comm(),
                t.pid()
            );
            exit::insertion_error(m, message, Some(task));
        }
        return false;
    }
    let online = rq_online(m, cpu);
    if !online && enforce {
        m.ext.stats.dispatch_local_dsq_offline += 1;
    }
    online
}

/// Moves one task from a DSQ to the local DSQ of `cpu`: the first task that may run on `cpu`.
/// Returns whether a task was moved. The runqueue of `cpu` is locked.
#[inline(always)]
pub(super) fn consume_dispatch_q(m: &mut Machine, cpu: CpuId, dsq: DsqRef, enq_flags: u64) -> bool {
    match m.ext.dsqs.first(dsq) {
        Some(first) => consume_from(m, cpu, dsq, first, enq_flags),
        None => false,
    }
}

/// Number of instructions by which the budget of the running BPF program is reduced for each task
/// that a search of a DSQ skips.
pub(super) const TASK: u64 = 8;

/// Performs [`consume_dispatch_q`] for a DSQ that is not empty. `first` is its first task.
fn consume_from(m: &mut Machine, cpu: CpuId, dsq: DsqRef, first: TaskId, enq_flags: u64) -> bool {
    let lock = lock_dsq(m, dsq);
    let mut at = Some(first);
    while let Some(task) = at {
        // After the policy has failed, tasks are taken only from the bypass DSQs.
        if m.ext.exit.is_some() && m.ext.dsqs.id(dsq) != SCX_DSQ_BYPASS {
            break;
        }
        let task_cpu = m.tasks[task].cpu();
        m.read_line(m.tasks[task].addr());
        if task_cpu == cpu {
            unlink_from_dsq(m, task, dsq);
            m.record_decision(|m| take_decision(m, task, dsq, cpu));
            m.release(lock);
            enqueue_local(m, cpu, task, enq_flags);
            return true;
        }
        if can_run_on_remote_rq(m, task, cpu, false) {
            unlink_from_dsq(m, task, dsq);
            m.record_decision(|m| take_decision(m, task, dsq, cpu));
            if let Some(next) = m.ext.dsqs.first(dsq) {
                m.prefetch_task(next);
            }
            m.release(lock);
            if !lock_held_task(m, task, cpu, task_cpu) {
                switch_rq_lock(m, task_cpu, cpu);
                return false;
            }
            move_remote_task_to_local_dsq(m, task, enq_flags, task_cpu, cpu);
            return true;
        }
        m.ext.charge_program(TASK);
        at = m.ext.dsqs.next(task);
    }
    m.release(lock);
    false
}

/// Describes the consumption of a task from a DSQ for the log of decisions
/// (`watch::state::decision`).
#[cold]
fn take_decision(m: &Machine, task: TaskId, dsq: DsqRef, cpu: CpuId) -> DecisionKind {
    DecisionKind::Take {
        pid: m.pid_of(task),
        dsq: m.ext.dsqs.id(dsq),
        cpu: cpu.nr(),
    }
}

/// Moves a task that is on no DSQ to the local DSQ of `dst_cpu`.
///
/// The runqueue of `src_cpu`, which has the task, is locked at the start. The runqueue of `dst_cpu`
/// is locked at the end. This has the same effect as deactivate_task() and activate_task() but
/// takes fewer steps. Speed matters here, because policies with a shared DSQ move nearly every task
/// with this function.
fn move_remote_task_to_local_dsq(m: &mut Machine, task: TaskId, enq_flags: u64, src_cpu: CpuId, dst_cpu: CpuId) {
    debug_assert!(m.scx_flag(task, SCX_TASK_QUEUED) && !m.tasks[task].on_cpu());
    m.clr_task_runnable(task, false);
    m.tasks[task].ext.ops_state = OpsState::None;
    m.scx_clear_flag(task, SCX_TASK_DEQD_FOR_SLEEP);
    clear_direct_dispatch(m, task);
    let rq = &mut m.rqs[src_cpu];
    rq.nr_running -= 1;
    rq.ext.nr_running -= 1;
    m.set_task_cpu(task, dst_cpu, MigrateReason::Balance);
    m.tasks[task].ext.migrating = true;
    switch_rq_lock(m, src_cpu, dst_cpu);
    m.tasks[task].ext.migrating = false;
    if let Some(stepped) = m.stepped.as_deref_mut()
        && std::mem::take(&mut stepped.stale_clock)
    {
        // Queueing the task updates the clock, so the previous task is charged when it is put back.
        m.update_curr(dst_cpu);
    }
    let rq = &mut m.rqs[dst_cpu];
    rq.nr_running += 1;
    rq.ext.nr_running += 1;
    let is_first = rq.ext.nr_running == 1;
    m.domains.overloaded |= rq.nr_running == 2;
    m.set_task_runnable(task);
    if is_first {
        deadline::start(m, dst_cpu, Server::Ext);
    }
    enqueue_local(m, dst_cpu, task, enq_flags);
}

/// Moves a task from a non-local DSQ to another DSQ. The runqueue that has the task is locked at
/// the start. Returns the CPU whose runqueue is locked at the end.
pub(super) fn move_task_between_dsqs(
    m: &mut Machine,
    task: TaskId,
    mut enq_flags: u64,
    src: DsqRef,
    mut dst: DsqRef,
) -> CpuId {
    debug_assert_ne!(src, NO_DSQ);
    let src_cpu = m.tasks[task].cpu();
    let mut dst_cpu = m.ext.dsqs.local_cpu(dst);
    if let Some(cpu) = dst_cpu
        && cpu != src_cpu
        && !can_run_on_remote_rq(m, task, cpu, true)
    {
        dst = global_dsq(m, src_cpu);
        dst_cpu = None;
        enq_flags |= SCX_ENQ_GDSQ_FALLBACK;
    }
    let lock = lock_dsq(m, src);
    unlink_from_dsq(m, task, src);
    m.release(lock);
    match dst_cpu {
        Some(cpu) if cpu == src_cpu => {
            enqueue_local(m, cpu, task, enq_flags);
            cpu
        }
        Some(cpu) => {
            move_remote_task_to_local_dsq(m, task, enq_flags, src_cpu, cpu);
            cpu
        }
        None => {
            dispatch_enqueue(m, src_cpu, dst, task, enq_flags);
            src_cpu
        }
    }
}

/// Chooses the CPU for a woken or new task (select_task_rq_scx).
pub(crate) fn select_task_rq(m: &mut Machine, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
    if wake_flags & flags::WF_EXEC != 0 {
        return prev_cpu;
    }
    let bypassing = m.ext.bypassing();
    if m.ext.has_op(Callback::SelectCpu) && !bypassing {
        let addr = m.tasks[task].addr();
        debug_assert_eq!(m.ext.direct, DirectDispatch::Closed);
        m.ext.direct = DirectDispatch::For(task);
        let frame = Frame::about(task, None);
        let args = [addr, m.ext.cids.arg(prev_cpu), u64::from(wake_flags)];
        let chosen = ops::call_framed(m, Callback::SelectCpu, frame, &args);
        m.ext.direct = DirectDispatch::Closed;
        let cpu = chosen.map_or(prev_cpu.nr() as i32, |cpu| cid::cpu_ret(m, cpu as i32));
        m.scx_entity_mut(task).selected_cpu = cpu;
        if let Some(cpu) = exit::cpu_valid(m, cpu, "from ops.select_cpu()") {
            return cpu;
        }
        exit::blame_callback(m, Callback::SelectCpu);
        return prev_cpu;
    }
    let cpu = match idle::select_cpu_dfl(m, task, prev_cpu, u64::from(wake_flags), None, 0) {
        Some(cpu) => {
            if m.ext.is_linux_7_3 {
                m.ext.stats.refill_slice_dfl += 1;
                m.tasks[task].rare.linux_7_3.carried = (m.ext.slice_dfl_of(m.tasks[task].ext.sched), 0);
                m.scx_entity_mut(task).ddsp_enq_flags = SCX_ENQ_SLICE_DFL;
            } else {
                refill_slice(m, task);
            }
            m.scx_entity_mut(task).ddsp_dsq_id = SCX_DSQ_LOCAL;
            cpu
        }
        None => prev_cpu,
    };
    m.scx_entity_mut(task).selected_cpu = cpu.nr() as i32;
    m.ext.stats.bypass_dispatch += i64::from(bypassing);
    cpu
}
