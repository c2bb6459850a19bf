// SPDX-License-Identifier: GPL-2.0-only
//! The high-resolution tick, which ends a slice on time (HRTICK in kernel/sched/core.c and fair.c).

use super::entity_ticks;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::entity::{FairRq, NICE_0_LOAD};
use crate::simulation::event::{Event, NEVER};
use crate::simulation::id::{CpuId, TaskId};
use machine::Feature;

/// Minimum delay of a high-resolution tick, ns (hrtick_start).
const HRTICK_MIN_NS: u64 = 10_000;
/// The high-resolution tick is not moved by less than this time, ns (hrtick_needs_rearm).
const HRTICK_MARGIN_NS: u64 = 5_000;

/// Schedules the high-resolution tick for the end of the slice of `curr`, if other tasks are queued
/// (hrtick_start_fair). If `cpu` is a different CPU, it gets an IPI, because it has to start the
/// timer itself. If no other task is queued, a tick that is already scheduled remains.
pub(super) fn hrtick_start(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    if !m.sched_feat(Feature::Hrtick) || m.rqs[cpu].fair.cfs.h_nr_queued <= 1 {
        return;
    }
    let e = &m.tasks[curr].fair;
    let vleft = e.deadline - e.vruntime;
    if vleft < 0 {
        if m.rqs[cpu].curr == curr {
            m.resched_curr(cpu);
        }
        return;
    }
    let left = (u128::from(vleft as u64) * u128::from(e.h_load) / u128::from(NICE_0_LOAD)) as u64;
    let at = m.local_time(cpu) + left.max(HRTICK_MIN_NS);
    m.rqs[cpu].fair.hrtick_time = at;
    if cpu == m.this_cpu {
        hrtick_cond_restart(m, cpu);
    } else if needs_rearm(&m.rqs[cpu].fair) && !m.rqs[cpu].fair.hrtick_ipi {
        m.rqs[cpu].fair.hrtick_ipi = true;
        m.interrupt_cpu(cpu, Event::HrtickStart { cpu });
    }
}

/// Returns whether the high-resolution tick has to be moved to a different time
/// (hrtick_needs_rearm).
fn needs_rearm(rq: &FairRq) -> bool {
    rq.hrtick_at == NEVER || rq.hrtick_at.abs_diff(rq.hrtick_time) > HRTICK_MARGIN_NS
}

/// Starts the timer of the high-resolution tick on its CPU.
fn hrtick_cond_restart(m: &mut Machine, cpu: CpuId) {
    let now = m.now;
    let earliest = match m.rqs[cpu].coarse_timers {
        true => m.next_tick(cpu),
        // An IPI may arrive after the time.
        false => now,
    };
    let rq = &mut m.rqs[cpu].fair;
    if !needs_rearm(rq) {
        return;
    }
    let old = std::mem::replace(&mut rq.hrtick_at, rq.hrtick_time.max(earliest));
    if m.stepped.is_some() {
        return m.start_hrtick(cpu, old);
    }
    let rq = &mut m.rqs[cpu].fair;
    if rq.hrtick_at < rq.hrtick_event {
        rq.hrtick_event = rq.hrtick_at;
        m.events.push(rq.hrtick_at, Event::Hrtick { cpu });
    } else {
        rq.hrtick_moved_at = now;
    }
}

/// Handles the IPI that asks a CPU to start its high-resolution tick (__hrtick_start).
pub(crate) fn hrtick_start_ipi(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    hrtick_start_pending(m, cpu);
}

/// Starts the high-resolution tick of a CPU, if a different CPU has asked for it.
pub(crate) fn hrtick_start_pending(m: &mut Machine, cpu: CpuId) {
    if std::mem::take(&mut m.rqs[cpu].fair.hrtick_ipi) {
        hrtick_cond_restart(m, cpu);
    }
}

/// Cancels the high-resolution tick of a CPU that becomes idle (hrtick_schedule_exit).
pub(super) fn hrtick_cancel(m: &mut Machine, cpu: CpuId) {
    m.rqs[cpu].fair.hrtick_at = NEVER;
}

/// Starts the high-resolution tick when a task has been queued, so that the current task is
/// rescheduled at the end of its slice.
pub(super) fn hrtick_update(m: &mut Machine, cpu: CpuId) {
    let curr = m.rqs[cpu].curr;
    if m.rqs[cpu].fair.hrtick_at == NEVER && m.class_of(curr) == Class::Fair {
        hrtick_start(m, cpu, curr);
    }
}

/// Returns whether the high-resolution tick is due. If it was moved to a later time since its event was
/// scheduled, schedules a new event.
fn is_due(m: &mut Machine, cpu: CpuId) -> bool {
    let now = m.now;
    let rq = &mut m.rqs[cpu].fair;
    if rq.hrtick_event != now {
        return false;
    }
    rq.hrtick_event = NEVER;
    if rq.hrtick_at == NEVER || rq.hrtick_at <= now {
        return rq.hrtick_at != NEVER;
    }
    rq.hrtick_event = rq.hrtick_at;
    let moved_at = rq.hrtick_moved_at;
    m.events.push(m.rqs[cpu].fair.hrtick_at, Event::Hrtick { cpu });
    // Linux does not set the hardware's timer anew for this tick (is_lazy), so the interrupt
    // comes in vain, unless a periodic tick has come before. Scripts follow the rule exactly
    // (stepping::hrtimer).
    if moved_at / m.tick_ns() == now / m.tick_ns() {
        m.enter_timer_irq(cpu);
        m.run_soft_timers(cpu);
    }
    false
}

/// Handles the event of the high-resolution tick. Since the event was scheduled, the tick may have
/// been cancelled or moved to a later time, and the result is false. Otherwise the slice has ended, and
/// the CPU reschedules.
pub(crate) fn hrtick(m: &mut Machine, cpu: CpuId) -> bool {
    if m.stepped.is_none() && !is_due(m, cpu) {
        return false;
    }
    m.rqs[cpu].fair.hrtick_at = NEVER;
    m.enter_timer_irq(cpu);
    m.run_soft_timers(cpu);
    m.update_curr(cpu);
    if let Some(curr) = m.fair_curr(cpu) {
        entity_ticks(m, cpu, curr);
        m.resched_curr(cpu);
    } else if m.curr_class(cpu) < Class::Idle {
        // A task of another class has begun to run since then.
        m.class_task_tick(cpu);
    }
    true
}
