// SPDX-License-Identifier: GPL-2.0-only
//! Periodic load balancing, which the tick starts, and balancing on behalf of idle CPUs whose tick
//! is stopped (sched_balance_trigger, nohz).

use super::balance::balance_rq;
use super::busiest::sched_asym;
use super::detach;
use super::idle_scan::{available_idle_cpu, is_core_idle, sched_idle_cpu};
use super::lb_env::IdleType;
use crate::machine::Machine;
use crate::sched::fair::state::domains::Level;
use crate::sched::fair::state::entity::MIGRATION_COST;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

/// Work on behalf of idle CPUs: update their load (NOHZ_STATS_KICK).
const STATS: u8 = 1;
/// Pull tasks to them (NOHZ_BALANCE_KICK).
const BALANCE: u8 = 2;
/// Calculate when they balance next (NOHZ_NEXT_KICK).
const NEXT: u8 = 4;
/// Update their load when this CPU has become idle (NOHZ_NEWILB_KICK).
const NEW_IDLE: u8 = 8;
const KICKS: u8 = STATS | BALANCE | NEXT;

/// Interval at which the load of idle CPUs is updated so that it decays, ns (LOAD_AVG_PERIOD).
const BLOCKED_NS: u64 = 32_000_000;

/// On a busy CPU, the balancing interval is multiplied by this factor.
const BUSY_FACTOR: u64 = 16;

impl Level {
    /// Returns the interval between two balancing runs in this domain, in jiffies
    /// (get_sd_balance_interval).
    pub(super) fn interval_jiffies(&self, tick_ns: u64, nr_cpus: u32, busy: bool) -> u64 {
        let ms = self.balance_interval * if busy { BUSY_FACTOR } else { 1 };
        let max = (1_000_000_000 / tick_ns * u64::from(nr_cpus) / 10).max(1);
        let jiffies = (ms * 1_000_000).div_ceil(tick_ns);
        // Subtracts a jiffy on a busy CPU, so that the interval is not a multiple of the interval
        // of the domain below.
        let jiffies = jiffies.saturating_sub(u64::from(busy));
        jiffies.clamp(1, max)
    }
}

/// Performs periodic balancing if it is due, and kicks an idle CPU for nohz idle balancing if
/// necessary. Called from the tick.
pub(crate) fn trigger_load_balance(m: &mut Machine, cpu: CpuId) {
    if m.ext.switching_all || m.domains.levels[cpu.index()].is_empty() {
        return;
    }
    let jiffies = m.jiffies();
    let due = jiffies >= m.rqs[cpu].fair.next_balance;
    let flags = kick_flags(m, cpu, jiffies);
    if flags != 0 {
        kick(m, jiffies, flags);
    }
    if due {
        raise_softirq(m, cpu, false);
    }
}

/// Requests balancing in the softirq SCHED_SOFTIRQ, which comes after the tick. On a stepped machine,
/// the same interrupt may handle other timers before.
fn raise_softirq(m: &mut Machine, cpu: CpuId, idle: bool) {
    match m.stepped.as_deref_mut() {
        Some(stepped) => stepped.softirq = Some(idle),
        None => balance_softirq(m, cpu, idle),
    }
}

/// Balances the domains of `cpu` that are due (sched_balance_softirq). `idle` is whether the CPU was idle
/// at the tick.
pub(crate) fn balance_softirq(m: &mut Machine, cpu: CpuId, idle: bool) {
    m.charge_here(u64::from(m.spec.costs.softirq_ns));
    m.update_blocked_averages(cpu);
    let kind = if idle { IdleType::Idle } else { IdleType::Busy };
    balance_domains(m, cpu, kind);
}

/// Balances those domains of `cpu` that are due (sched_balance_domains). The work is done and
/// charged on `m.this_cpu`.
fn balance_domains(m: &mut Machine, cpu: CpuId, idle: IdleType) {
    let (jiffies, tick_ns, nr_cpus) = (m.jiffies(), m.tick_ns(), m.nr_cpus());
    let mut idle = idle;
    let mut busy = idle == IdleType::Busy && !sched_idle_cpu(m, cpu);
    let mut next_balance = jiffies + 60 * 1_000_000_000 / tick_ns;
    let mut continue_balancing = true;
    let mut decayed = false;
    let mut max_cost = 0;
    for level in 0..m.domains.levels[cpu.index()].len() {
        let now = m.now;
        let domain = &mut m.domains.levels[cpu.index()][level];
        decayed = domain.update_newidle_cost(now, 0, u64::MAX);
        max_cost += domain.max_newidle_lb_cost;
        if !continue_balancing {
            if decayed {
                continue;
            }
            break;
        }
        let mut interval = domain.interval_jiffies(tick_ns, nr_cpus, busy);
        if jiffies >= domain.last_balance + interval {
            if balance_rq(m, cpu, level, idle, &mut continue_balancing) > 0 {
                let still = m.rqs[cpu].idle() && m.rqs[cpu].nr_running == 0;
                idle = if still { IdleType::Idle } else { IdleType::Busy };
                busy = !still && !sched_idle_cpu(m, cpu);
            }
            let domain = &mut m.domains.levels[cpu.index()][level];
            domain.last_balance = jiffies;
            interval = domain.interval_jiffies(tick_ns, nr_cpus, busy);
        }
        next_balance = next_balance.min(m.domains.levels[cpu.index()][level].last_balance + interval);
    }
    let rq = &mut m.rqs[cpu].fair;
    if decayed {
        rq.max_idle_balance_cost = max_cost.max(MIGRATION_COST);
    }
    rq.next_balance = next_balance;
}

/// Returns what idle CPUs should be asked to do (nohz_balancer_kick): update the load of idle CPUs
/// if that is due, and pull tasks if this CPU is so busy that others could help.
fn kick_flags(m: &mut Machine, cpu: CpuId, jiffies: u64) -> u8 {
    // This is the first tick since the CPU became busy.
    m.domains.nohz.exit_idle(cpu);
    let nohz = &m.domains.nohz;
    let mut flags = 0;
    if nohz.has_blocked_load && jiffies > nohz.next_blocked {
        flags = STATS;
    }
    if jiffies >= nohz.next_balance {
        if nohz.idle.is_empty() {
            return 0;
        }
        if should_pull(m, cpu) {
            flags = STATS | BALANCE;
        }
    }
    if m.domains.nohz.needs_update {
        flags |= NEXT;
    }
    flags
}

/// Returns whether this CPU is so busy that idle CPUs should pull tasks from it.
fn should_pull(m: &Machine, cpu: CpuId) -> bool {
    let rq = &m.rqs[cpu];
    if rq.nr_running >= 2 {
        return true;
    }
    let pct = m.domains.domain_span(cpu, 0).imbalance_pct;
    if rq.fair.cfs.h_nr_runnable >= 1 && m.capacity_of(cpu) * pct < m.arch_capacity(cpu) * 100 {
        return true;
    }
    let (idle, counted_busy) = (&m.domains.nohz.idle, &m.domains.nohz.counted_busy);
    if let Some(span) = m.domains.asym_packing_span(cpu)
        && idle
            .iter()
            .any(|idle| span.set.contains(idle) && sched_asym(m, span, idle, cpu))
    {
        return true;
    }
    if m.domains.asym_span(cpu).is_some() {
        return rq.fair.misfit_task_load > 0;
    }
    // If other CPUs of this LLC are busy as well, idle CPUs in another LLC could help.
    let llc = &m.domains.llcs[m.domains.llc_index[cpu.index()] as usize];
    llc.weight > 1 && llc.weight - llc.set.weight_and(idle) + llc.set.weight_and(counted_busy) > 1
}

/// Returns the idle CPU that balances on behalf of all idle CPUs: the first one on an idle core, or
/// else the first one (find_new_ilb).
fn find_new_ilb(m: &Machine) -> Option<CpuId> {
    let mut fallback = None;
    let mut at = m.domains.nohz.idle.first();
    while let Some(cpu) = at {
        at = m.domains.nohz.idle.next(cpu.nr() + 1);
        if m.nohz_full.contains(cpu) || !available_idle_cpu(m, cpu) {
            continue;
        }
        if !m.domains.smt_active || is_core_idle(m, cpu) {
            return Some(cpu);
        }
        fallback = fallback.or(Some(cpu));
    }
    fallback
}

/// Sends an IPI to an idle CPU, which then does the work of `flags` for all idle CPUs (kick_ilb).
fn kick(m: &mut Machine, jiffies: u64, flags: u8) {
    if flags & BALANCE != 0 {
        m.domains.nohz.next_balance = jiffies + 1;
    }
    let Some(ilb) = find_new_ilb(m) else { return };
    let before = m.rqs[ilb].fair.nohz_flags;
    m.rqs[ilb].fair.nohz_flags |= flags;
    if before & KICKS == 0 {
        m.interrupt_cpu(ilb, Event::NohzBalance { cpu: ilb });
    }
}

/// Handles an IPI that was sent for nohz idle balancing or to start the stopper.
pub(crate) fn nohz_balance(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    if let Some(push) = m.rqs[cpu].fair.push.take() {
        detach::active_balance(m, cpu, push);
    }
    let flags = std::mem::take(&mut m.rqs[cpu].fair.nohz_flags);
    if flags & KICKS == 0 || !available_idle_cpu(m, cpu) {
        return;
    }
    m.charge_here(u64::from(m.spec.costs.softirq_ns));
    balance_idle_cpus(m, cpu, flags);
}

/// Does the work of `flags` for the idle CPUs: the other CPUs first, this CPU last
/// (_nohz_idle_balance).
fn balance_idle_cpus(m: &mut Machine, cpu: CpuId, flags: u8) {
    let jiffies = m.jiffies();
    let mut next_balance = jiffies + 60 * 1_000_000_000 / m.tick_ns();
    let mut has_blocked_load = false;
    if flags & STATS != 0 {
        m.domains.nohz.has_blocked_load = false;
    }
    if flags & NEXT != 0 {
        m.domains.nohz.needs_update = false;
    }
    let mut update_next = false;
    let (mut at, mut wrapped) = (m.domains.nohz.idle.next(cpu.nr() + 1), false);
    loop {
        // The search wraps around once and ends at this CPU.
        if at.is_none() && !wrapped {
            (at, wrapped) = (m.domains.nohz.idle.first(), true);
        }
        let Some(idle) = at.filter(|&idle| !wrapped || idle <= cpu) else {
            break;
        };
        at = m.domains.nohz.idle.next(idle.nr() + 1);
        if available_idle_cpu(m, idle) {
            // If this CPU has tasks of its own now, it stops balancing. The next kick makes another
            // CPU continue.
            if m.rqs[cpu].nr_running > 0 {
                m.domains.nohz.has_blocked_load |= flags & STATS != 0;
                m.domains.nohz.needs_update |= flags & NEXT != 0;
                return;
            }
            if flags & STATS != 0 {
                has_blocked_load |= update_stats(m, idle, jiffies);
            }
            if flags & BALANCE != 0 && jiffies >= m.rqs[idle].fair.next_balance {
                balance_domains(m, idle, IdleType::Idle);
            }
            if m.rqs[idle].fair.next_balance < next_balance {
                next_balance = m.rqs[idle].fair.next_balance;
                update_next = true;
            }
        }
    }
    let nohz = &mut m.domains.nohz;
    if update_next {
        nohz.next_balance = next_balance;
    }
    if flags & STATS != 0 {
        nohz.next_blocked = jiffies + BLOCKED_NS.div_ceil(m.tick_ns);
    }
    nohz.has_blocked_load |= has_blocked_load;
}

/// Updates the load of an idle CPU. Returns whether the load is not 0 (update_nohz_stats).
fn update_stats(m: &mut Machine, cpu: CpuId, jiffies: u64) -> bool {
    let rq = &m.rqs[cpu].fair;
    if !rq.has_blocked_load {
        return false;
    }
    if jiffies > rq.last_blocked_update {
        m.update_blocked_averages(cpu);
    }
    m.rqs[cpu].fair.has_blocked_load
}

/// Requests an update of the load of idle CPUs if it is due. The CPU does it when it has become
/// idle (nohz_newidle_balance).
pub(super) fn newidle_stats(m: &mut Machine, cpu: CpuId) {
    let nohz = &m.domains.nohz;
    if m.rqs[cpu].fair.avg_idle >= MIGRATION_COST && nohz.has_blocked_load && m.jiffies() >= nohz.next_blocked {
        m.rqs[cpu].fair.nohz_flags |= NEW_IDLE;
    }
}

/// Handles a CPU that has switched to the idle task: updates the load of idle CPUs if that was
/// requested.
pub(crate) fn nohz_run_idle_balance(m: &mut Machine, cpu: CpuId) {
    super::hrtick::hrtick_cancel(m, cpu);
    let flags = m.rqs[cpu].fair.nohz_flags;
    m.rqs[cpu].fair.nohz_flags = flags & !NEW_IDLE;
    if flags == NEW_IDLE && !m.rqs[cpu].need_resched {
        balance_idle_cpus(m, cpu, STATS);
    }
}

/// Performs periodic balancing in the tick of an idle CPU.
pub(crate) fn idle_tick(m: &mut Machine, cpu: CpuId) {
    if m.domains.levels[cpu].is_empty() || m.jiffies() < m.rqs[cpu].fair.next_balance {
        return;
    }
    raise_softirq(m, cpu, true);
}

/// Handles an idle CPU whose tick stops (nohz_balance_enter_idle).
pub(crate) fn nohz_enter_idle(m: &mut Machine, cpu: CpuId) {
    if !m.rqs[cpu].online {
        return;
    }
    m.rqs[cpu].fair.has_blocked_load = true;
    if m.domains.levels[cpu].is_empty() {
        return;
    }
    if !m.domains.nohz.idle.contains(cpu) {
        m.domains.nohz.idle.insert(cpu);
        m.domains.nohz.needs_update = true;
    }
    m.domains.nohz.has_blocked_load = true;
}
