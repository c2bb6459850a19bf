// SPDX-License-Identifier: GPL-2.0-only
//! Rescues: the kernel runs tasks that a sub-scheduler has inserted with SCX_ENQ_RESCUE on a CPU that
//! it may not use (scx_rescue_* in kernel/sched/ext/sub.c of Linux 7.3).
//!
//! Each CPU rescues one task at a time. A rescue needs a full quantum of budget, which a CPU earns at
//! the rate of ops.rescue_bandwidth_ppt. The other tasks wait on the CPU's rescue DSQ. If a rescued
//! task waits behind other tasks for too long, it preempts them. If a task waits for a rescue for too
//! long, the sub-scheduler that has used the most rescues on the CPU is ejected.

use super::dsq::{enqueue_local, unlink_from_dsq};
use super::{exit, sub};
use crate::layout::enums::*;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::ext::state::exit_info::ExitKind;
use crate::sched::ext::state::scheds::SchedId;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;

/// Returns the task that `cpu` rescues (scx_rescuee).
#[inline]
pub(super) fn rescuee(m: &Machine, cpu: CpuId) -> Option<TaskId> {
    let curr = m.rqs[cpu].ext.rescue.curr;
    (curr != IDLE).then_some(curr)
}

fn has_waiters(m: &Machine, cpu: CpuId) -> bool {
    !m.ext.dsqs.is_empty(m.ext.dsqs.rescue(cpu))
}

/// Describes the rescues of a CPU for the dump of a policy (scx_rescue_dump).
pub(super) fn describe(m: &Machine, cpu: CpuId) -> String {
    // The rescue DSQs exist as soon as a sub-scheduler has been attached.
    let waiting = match m.ext.has_subs() {
        true => m.ext.dsqs.nr(m.ext.dsqs.rescue(cpu)),
        false => 0,
    };
    let budget_us = m.rqs[cpu].ext.rescue.budget / 1000;
    let rescued = match rescuee(m, cpu) {
        Some(task) => format!("{}[{}]", m.tasks[task].comm(), m.tasks[task].pid()),
        None => "none[-1]".to_owned(),
    };
    format!("rescue={waiting} budget={budget_us}us rescuing={rescued}")
}

/// Returns the part of the granted CPU time that the rescued task has not used yet, ns
/// (scx_rescue_slice_remaining).
fn remaining(m: &Machine, cpu: CpuId) -> i64 {
    let rescue = &m.rqs[cpu].ext.rescue;
    let used = m.tasks[rescue.curr].task_struct.se.sum_exec_runtime - rescue.exec_snap;
    (rescue.slice - used as i64).max(0)
}

/// Sets the slice of a task, unless the slice is protected (scx_set_task_slice). Returns whether it was
/// set.
pub(super) fn set_slice(m: &mut Machine, task: TaskId, slice: u64) -> bool {
    if m.scx_flag(task, SCX_TASK_PROTECTED) {
        return false;
    }
    m.scx_entity_mut(task).slice = slice;
    m.tasks[task].rare.linux_7_3.slice_oob = None;
    true
}

/// Ends what the slice of a task protects: its place at the head, and its rescue
/// (scx_task_slice_ended).
pub(super) fn slice_ended(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.scx_clear_flag(task, SCX_TASK_PROTECTED);
    if m.rqs[cpu].ext.rescue.curr == task {
        end(m, cpu);
    }
}

/// Ends the rescue of a CPU (scx_rescue_end). Without waiting tasks, budget above one quantum is lost.
fn end(m: &mut Machine, cpu: CpuId) {
    let waits = has_waiters(m, cpu);
    let quantum = m.ext.rescue.quantum_ns;
    let rescue = &mut m.rqs[cpu].ext.rescue;
    rescue.curr = IDLE;
    if !waits {
        rescue.budget = rescue.budget.min(quantum);
    }
}

/// Charges the CPU time of a rescued task, which runs on `cpu`, to the budget (scx_rescue_charge).
#[cold]
pub(super) fn charge(m: &mut Machine, cpu: CpuId, ns: u64) {
    let task = m.rqs[cpu].ext.rescue.curr;
    let ns = (ns as i64).min(m.ext.rescue.quantum_ns + m.tick_ns() as i64);
    m.rqs[cpu].ext.rescue.budget -= ns;
    let owner = m.tasks[task].ext.sched;
    if owner != SchedId::ROOT {
        let avg = decayed_avg(m, owner, cpu);
        m.ext.sched_mut(owner).caps.cpus[cpu].rescue_avg = avg + ns as u64;
    }
    if remaining(m, cpu) == 0 {
        slice_ended(m, cpu, task);
    }
}

/// Returns the average CPU time of a sub-scheduler's rescues on `cpu` at present
/// (scx_rescue_decay_avg). It halves in each half-life.
fn decayed_avg(m: &mut Machine, id: SchedId, cpu: CpuId) -> u64 {
    let (now, halflife) = (m.jiffies(), m.ext.rescue.halflife);
    let own = &mut m.ext.sched_mut(id).caps.cpus[cpu];
    let n = (now - own.rescue_avg_at) / halflife;
    if n > 0 {
        own.rescue_avg = if n < 64 { own.rescue_avg >> n } else { 0 };
        own.rescue_avg_at += n * halflife;
    }
    own.rescue_avg
}

/// Decides whether a rescue goes on although the task has been switched out (scx_rescue_keep). If so,
/// the task gets the rest of its granted time.
pub(super) fn keep(m: &mut Machine, cpu: CpuId, task: TaskId) -> bool {
    let rest = remaining(m, cpu);
    if rest == 0 || !m.scx_flag(task, SCX_TASK_QUEUED) || m.ext.bypassing() {
        return false;
    }
    set_slice(m, task, rest as u64);
    true
}

/// Adds the budget that the CPU has earned (scx_rescue_accrue).
fn accrue(m: &mut Machine, cpu: CpuId) {
    let in_session = rescuee(m, cpu).is_some() || has_waiters(m, cpu);
    let knobs = m.ext.rescue;
    let cap = if in_session { 3 } else { 1 } * knobs.quantum_ns;
    let now = m.now;
    let rescue = &mut m.rqs[cpu].ext.rescue;
    let before = std::mem::replace(&mut rescue.clock, now);
    let delta = (now - before) as i64;
    // The first task that a CPU rescues finds a full budget, because the machine has run for long.
    rescue.budget = if before == 0 || delta >= knobs.saturated_ns {
        cap
    } else {
        cap.min(rescue.budget + ((delta * knobs.bandwidth) >> 10))
    };
}

/// Starts the rescue of a task, which gets `slice` ns (scx_rescue_admit).
fn admit(m: &mut Machine, cpu: CpuId, task: TaskId, slice: i64) {
    let exec_snap = m.tasks[task].task_struct.se.sum_exec_runtime;
    let rescue = &mut m.rqs[cpu].ext.rescue;
    debug_assert_eq!(rescue.curr, IDLE);
    (rescue.curr, rescue.slice, rescue.exec_snap) = (task, slice, exec_snap);
    set_slice(m, task, slice as u64);
    arm_timer(m, cpu);
}

/// Starts the rescue of a task if the CPU rescues no other and has enough budget
/// (scx_rescue_try_admit). Returns false if the task has to wait.
pub(super) fn try_admit(m: &mut Machine, cpu: CpuId, task: TaskId) -> bool {
    accrue(m, cpu);
    let quantum = m.ext.rescue.quantum_ns;
    let admits = rescuee(m, cpu).is_none() && !has_waiters(m, cpu) && m.rqs[cpu].ext.rescue.budget >= quantum;
    if admits {
        admit(m, cpu, task, quantum);
    } else {
        arm_timer(m, cpu);
    }
    admits
}

/// Starts the timer that drives the rescues of a CPU, unless it is running (scx_rescue_timer_arm).
fn arm_timer(m: &mut Machine, cpu: CpuId) {
    let knobs = m.ext.rescue;
    let rescue = &m.rqs[cpu].ext.rescue;
    if rescue.timer.is_some() {
        return;
    }
    let mut delay = knobs.quantum_ns / 4;
    if rescue.curr == IDLE && rescue.budget < knobs.quantum_ns {
        delay = delay.max(((knobs.quantum_ns - rescue.budget) << 10) / knobs.bandwidth);
    }
    let delta = delay as u64 / m.tick_ns() + 1;
    let at = timer_wheel_expiry(m, m.jiffies() + delta, delta);
    m.rqs[cpu].ext.rescue.timer = Some(at);
    m.events.push(at, Event::ExtRescue { cpu });
}

/// Handles the timer of a CPU (scx_rescue_timerfn).
pub(super) fn timer(m: &mut Machine, cpu: CpuId) {
    m.lock(LockId::Rq(cpu));
    drive(m, cpu);
    m.unlock(LockId::Rq(cpu));
}

fn drive(m: &mut Machine, cpu: CpuId) {
    if rescuee(m, cpu).is_none() && !has_waiters(m, cpu) {
        return;
    }
    accrue(m, cpu);
    check_overload(m, cpu);
    let (quantum, budget) = (m.ext.rescue.quantum_ns, m.rqs[cpu].ext.rescue.budget);
    match rescuee(m, cpu) {
        None if budget >= quantum => admit_first(m, cpu),
        Some(task) if budget > 2 * quantum && m.ext.dsqs.current(task) == m.ext.dsqs.local(cpu) => {
            escalate(m, cpu, task);
        }
        _ => {}
    }
    arm_timer(m, cpu);
}

/// Starts the rescue of the task that has waited longest. The more tasks wait, the shorter is its
/// slice (scx_rescue_next_slice).
fn admit_first(m: &mut Machine, cpu: CpuId) {
    let dsq = m.ext.dsqs.rescue(cpu);
    let quantum = m.ext.rescue.quantum_ns;
    let depth = i64::from(m.ext.dsqs.nr(dsq).max(1));
    let least = (SCX_RESCUE_MIN_SLICE_US as i64 * 1000).max(m.tick_ns() as i64);
    let slice = (quantum / depth).clamp(least.min(quantum), quantum);
    let Some(task) = m.ext.dsqs.first(dsq) else { return };
    unlink_from_dsq(m, task, dsq);
    admit(m, cpu, task, slice);
    sub::in_sched_of(m, task, |m| enqueue_local(m, cpu, task, SCX_ENQ_IGNORE_CAPS));
    if m.curr_class(cpu) > Class::Ext {
        m.resched_curr(cpu);
    }
}

/// Lets a rescued task that still waits preempt the current task, and protects the rest of its slice.
fn escalate(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let rest = remaining(m, cpu);
    set_slice(m, task, rest as u64);
    m.scx_set_flag(task, SCX_TASK_PROTECTED);
    let local = m.ext.dsqs.local(cpu);
    unlink_from_dsq(m, task, local);
    let flags = SCX_ENQ_HEAD | SCX_ENQ_PREEMPT | SCX_ENQ_IGNORE_CAPS;
    sub::in_sched_of(m, task, |m| enqueue_local(m, cpu, task, flags));
}

/// Ejects the sub-scheduler with the most rescues on `cpu` if a task has waited for a rescue for too
/// long (scx_rescue_check_overload).
fn check_overload(m: &mut Machine, cpu: CpuId) {
    let Some(task) = m.ext.dsqs.first(m.ext.dsqs.rescue(cpu)) else {
        return;
    };
    let (now, limit) = (m.jiffies(), m.ext.rescue.overload_after);
    let waited = now - m.tasks[task].rare.linux_7_3.rescue_at;
    if waited < limit || now < m.rqs[cpu].ext.rescue.kill_at + limit {
        return;
    }
    let mut victim = None;
    let mut max = 0;
    let subs: Vec<SchedId> = m.ext.live_subs().collect();
    for id in subs {
        if m.ext.sched(id).caps.cpus.is_empty() {
            continue;
        }
        let avg = decayed_avg(m, id, cpu);
        if avg > max && m.ext.exit_of(id).is_none() {
            (victim, max) = (Some(id), avg);
        }
    }
    let Some(victim) = victim else { return };
    m.rqs[cpu].ext.rescue.kill_at = now;
    let ms = waited * m.tick_ns() / 1_000_000;
    let t = &m.tasks[task];
    let message = format!(
        "used too much rescue CPU time ({}ms) while {}[{}] waited {}.{:03}s to be rescued",
        max / 1_000_000,
        t.comm(),
        t.pid(),
        ms / 1000,
        ms % 1000
    );
    let on = cpu.nr() as i32;
    sub::in_sched(m, victim, |m| exit::exit_on(m, ExitKind::ErrorRescue, 0, on, message));
}

/// Moves all waiting tasks to the local DSQ of a CPU that goes offline (scx_rescue_flush).
pub(super) fn flush(m: &mut Machine, cpu: CpuId) {
    if let Some(task) = rescuee(m, cpu) {
        slice_ended(m, cpu, task);
    }
    let dsq = m.ext.dsqs.rescue(cpu);
    while let Some(task) = m.ext.dsqs.first(dsq) {
        unlink_from_dsq(m, task, dsq);
        sub::in_sched_of(m, task, |m| enqueue_local(m, cpu, task, SCX_ENQ_IGNORE_CAPS));
    }
    m.rqs[cpu].ext.rescue.timer = None;
}

/// Returns the time at which a timer of the kernel's timer wheel fires that expires in the jiffy `expires`,
/// `delta` jiffies from now (calc_wheel_index in kernel/time/timer.c). Distant timers fire late, in steps
/// of 8 or 64 jiffies.
fn timer_wheel_expiry(m: &Machine, expires: u64, delta: u64) -> u64 {
    let shift = match delta {
        0..63 => 0,
        63..504 => 3,
        _ => 6,
    };
    let jiffy = ((expires >> shift) + 1) << shift;
    (jiffy * m.tick_ns()).saturating_sub(m.since_tick_ns).max(m.now)
}
