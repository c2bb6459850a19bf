// SPDX-License-Identifier: GPL-2.0-only
//! Search for an idle CPU that shares a cache with a given CPU (select_idle_sibling and the
//! functions it calls).
//!
//! The kernel examines CPU after CPU. Bit sets find the same CPU faster here, and the simulated CPU
//! is charged for those that the kernel would have examined.

use super::load::fits_capacity;
use crate::layout::SCHED_IDLE;
use crate::machine::Machine;
use crate::sched::fair::state::domains::Llc;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, TaskId};
use machine::{Distance, Feature};

/// Records in the LLC that a core has become idle, if all other threads of the core are idle while
/// `cpu` becomes idle (__update_idle_core).
pub(crate) fn update_idle_core(m: &mut Machine, cpu: CpuId) {
    if !m.domains.smt_active || m.domains.llc(cpu).has_idle_cores {
        return;
    }
    if m.siblings(cpu)
        .all(|sibling| sibling == cpu || available_idle_cpu(m, sibling))
    {
        m.domains.llc(cpu).has_idle_cores = true;
    }
}

/// Returns whether a CPU is idle and no task is about to run there (idle_cpu).
pub(super) fn available_idle_cpu(m: &Machine, cpu: CpuId) -> bool {
    m.idle_cpus.contains(cpu) && m.rqs[cpu].nr_running == 0 && m.online_cpus.contains(cpu)
}

/// Returns whether a CPU has tasks and all of them have the policy SCHED_IDLE (sched_idle_rq).
pub(super) fn sched_idle_cpu(m: &Machine, cpu: CpuId) -> bool {
    let rq = &m.rqs[cpu];
    // The stopper counts as a running task.
    rq.nr_running > 0 && rq.nr_running == rq.fair.cfs.h_nr_idle && !rq.stopping
}

/// Returns whether `task` could run on a CPU immediately: the CPU is idle or has only SCHED_IDLE
/// tasks (choose_idle_cpu).
pub(super) fn choose_idle_cpu(m: &Machine, cpu: CpuId, task: TaskId) -> bool {
    available_idle_cpu(m, cpu) || (m.tasks[task].policy() != SCHED_IDLE && sched_idle_cpu(m, cpu))
}

/// Returns whether all other threads of a CPU's core are idle (is_core_idle).
pub(super) fn is_core_idle(m: &Machine, cpu: CpuId) -> bool {
    m.siblings(cpu)
        .all(|sibling| sibling == cpu || available_idle_cpu(m, sibling))
}

/// Charges the current CPU for the examination of `nr` CPUs of the LLC.
fn charge_scan(m: &mut Machine, nr: u32) {
    let line = m.spec.costs.cache_line.at(Distance::Llc);
    m.charge_here(u64::from(nr) * line);
}

/// Returns an idle CPU that shares a cache with `target`. If there is none, returns `target`
/// (select_idle_sibling).
pub(super) fn select_idle_sibling(m: &mut Machine, task: TaskId, prev: CpuId, target: CpuId) -> CpuId {
    let util = if m.domains.asym {
        m.sync_entity_load_avg(task);
        Some(m.tasks[task].fair.util())
    } else {
        None
    };
    let good = |m: &Machine, cpu: CpuId| choose_idle_cpu(m, cpu, task) && asym_fits_cpu(m, util, cpu);
    // An offline CPU is idle as well. select_fallback_rq() then replaces it.
    let offline = !m.online_cpus.contains(target) && asym_fits_cpu(m, util, target);
    if offline || good(m, target) {
        return target;
    }
    if prev != target && m.domains.share_cache(prev, target) && good(m, prev) {
        return prev;
    }
    let recent = m.tasks[task].replace_recent_used_cpu(prev);
    if recent != prev
        && recent != target
        && m.domains.share_cache(recent, target)
        && m.tasks[task].cpus.contains(recent)
        && good(m, recent)
    {
        return recent;
    }
    if let Some(util) = util
        && m.domains.asym_span(target).is_some()
    {
        return select_idle_capacity(m, task, util, target).unwrap_or(target);
    }
    if m.domains.llc(target).weight == 1 {
        return target;
    }
    let has_idle_core = m.domains.smt_active && m.domains.llc(target).has_idle_cores;
    if m.domains.smt_active
        && !has_idle_core
        && m.domains.share_cache(prev, target)
        && let Some(cpu) = select_idle_smt(m, task, prev)
    {
        return cpu;
    }
    let found = match has_idle_core {
        true => select_idle_core(m, task, target),
        false => select_idle_cpu(m, task, target),
    };
    found.unwrap_or(target)
}

/// Returns whether a CPU can run a task with the utilization `util` (asym_fits_cpu). The CPU must
/// be fast enough, and the other threads of its core must be idle.
fn asym_fits_cpu(m: &Machine, util: Option<u64>, cpu: CpuId) -> bool {
    util.is_none_or(|util| (!m.domains.smt_active || is_core_idle(m, cpu)) && fits_capacity(util, m.capacity_of(cpu)))
}

/// Returns an idle thread on the core of `prev` (select_idle_smt).
fn select_idle_smt(m: &Machine, task: TaskId, prev: CpuId) -> Option<CpuId> {
    let allowed = &m.tasks[task].cpus;
    m.siblings(prev)
        .filter(|&cpu| cpu != prev && allowed.contains(cpu))
        .find(|&cpu| choose_idle_cpu(m, cpu, task))
}

/// Returns the word of `set` with this index: one bit for each of 64 CPUs.
fn word(set: &CpuSet, index: usize) -> u64 {
    set.words()[index]
}

/// Returns the number of CPUs of an LLC that the search for an idle CPU may examine.
fn scan_limit(m: &Machine, llc: &Llc) -> u32 {
    match m.sched_feat(Feature::SisUtil) {
        true => llc.nr_idle_scan,
        false => u32::MAX,
    }
}

/// Searches the LLC of `target` for an idle CPU (select_idle_cpu). The search starts at the CPU
/// after `target` and wraps around. It examines at most `nr_idle_scan` CPUs and returns the first idle
/// CPU among them.
fn select_idle_cpu(m: &mut Machine, task: TaskId, target: CpuId) -> Option<CpuId> {
    let llc = &m.domains.llcs[m.domains.llc_index[target.index()] as usize];
    let limit = scan_limit(m, llc);
    if limit == 0 {
        return None;
    }
    let allowed = &m.tasks[task].cpus;
    let from = (target.nr() + 1) % m.nr_cpus();
    let (low, nr) = (llc.words.start, llc.words.len());
    // Index of the first word, counted from `low`, and the bits in it that are visited last. If CPU
    // `from` is in none of the LLC's words, the search visits each word once.
    let (first, last_bits) = match (from as usize / 64).checked_sub(low) {
        Some(first) if first < nr => (first, !(!0 << (from % 64))),
        _ => (0, 0),
    };
    let mut looked = 0;
    let mut found = None;
    // The word that contains the bit of CPU `from` is visited twice: first its upper part, and at
    // the end its lower part.
    'scan: for turn in 0..=nr {
        let index = low + (first + turn) % nr;
        let part = match turn {
            0 => !last_bits,
            t if t == nr => last_bits,
            _ => !0,
        };
        let scanned = word(&llc.set, index) & word(allowed, index) & part;
        let mut good = scanned & (word(&m.idle_cpus, index) | word(&m.domains.idle_policy_cpus, index));
        while good != 0 {
            let bit = good.trailing_zeros();
            good &= good - 1;
            let cpu = CpuSet::member(index, 1 << bit);
            let before = (scanned & ((1 << bit) - 1)).count_ones();
            if looked + before >= limit {
                break 'scan;
            }
            if choose_idle_cpu(m, cpu, task) {
                found = Some(cpu);
                looked += before + 1;
                break 'scan;
            }
        }
        looked += scanned.count_ones();
    }
    charge_scan(m, looked.min(limit));
    found
}

/// Searches the whole LLC of `target` for a fully idle core (select_idle_cpu, select_idle_core). The
/// search starts at the CPU after `target` and wraps around. If the LLC has no such core, returns the
/// first idle CPU of the first core that has one.
fn select_idle_core(m: &mut Machine, task: TaskId, target: CpuId) -> Option<CpuId> {
    let llc = &m.domains.llcs[m.domains.llc_index[target.index()] as usize];
    if scan_limit(m, llc) == 0 {
        return None;
    }
    let (set, allowed) = (&llc.set, &m.tasks[task].cpus);
    let mut seen = CpuSet::empty(m.nr_cpus());
    let (mut looked, mut fallback, mut found) = (0, None, None);
    let (mut at, mut wrapped) = (set.next_and(allowed, target.nr() + 1), false);
    loop {
        if at.is_none() && !wrapped {
            (at, wrapped) = (set.next_and(allowed, 0), true);
        }
        let Some(cpu) = at.filter(|&cpu| !wrapped || cpu <= target) else {
            break;
        };
        at = set.next_and(allowed, cpu.nr() + 1);
        looked += 1;
        if seen.contains(cpu) {
            continue;
        }
        let mut idle = true;
        for sibling in m.siblings(cpu) {
            seen.insert(sibling);
            let usable = set.contains(sibling) && allowed.contains(sibling);
            if !available_idle_cpu(m, sibling) {
                idle = false;
                if fallback.is_some() {
                    break;
                }
                if usable && choose_idle_cpu(m, sibling, task) {
                    fallback = Some(sibling);
                    break;
                }
            } else if usable {
                fallback = fallback.or(Some(sibling));
            }
        }
        if idle {
            found = Some(cpu);
            break;
        }
        m.siblings(cpu).for_each(|sibling| seen.insert(sibling));
    }
    charge_scan(m, looked);
    if found.is_none() {
        m.domains.llc(target).has_idle_cores = false;
    }
    found.or(fallback)
}

/// Returns the best idle CPU for a task on a machine whose CPUs differ in capacity
/// (select_idle_capacity). The best CPU is on a fully idle core and fast enough for the task.
fn select_idle_capacity(m: &mut Machine, task: TaskId, util: u64, target: CpuId) -> Option<CpuId> {
    let has_idle_core = m.domains.smt_active && m.domains.llc(target).has_idle_cores;
    let llc = &m.domains.llcs[m.domains.llc_index[target.index()] as usize];
    let mut left = scan_limit(m, llc);
    if left == 0 {
        return None;
    }
    let span = m.domains.asym_span(target)?;
    let allowed = &m.tasks[task].cpus;
    // A lower rank is better: -4 for a CPU that is on a fully idle core and fast enough, which ends
    // the search; -3 for a CPU on a fully idle core that is too slow; -2 for any other CPU that is
    // fast enough; 0 for any other CPU that is too slow. If the LLC has no fully idle core, every
    // CPU is ranked like one on a fully idle core.
    let (mut best, mut best_rank, mut best_capacity) = (None, 0, 0);
    let mut looked = 0;
    let mut cpu = span
        .set
        .next_and(allowed, target.nr())
        .or_else(|| span.set.next_and(allowed, 0));
    let first = cpu;
    while let Some(at) = cpu {
        looked += 1;
        if !has_idle_core {
            if left == 0 {
                break;
            }
            left -= 1;
        }
        if choose_idle_cpu(m, at, task) {
            let preferred = !has_idle_core || is_core_idle(m, at);
            let fits = fits_capacity(util, m.capacity_of(at));
            if fits && preferred {
                best = Some(at);
                best_rank = -4;
                break;
            }
            let rank = if preferred {
                -3
            } else if fits {
                -2
            } else {
                0
            };
            let capacity = m.capacity_of(at);
            if rank < best_rank || (rank == best_rank && capacity > best_capacity) {
                (best, best_rank, best_capacity) = (Some(at), rank, capacity);
            }
        }
        cpu = span
            .set
            .next_and(allowed, at.nr() + 1)
            .or_else(|| span.set.next_and(allowed, 0));
        if cpu == first {
            break;
        }
    }
    charge_scan(m, looked);
    if has_idle_core && best_rank > -3 {
        m.domains.llc(target).has_idle_cores = false;
    }
    best
}
