// SPDX-License-Identifier: GPL-2.0-only
//! Moves of queued tasks between DSQs, which may take a task to the runqueue of a different CPU
//! (consume_dispatch_q, move_remote_task_to_local_dsq).

use super::dsq::{apply_carried, dispatch_enqueue, enqueue_local, global_dsq, lock_dsq, rq_online, unlink_from_dsq};
use super::enqueue::clear_direct_dispatch;
use super::{exit, ops};
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::deadline;
use crate::sched::ext::state::dsq::{DsqRef, NO_DSQ};
use crate::sched::ext::state::entity::OpsState;
use crate::simulation::id::{CpuId, Server, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::DecisionKind;
use trace::MigrateReason;

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
    debug_assert!(m.scx_flag(task, SCX_TASK_QUEUED));
    // A task that the stopper has interrupted stays current here until schedule() has picked the next one.
    debug_assert!(!m.tasks[task].on_cpu() || m.rqs[m.this_cpu].stopping);
    m.clr_task_runnable(task, false);
    m.tasks[task].ext.ops_state = OpsState::None;
    m.scx_clear_flag(task, SCX_TASK_DEQD_FOR_SLEEP);
    clear_direct_dispatch(m, task);
    let now = m.now;
    let rq = &mut m.rqs[src_cpu];
    rq.clock_updated = now;
    rq.nr_running -= 1;
    rq.ext.nr_running -= 1;
    m.set_task_cpu(task, dst_cpu, MigrateReason::Balance);
    m.tasks[task].ext.migrating = true;
    switch_rq_lock(m, src_cpu, dst_cpu);
    m.tasks[task].ext.migrating = false;
    let here = m.this_cpu;
    if let Some(stepped) = m.stepped.as_deref_mut()
        && (src_cpu == here || dst_cpu == here)
        && std::mem::take(&mut stepped.stale_clock)
    {
        // The move updates the clock of its queues, so the previous task is charged when it is put back.
        m.update_curr(here);
    }
    let rq = &mut m.rqs[dst_cpu];
    rq.clock_updated = now;
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
