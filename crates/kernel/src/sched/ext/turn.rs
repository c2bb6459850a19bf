// SPDX-License-Identifier: GPL-2.0-only
//! The turn of an ext task on a CPU: its beginning and end, the CPU time that its slice loses, ticks and
//! sched_yield().

use super::enqueue::{dispatch_dequeue, do_enqueue_task, enqueue_local, ops_dequeue};
use super::{kick, ops};
use crate::layout::SCHED_DEADLINE;
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::layout::scx_cpu_release_args;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::ops_table::Frame;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use std::mem::{offset_of, size_of};

/// Makes a task the current task of `cpu` (set_next_task_scx).
pub(crate) fn set_next_task(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.scx_flag(task, SCX_TASK_QUEUED) {
        ops_dequeue(m, task, SCX_DEQ_CORE_SCHED_EXEC);
        dispatch_dequeue(m, cpu, task);
        if m.ext.has_op(Callback::Running) {
            let addr = m.tasks[task].addr();
            ops::call_on(m, Callback::Running, cpu, task, &[addr]);
        }
    }
    m.clr_task_runnable(task, true);
    m.rqs[cpu].ext.can_stop_tick = m.scx_entity(task).slice == SCX_SLICE_INF;
}

/// Handles a task that stops running because `next` runs now (put_prev_task_scx). `next` may be the
/// same task.
pub(crate) fn put_prev_task(m: &mut Machine, cpu: CpuId, task: TaskId, next: TaskId) {
    put_prev(m, cpu, task, next != task && m.class_of(next) > Class::Ext);
    // The rest of this function corresponds to switch_class().
    if next != task && m.class_of(next) < Class::Ext && m.ext.has_cpu_preempt() {
        let why = match (m.class_of(next), m.tasks[next].policy()) {
            (Class::Rt, SCHED_DEADLINE) => SCX_CPU_PREEMPT_DL,
            (Class::Rt, _) => SCX_CPU_PREEMPT_RT,
            // Linux has no SCX_CPU_PREEMPT_* reason for the fair class (preempt_reason_from_class).
            _ => SCX_CPU_PREEMPT_UNKNOWN,
        };
        release_cpu(m, cpu, next, why);
    }
}

/// Handles a task that the stopper of `cpu` interrupts (put_prev_task_scx).
pub(crate) fn put_prev_for_stopper(m: &mut Machine, cpu: CpuId, task: TaskId) {
    put_prev(m, cpu, task, false);
    if m.ext.has_cpu_preempt() {
        release_cpu(m, cpu, IDLE, SCX_CPU_PREEMPT_STOP);
    }
}

/// Performs put_prev_task_scx() without switch_class(). `idles` is set if the CPU becomes idle.
#[inline(always)]
fn put_prev(m: &mut Machine, cpu: CpuId, task: TaskId, idles: bool) {
    kick::kick_sync(m, cpu);
    if m.scx_flag(task, SCX_TASK_QUEUED) {
        let addr = m.tasks[task].addr();
        if m.ext.has_op(Callback::Stopping) {
            ops::call_task(m, Callback::Stopping, task, &[addr, 1]);
        }
        requeue_prev(m, cpu, task, idles);
    }
}

/// Queues the task that was running and is still runnable. `idles` is set if the CPU becomes idle.
fn requeue_prev(m: &mut Machine, cpu: CpuId, task: TaskId, idles: bool) {
    m.set_task_runnable(task);
    if m.scx_entity(task).slice != 0 && !m.ext.bypassing() {
        if m.scx_flag(task, SCX_TASK_IMMED) {
            // The task was inserted with SCX_ENQ_IMMED, so it must not wait here. It goes back to
            // the policy.
            m.scx_set_flag(task, SCX_TASK_REENQ_PREEMPTED);
            do_enqueue_task(m, cpu, task, SCX_ENQ_REENQ);
            m.scx_clear_flag(task, SCX_TASK_REENQ_REASON_MASK);
        } else {
            enqueue_local(m, cpu, task, SCX_ENQ_HEAD);
        }
        return;
    }
    if idles {
        do_enqueue_task(m, cpu, task, SCX_ENQ_LAST);
        if m.ext.dsqs.current(task) == m.ext.dsqs.local(cpu) {
            m.resched_curr(cpu);
        }
    } else {
        do_enqueue_task(m, cpu, task, 0);
    }
}

/// Calls ops.cpu_release() because a task of a higher class takes the CPU, for the reason `why`
/// (SCX_CPU_PREEMPT_*). The callback is not called again before ops.cpu_acquire() is called.
///
/// `next` is the task, or IDLE instead of the stopper, for which no task_struct exists.
pub(super) fn release_cpu(m: &mut Machine, cpu: CpuId, next: TaskId, why: u64) {
    if m.rqs[cpu].ext.cpu_released {
        return;
    }
    if m.ext.has_op(Callback::CpuRelease) {
        let mut args = [0; size_of::<scx_cpu_release_args>()];
        let (reason, task) = (
            offset_of!(scx_cpu_release_args, reason),
            offset_of!(scx_cpu_release_args, task),
        );
        args[reason..reason + 4].copy_from_slice(&(why as u32).to_le_bytes());
        args[task..task + 8].copy_from_slice(&m.addr_of_task(next, cpu).to_le_bytes());
        let frame = Frame::locked(cpu);
        ops::call_with_struct(m, Callback::CpuRelease, frame, u64::from(cpu), &args);
    }
    m.rqs[cpu].ext.cpu_released = true;
}

/// Calls ops.yield(). If the policy does not define this callback, ends the task's slice instead
/// (yield_task_scx).
pub(crate) fn yield_task(m: &mut Machine, cpu: CpuId) {
    let task = m.rqs[cpu].curr;
    if m.ext.has_op(Callback::Yield) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Yield, task, &[addr, 0]);
    } else {
        m.scx_entity_mut(task).slice = 0;
    }
}

/// Reduces the slice of the running task by `ns` of CPU time (update_curr_scx).
#[inline]
pub(crate) fn update_curr(m: &mut Machine, cpu: CpuId, ns: u64) {
    let curr = m.rqs[cpu].curr;
    let scx = m.scx_entity_mut(curr);
    if scx.slice != SCX_SLICE_INF {
        scx.slice = scx.slice.saturating_sub(ns);
    }
}

/// Calls ops.tick(), and reschedules if the running task has used up its slice (task_tick_scx).
pub(crate) fn task_tick(m: &mut Machine, cpu: CpuId) {
    let task = m.rqs[cpu].curr;
    if m.ext.bypassing() {
        m.scx_entity_mut(task).slice = 0;
    } else if m.ext.has_op(Callback::Tick) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Tick, task, &[addr]);
    }
    if m.scx_entity(task).slice == 0 {
        m.resched_curr(cpu);
    }
}
