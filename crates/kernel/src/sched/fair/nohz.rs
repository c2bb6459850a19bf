// SPDX-License-Identifier: GPL-2.0-only
//! Periodic load balancing, which the tick starts, and balancing on behalf of idle CPUs whose tick
//! is stopped (sched_balance_trigger, nohz).

use super::balance::balance_rq;
use super::busiest::sched_asym;
use super::detach;
use super::idle_scan::{available_idle_cpu, sched_idle_cpu};
use super::lb_env::IdleType;
use crate::machine::Machine;
use crate::sched::fair::state::domains::Level;
use crate::sched::fair::state::entity::MIGRATION_COST;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

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
    if m.domains.nr_queued == 0 || m.domains.levels[cpu.index()].is_empty() {
        return;
    }
    let jiffies = m.jiffies();
    if jiffies >= m.rqs[cpu].fair.next_balance {
        // In Linux, the balancing runs in the softirq SCHED_SOFTIRQ.
        m.charge_here(u64::from(m.spec.costs.softirq_ns));
        balance_domains(m, cpu, IdleType::Busy);
    }
    m.update_blocked_on_idle_cpus();
    if kick_due(m, cpu, jiffies) {
        kick(m, cpu, jiffies);
    }
}

/// Balances those domains of `cpu` that are due (sched_balance_domains). The work is done and
/// charged on `m.this_cpu`.
fn balance_domains(m: &mut Machine, cpu: CpuId, idle: IdleType) {
    let (jiffies, tick_ns, nr_cpus) = (m.jiffies(), m.tick_ns(), m.nr_cpus());
    m.update_blocked_averages(cpu);
    let mut idle = idle;
    let mut busy = idle == IdleType::Busy && !sched_idle_cpu(m, cpu);
    let mut next_balance = jiffies + 60 * 1_000_000_000 / tick_ns;
    let mut continue_balancing = true;
    let mut decayed = false;
    let mut max_cost = 0;
    for level in 0..m.domains.levels[cpu.index()].len() {
        let now = m.now;
        let domain = &mut m.domains.levels[cpu.index()][level];
        decayed = domain.update_newidle_cost(now, 0, 0);
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

/// Returns whether this CPU is so busy that idle CPUs should be asked to pull tasks
/// (nohz_balancer_kick).
fn kick_due(m: &mut Machine, cpu: CpuId, jiffies: u64) -> bool {
    if m.domains.nohz_kicked || jiffies < m.domains.nohz_next_balance || m.idle_cpus.is_empty() {
        return false;
    }
    let rq = &m.rqs[cpu];
    if rq.nr_running >= 2 {
        return true;
    }
    let pct = m.domains.domain_span(cpu, 0).imbalance_pct;
    if rq.fair.cfs.h_nr_runnable >= 1 && m.capacity_of(cpu) * pct < m.arch_capacity(cpu) * 100 {
        return true;
    }
    if let Some(span) = m.domains.asym_packing_span(cpu)
        && m.idle_cpus
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
    let idle: u32 = llc
        .set
        .words()
        .iter()
        .zip(m.idle_cpus.words())
        .map(|(a, b)| (a & b).count_ones())
        .sum();
    llc.weight - idle > 1
}

/// Sends an IPI to the first idle CPU, which then balances on behalf of all idle CPUs.
fn kick(m: &mut Machine, cpu: CpuId, jiffies: u64) {
    m.domains.nohz_next_balance = jiffies + 1;
    let mut ilb = m.idle_cpus.first();
    while let Some(at) = ilb
        && (at == cpu || m.nohz_full.contains(at) || !available_idle_cpu(m, at))
    {
        ilb = m.idle_cpus.next(at.nr() + 1);
    }
    let Some(ilb) = ilb else { return };
    m.domains.nohz_kicked = true;
    m.rqs[ilb].fair.nohz_kicked = true;
    m.interrupt_cpu(ilb, Event::NohzBalance { cpu: ilb });
}

/// Handles an IPI that was sent for nohz idle balancing or to start the stopper.
pub(crate) fn nohz_balance(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    if let Some(dst) = m.rqs[cpu].fair.push_cpu.take() {
        detach::active_balance(m, cpu, dst);
    }
    if !std::mem::take(&mut m.rqs[cpu].fair.nohz_kicked) {
        return;
    }
    m.domains.nohz_kicked = false;
    m.charge_here(u64::from(m.spec.costs.softirq_ns));
    let jiffies = m.jiffies();
    let mut next_balance = jiffies + 60 * 1_000_000_000 / m.tick_ns();
    if !available_idle_cpu(m, cpu) {
        return;
    }
    // The other idle CPUs are balanced first, this CPU last.
    let mut at = m.idle_cpus.next_wrap((cpu.nr() + 1) % m.nr_cpus());
    while let Some(idle) = at {
        if available_idle_cpu(m, idle) {
            // If this CPU has tasks of its own now, it stops balancing. The next kick makes another
            // CPU continue.
            if m.rqs[cpu].nr_running > 0 {
                return;
            }
            if jiffies >= m.rqs[idle].fair.next_balance {
                balance_domains(m, idle, IdleType::Idle);
            }
            next_balance = next_balance.min(m.rqs[idle].fair.next_balance);
        }
        if idle == cpu {
            break;
        }
        let next = m.idle_cpus.next(idle.nr() + 1);
        // The search wraps around once and ends at this CPU.
        at = match next {
            Some(next) if idle < cpu && next > cpu => None,
            Some(next) => Some(next),
            None if idle > cpu => m.idle_cpus.first().filter(|&first| first <= cpu),
            None => None,
        };
    }
    m.domains.nohz_next_balance = next_balance;
}
