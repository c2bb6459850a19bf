// SPDX-License-Identifier: GPL-2.0-only
//! The turn of an ext task on a CPU: its beginning and end, the CPU time that its slice loses, ticks and
//! sched_yield().

use super::dsq::{dispatch_dequeue, enqueue_local};
use super::enqueue::{do_enqueue_task, ops_dequeue};
use super::{caps, kick, ops, rescue, sub};
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
    if m.ext.is_linux_7_3 {
        m.tasks[task].rare.linux_7_3.reenq_count = 0;
        apply_slice_oob(m, cpu, task);
    }
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

/// Handles a task that the stopper of `cpu` interrupts, or a different thread of the kernel for the reason `why`
/// (put_prev_task_scx).
pub(crate) fn put_prev_for_stopper(m: &mut Machine, cpu: CpuId, task: TaskId, why: u64) {
    put_prev(m, cpu, task, false);
    if m.ext.has_cpu_preempt() {
        release_cpu(m, cpu, IDLE, why);
    }
}

/// Performs put_prev_task_scx() without switch_class(). `idles` is set if the CPU becomes idle.
#[inline(always)]
fn put_prev(m: &mut Machine, cpu: CpuId, task: TaskId, idles: bool) {
    kick::kick_sync(m, cpu);
    let mut keeps_rescue = false;
    if m.ext.enforces_caps() && m.scx_entity(task).slice == 0 {
        keeps_rescue = rescue::rescuee(m, cpu) == Some(task) && rescue::keep(m, cpu, task);
        if !keeps_rescue {
            rescue::slice_ended(m, cpu, task);
        }
    }
    if m.scx_flag(task, SCX_TASK_QUEUED) {
        let addr = m.tasks[task].addr();
        if m.ext.has_op(Callback::Stopping) {
            ops::call_task(m, Callback::Stopping, task, &[addr, 1]);
        }
        requeue_prev(m, cpu, task, idles, keeps_rescue);
    }
}

/// Queues the task that was running and is still runnable. `idles` is set if the CPU becomes idle.
/// `keeps_rescue` says that the task is being rescued and has got a new slice for this.
fn requeue_prev(m: &mut Machine, cpu: CpuId, task: TaskId, idles: bool, keeps_rescue: bool) {
    m.set_task_runnable(task);
    let is_rescued = m.ext.enforces_caps() && rescue::rescuee(m, cpu) == Some(task);
    if (m.scx_entity(task).slice != 0 || is_rescued) && !m.ext.bypassing() {
        if m.scx_flag(task, SCX_TASK_IMMED) {
            // The task was inserted with SCX_ENQ_IMMED, so it must not wait here. It goes back to
            // the policy.
            m.scx_set_flag(task, SCX_TASK_REENQ_PREEMPTED);
            do_enqueue_task(m, cpu, task, SCX_ENQ_REENQ);
            m.scx_clear_flag(task, SCX_TASK_REENQ_REASON_MASK);
        } else {
            let place = if keeps_rescue { 0 } else { SCX_ENQ_HEAD };
            let caps = if is_rescued { SCX_ENQ_IGNORE_CAPS } else { 0 };
            enqueue_local(m, cpu, task, place | caps);
        }
        return;
    }
    if idles && caps::can_stay(m, cpu, task) {
        do_enqueue_task(m, cpu, task, SCX_ENQ_LAST);
        if m.ext.dsqs.current(task) == m.ext.dsqs.local(cpu) {
            m.rqs[cpu].ext.runs_last = true;
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
    if m.ext.enforces_caps() {
        rescue::slice_ended(m, cpu, task);
    }
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
    if m.ext.is_linux_7_3 {
        return update_curr_7_3(m, cpu, curr, ns);
    }
    consume_slice(m, curr, ns);
}

#[inline]
fn consume_slice(m: &mut Machine, curr: TaskId, ns: u64) {
    let scx = m.scx_entity_mut(curr);
    if scx.slice != SCX_SLICE_INF {
        scx.slice = scx.slice.saturating_sub(ns);
    }
}

#[cold]
fn update_curr_7_3(m: &mut Machine, cpu: CpuId, curr: TaskId, ns: u64) {
    apply_slice_oob(m, cpu, curr);
    consume_slice(m, curr, ns);
    if m.ext.enforces_caps() && rescue::rescuee(m, cpu) == Some(curr) {
        rescue::charge(m, cpu, ns);
    }
}

/// Gives a task on `cpu` the slice that its policy requested without the lock of the runqueue
/// (apply_task_slice_oob). Only a policy that may use the CPU can make the slice longer.
fn apply_slice_oob(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let Some((sched, slice)) = m.tasks[task].rare.linux_7_3.slice_oob.take() else {
        return;
    };
    let owner = m.tasks[task].ext.sched;
    if sched != owner {
        return;
    }
    let extends = slice > m.scx_entity(task).slice;
    let is_denied = extends && caps::missing(m, owner, cpu, SCX_CAP_BASE) != 0;
    if is_denied || m.scx_flag(task, SCX_TASK_PROTECTED) {
        sub::in_sched(m, owner, |m| m.ext.stats.slice_denied += 1);
    } else {
        m.scx_entity_mut(task).slice = slice;
    }
}

/// Calls ops.tick(), and reschedules if the running task has used up its slice (task_tick_scx).
pub(crate) fn task_tick(m: &mut Machine, cpu: CpuId) {
    let task = m.rqs[cpu].curr;
    if m.ext.bypassing() {
        rescue::set_slice(m, task, 0);
    } else if m.ext.has_op(Callback::Tick) {
        let addr = m.tasks[task].addr();
        ops::call_task(m, Callback::Tick, task, &[addr]);
    }
    if m.scx_entity(task).slice == 0 {
        m.resched_curr(cpu);
    }
}

/// Sets the slice of a task as the policy requests (scx_bpf_task_set_slice of Linux 7.3). Without the lock
/// of the task's runqueue, the slice changes later.
pub(crate) fn task_set_slice(m: &mut Machine, task: TaskId, slice: u64) {
    let current = m.ext.current_sched();
    let locked = m.ext.frame.locked_cpu;
    let is_there = |cpu: CpuId| {
        let waits = m.tasks[task].ext.runnable != 0 && m.tasks[task].cpu() == cpu;
        waits || m.rqs[cpu].curr == task
    };
    match locked.filter(|&cpu| is_there(cpu)) {
        None => {
            const MAX: u64 = (1 << 43) - 2;
            let is_clamped = slice != SCX_SLICE_INF && slice > MAX;
            m.ext.stats.slice_clamped += i64::from(is_clamped);
            m.tasks[task].rare.linux_7_3.slice_oob = Some((current, if is_clamped { MAX } else { slice }));
        }
        Some(cpu) => {
            let extends = slice > m.scx_entity(task).slice;
            let is_denied = extends && caps::missing(m, current, cpu, SCX_CAP_BASE) != 0;
            if is_denied || !rescue::set_slice(m, task, slice) {
                m.ext.stats.slice_denied += 1;
            }
        }
    }
}
