// SPDX-License-Identifier: GPL-2.0-only
//! New-idle balancing: a CPU that is about to become idle tries to pull tasks from other CPUs
//! (sched_balance_newidle).
//!
//! A domain is balanced only if the expected idle time is longer than the time that balancing
//! takes. Domains in which new-idle balancing has seldom succeeded are skipped at random.

use super::balance::balance_rq;
use super::lb_env::IdleType;
use super::nohz;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::domains::Level;
use crate::sched::fair::state::entity::MIGRATION_COST;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::timeline::LockId;
use machine::Feature;

const SECOND_NS: u64 = 1_000_000_000;
/// Largest recorded cost of a domain if failed attempts raise it, ns (Linux 6.17).
const MAX_RAISED_NS: u64 = MIGRATION_COST + 200;

/// Tries to pull tasks to `cpu`, which has no fair task. Returns whether `cpu` has a fair task
/// afterwards.
pub(super) fn balance(m: &mut Machine, cpu: CpuId) -> bool {
    m.update_misfit_status(cpu, IDLE);
    if !m.rqs[cpu].wake_list.is_empty() {
        return false;
    }
    m.rqs[cpu].fair.idle_stamp = m.now.max(1);
    if !m.online_cpus.contains(cpu) {
        return false;
    }
    let jiffies = m.jiffies();
    let mut next_balance = jiffies + SECOND_NS / m.tick_ns();
    let avg_idle = m.rqs[cpu].fair.avg_idle;
    let pulled = match m.domains.levels[cpu.index()].first() {
        None => 0,
        Some(level) if !m.domains.overloaded || avg_idle < level.max_newidle_lb_cost => {
            let next = level.last_balance + level.interval_jiffies(m.tick_ns(), m.nr_cpus(), false);
            next_balance = next_balance.min(next);
            0
        }
        Some(_) => {
            let rq = &mut m.rqs[cpu];
            rq.next_class = rq.next_class.max(Class::Fair);
            m.unlock(LockId::Rq(cpu));
            let start = m.local_time(cpu);
            m.update_blocked_averages(cpu);
            let pulled = pull_from_domains(m, cpu, avg_idle, start, &mut next_balance);
            m.lock(LockId::Rq(cpu));
            pulled
        }
    };
    let rq = &mut m.rqs[cpu].fair;
    rq.next_balance = rq.next_balance.min(next_balance);
    let found = pulled > 0 || rq.cfs.h_nr_queued > 0;
    if found {
        rq.idle_stamp = 0;
    } else {
        nohz::newidle_stats(m, cpu);
    }
    found
}

/// Balances the domains of `cpu`, smallest first, until a task is pulled. Returns the number of
/// pulled tasks.
///
/// The cost of a domain is the time since the end of the previous domain. New-idle balancing began
/// at `start`, so the cost of the first domain includes the update of the CPU's load averages.
fn pull_from_domains(m: &mut Machine, cpu: CpuId, avg_idle: u64, mut start: u64, next_balance: &mut u64) -> u32 {
    let mut total_cost = 0;
    let mut continue_balancing = true;
    let mut pulled = 0;
    let (rate, raises) = (m.sched_feat(Feature::NiRate), m.spec.kernel.newidle_raises);
    for level in 0..m.domains.levels[cpu.index()].len() {
        let domain = &m.domains.levels[cpu.index()][level];
        let interval = domain.interval_jiffies(m.tick_ns(), m.nr_cpus(), false);
        *next_balance = (*next_balance).min(domain.last_balance + interval);
        if avg_idle < total_cost + domain.max_newidle_lb_cost {
            break;
        }
        let mut weight = 1;
        if domain.newidle_ratio < 1024 && m.sched_feat(Feature::NiRandom) {
            weight = 1 + domain.newidle_ratio;
            if m.domains.rng[cpu].next() % 1024 > weight {
                let now = m.now;
                m.domains.levels[cpu.index()][level].count_newidle(now, 0, rate);
                continue;
            }
            weight = (1024 + weight / 2) / weight;
        }
        pulled = balance_rq(m, cpu, level, IdleType::NewlyIdle, &mut continue_balancing);
        let end = m.local_time(cpu);
        let cost = end - start;
        start = end;
        total_cost += cost;
        let now = m.now;
        let domain = &mut m.domains.levels[cpu.index()][level];
        if cost > 0 {
            domain.count_newidle(now, if pulled > 0 { weight } else { 0 }, rate);
        }
        if !raises {
            domain.update_newidle_cost(now, cost, u64::MAX);
        } else if pulled > 0 {
            domain.update_newidle_cost(now, cost, MAX_RAISED_NS);
        } else {
            domain.update_newidle_cost(now, 3 * domain.max_newidle_lb_cost / 2, MAX_RAISED_NS);
        }
        if pulled > 0 || !continue_balancing {
            break;
        }
    }
    let rq = &mut m.rqs[cpu].fair;
    rq.max_idle_balance_cost = rq.max_idle_balance_cost.max(total_cost);
    pulled
}

/// Updates the average idle time of a CPU when it runs a task again (update_rq_avg_idle).
pub(crate) fn exit_idle(m: &mut Machine, cpu: CpuId) {
    let now = m.now;
    let rq = &mut m.rqs[cpu].fair;
    if rq.idle_stamp == 0 {
        return;
    }
    let idle = now - rq.idle_stamp.min(now);
    rq.idle_stamp = 0;
    let diff = (idle as i64 - rq.avg_idle as i64) / 8;
    rq.avg_idle = rq
        .avg_idle
        .saturating_add_signed(diff)
        .min(2 * rq.max_idle_balance_cost.max(MIGRATION_COST));
}

impl Level {
    /// Counts an attempt of new-idle balancing. Updates the success rate after every 512 attempts.
    /// `success` is 0 if the attempt failed or was skipped. A successful attempt counts as
    /// several, if attempts are skipped at random: then `success` is 1 + `newidle_ratio`. `by_rate` says
    /// whether the success rate of rare attempts is increased (NI_RATE).
    pub(super) fn count_newidle(&mut self, now: u64, success: u32, by_rate: bool) {
        self.newidle_call += 1;
        self.newidle_success += success;
        if self.newidle_call < 1024 {
            return;
        }
        // The more time has passed during the last 512 attempts, the more is added to the success
        // rate. A CPU whose attempts are rare therefore skips fewer of them, even if many fail.
        let rate = match by_rate {
            true => ((now - self.newidle_stamp_ns) >> 22).min(1024) as u32,
            false => 0,
        };
        self.newidle_stamp_ns = now;
        self.newidle_ratio = (rate + self.newidle_success).min(1024);
        self.newidle_call /= 2;
        self.newidle_success /= 2;
    }

    /// Records the cost of an attempt in this domain, if `cost` is not 0. The recorded maximum is at
    /// most `limit`, and decays by 1 % each second. Returns whether it has decayed in this call.
    pub(super) fn update_newidle_cost(&mut self, now: u64, cost: u64, limit: u64) -> bool {
        if cost > self.max_newidle_lb_cost {
            self.max_newidle_lb_cost = cost.min(limit);
            self.last_decay = now;
        } else if now > self.last_decay + SECOND_NS {
            self.max_newidle_lb_cost = self.max_newidle_lb_cost * 253 / 256;
            self.last_decay = now;
            return true;
        }
        false
    }
}
