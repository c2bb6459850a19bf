// SPDX-License-Identifier: GPL-2.0-only
//! Queueing and dequeueing of tasks that a policy schedules, and the choice of CPUs for tasks that wake
//! up: enqueue_task_scx(), dequeue_task_scx(), select_task_rq_scx() and the functions they call.

use super::dsq::{call_dequeue, dispatch_dequeue, dispatch_enqueue, find_dsq_for_dispatch, global_dsq, rq_online};
use super::{cid, deferred, exit, idle, ops, rescue};
use crate::layout::PF_EXITING;
use crate::layout::callbacks::Callback;
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::deadline;
use crate::sched::ext::state::core::DirectDispatch;
use crate::sched::ext::state::dsq::DsqRef;
use crate::sched::ext::state::entity::OpsState;
use crate::sched::ext::state::exit_info::ExitKind;
use crate::sched::ext::state::ops_table::Frame;
use crate::simulation::id::{CpuId, Server, TaskId};
use crate::watch::state::observed::Handler;

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

/// Queues a task that became runnable on `cpu` (enqueue_task_scx).
pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, core_flags: u32) {
    let mut enq_flags = u64::from(core_flags);
    m.rqs[cpu].ext.in_wakeup = core_flags & flags::WAKEUP != 0;
    // A running task whose parameters change goes directly back to the local DSQ of its CPU.
    let stays = core_flags & flags::RESTORE != 0 && m.rqs[cpu].curr == task && !m.rqs[cpu].stopping;
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
    let ops_flags = m.ext.ops_flags();
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

/// Takes a task back from the policy (ops_dequeue).
pub(super) fn ops_dequeue(m: &mut Machine, task: TaskId, deq_flags: u64) {
    m.clr_task_runnable(task, false);
    m.tasks[task].ext.ops_state = OpsState::None;
    call_dequeue(m, task, deq_flags);
}
