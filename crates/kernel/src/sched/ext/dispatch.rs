// SPDX-License-Identifier: GPL-2.0-only
//! Selection of the next ext task of a CPU: balance_one(), the calls of the ops.dispatch() callback
//! of the policy, and the insertions that this callback has buffered.

use super::dsq::{dispatch_enqueue, find_dsq_for_dispatch, global_dsq};
use super::enqueue::refill_slice;
use super::migrate::{consume_dispatch_q, dispatch_to_local_dsq};
use super::{bypass, caps, deferred, ecaps, kick, ops, rescue, sub};
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::core::Pending;
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::id::{CpuId, IDLE, TaskId};

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
        ecaps::process_sync(m, cpu, prev);
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
    if prev_queued && (m.ext.ops_flags() & SCX_OPS_ENQ_LAST == 0 || m.ext.bypassing()) {
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
        let keeps = m.ext.ops_flags() & SCX_OPS_ENQ_LAST == 0 || m.ext.bypassing();
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
