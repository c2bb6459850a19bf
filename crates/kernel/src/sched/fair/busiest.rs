// SPDX-License-Identifier: GPL-2.0-only
//! Finds the busiest group of a scheduling domain and the busiest CPU of that group, and calculates
//! how much load to move from there.

use super::idle_scan::is_core_idle;
use super::lb_env::{Env, IdleType, Migrate, Preference};
use super::load::capacity_greater;
use super::numa;
use super::sched_cache;
use crate::machine::Machine;
use crate::sched::fair::state::domains::{Group, GroupCapacity, Span};
use crate::sched::fair::state::group::{GroupType, Stats, adjust_numa_imbalance};
use crate::simulation::id::CpuId;

/// Statistics of a whole domain (struct sd_lb_stats).
struct SpanStats {
    busiest: Option<(usize, Stats)>,
    local: Stats,
    total_load: u64,
    total_capacity: u64,
}

/// Returns the number of runnable tasks of a CPU. The stopper of a different CPU counts, even if active
/// balancing has only woken it.
pub(super) fn nr_running(m: &Machine, cpu: CpuId) -> u32 {
    let rq = &m.rqs[cpu];
    let stopped = rq.stopping && cpu != m.this_cpu;
    rq.nr_running + u32::from(rq.fair.push.is_some()) + u32::from(stopped)
}

/// Returns the statistics of a group (update_sg_lb_stats). Charges the current CPU for examining
/// each CPU, and for the transfer of one cache line from it.
pub(super) fn group_stats(m: &mut Machine, env: &Env, index: usize, local: bool) -> Stats {
    let domain = &m.domains.levels[env.cpu.index()][env.level];
    let top = env.level + 1 == m.domains.levels[env.cpu.index()].len();
    let span = domain.span as usize;
    let group = &m.domains.spans[span].groups[index];
    let known = m.domains.capacity(group);
    let imbalance = known.imbalance;
    let mut stats = Stats::new(group, known);
    let asym = m.domains.spans[span].asym;
    let pct = m.domains.spans[span].imbalance_pct;
    let numa = m.numa.active() && m.domains.spans[span].numa;
    let from = m.this_cpu;
    let dst_capacity = m.capacity_of(env.dst_cpu);
    let mut cost = 0;
    for i in 0..stats.weight as usize {
        let cpu = m.domains.spans[span].groups[index].cpus[i];
        let capacity = m.capacity_of(cpu);
        if !env.usable(m, cpu) {
            continue;
        }
        cost += m.spec.costs.cache_line.at(m.distance(from, cpu)) + u64::from(m.spec.costs.balance_cpu_ns);
        let load = m.cpu_load(cpu);
        stats.load += load;
        stats.util += m.cpu_util(cpu);
        stats.runnable += m.cpu_runnable(cpu);
        stats.nr_preferring += sched_cache::nr_preferring(m, cpu, env.dst_cpu);
        let rq = &m.rqs[cpu];
        stats.nr_fair += rq.fair.cfs.h_nr_runnable;
        let nr_running = nr_running(m, cpu);
        stats.nr_running += nr_running;
        if nr_running == 0 && m.idle_cpus.contains(cpu) {
            stats.idle_cpus += 1;
            continue;
        }
        let misfit = rq.fair.misfit_task_load;
        let reduced = rq.fair.cfs.h_nr_runnable == 1 && capacity * pct < m.arch_capacity(cpu) * 100;
        if top && nr_running > 1 {
            m.domains.overloaded = true;
        }
        if numa {
            let (nr_numa, nr_preferred) = numa::count_preferences(m, cpu);
            stats.nr_numa += nr_numa;
            stats.nr_preferred += nr_preferred;
        }
        if local {
            continue;
        }
        if asym {
            m.domains.overloaded |= top && misfit > 0;
            // Only a faster CPU can help.
            if capacity_greater(dst_capacity, stats.max_capacity) {
                stats.misfit_load = stats.misfit_load.max(misfit);
            }
        } else if env.idle() && reduced {
            stats.misfit_load = stats.misfit_load.max(load);
        }
    }
    m.charge_here(cost);
    let (span, group) = (&m.domains.spans[span], &m.domains.spans[span].groups[index]);
    stats.asym_packing = !local && env.idle() && stats.nr_fair > 0 && group_asym(m, env, span, group, &stats);
    stats.smt_balance = !local && env.idle() && group.smt && stats.nr_fair > 1;
    stats.llc_balance = !local && sched_cache::llc_balance(m, env, group, &stats);
    stats.classify(span, imbalance);
    if stats.kind == GroupType::Overloaded {
        stats.set_avg_load();
    }
    let first = group.cpus[0];
    sched_cache::record_load(m, env, first, &stats);
    stats
}

/// Returns whether the priorities of CPUs apply to `cpu` in a domain (sched_use_asym_prio). Between
/// cores, they apply only to a CPU whose core is idle.
fn use_asym_prio(m: &Machine, span: &Span, cpu: CpuId) -> bool {
    span.asym_packing && (!m.domains.smt_active || span.smt || is_core_idle(m, cpu))
}

/// Returns whether load should move from CPU `src` to CPU `dst`, because `dst` has a higher priority
/// (sched_asym).
pub(super) fn sched_asym(m: &Machine, span: &Span, dst: CpuId, src: CpuId) -> bool {
    use_asym_prio(m, span, dst) && m.domains.prefers(dst, src)
}

/// Returns whether the CPU that wants to pull has a higher priority than all CPUs of a group
/// (sched_group_asym). A core with several busy threads does not count.
fn group_asym(m: &Machine, env: &Env, span: &Span, group: &Group, stats: &Stats) -> bool {
    if group.smt && stats.weight - stats.idle_cpus != 1 {
        return false;
    }
    sched_asym(m, span, env.dst_cpu, group.preferred)
}

/// Returns whether a running task should be moved, because its CPU has a lower priority or is a
/// thread of a core with several busy threads (asym_active_balance).
pub(super) fn asym_active_balance(m: &Machine, env: &Env) -> bool {
    let span = env.span(m);
    env.idle()
        && use_asym_prio(m, span, env.dst_cpu)
        && (m.domains.prefers(env.dst_cpu, env.src_cpu) || !use_asym_prio(m, span, env.src_cpu))
}

/// Returns the statistics of all groups of the domain (update_sd_lb_stats).
fn span_stats(m: &mut Machine, env: &Env) -> SpanStats {
    let domain = &m.domains.levels[env.cpu.index()][env.level];
    let (span, own) = (domain.span as usize, domain.local as usize);
    let nr = m.domains.spans[span].groups.len();
    if env.level + 1 == m.domains.levels[env.cpu.index()].len() {
        m.domains.overloaded = false;
    }
    let known = m.domains.spans[span].groups[own].capacity as usize;
    if env.idle != IdleType::NewlyIdle || m.jiffies() >= m.domains.group_capacities[known].next_update {
        update_group_capacity(m, env.cpu, env.level);
    }
    let local = group_stats(m, env, own, true);
    let mut all = SpanStats {
        busiest: None,
        local,
        total_load: local.load,
        total_capacity: local.capacity,
    };
    let mut util = local.util;
    for i in 1..nr {
        let index = (own + i) % nr;
        let stats = group_stats(m, env, index, false);
        all.total_load += stats.load;
        all.total_capacity += stats.capacity;
        util += stats.util;
        if is_busier(m, env, &all, index, &stats) {
            all.busiest = Some((index, stats));
        }
    }
    if env.idle != IdleType::NewlyIdle {
        update_idle_scan(m, env, util);
    }
    all
}

/// Calculates the capacity of a CPU's own group in a domain (update_group_capacity). In the smallest
/// domain, the group is the CPU itself.
fn update_group_capacity(m: &mut Machine, cpu: CpuId, level: usize) {
    let domain = &m.domains.levels[cpu][level];
    let next_update = m.jiffies() + domain.interval_jiffies(m.tick_ns(), m.nr_cpus(), false);
    let group = &m.domains.spans[domain.span as usize].groups[domain.local as usize];
    let known = group.capacity as usize;
    let mut updated = GroupCapacity {
        next_update,
        ..m.domains.group_capacities[known]
    };
    let alone = |capacity: u64| (capacity, capacity, capacity);
    if level == 0 {
        m.update_cpu_capacity(cpu);
        updated.set(std::iter::once(alone(m.capacity_of(cpu))));
    } else {
        let child = m.domains.domain_span(cpu, level - 1);
        if child.numa {
            updated.set(group.cpus.iter().map(|&cpu| alone(m.capacity_of(cpu))));
        } else {
            let parts = child.groups.iter().map(|group| m.domains.capacity(group));
            updated.set(parts.map(|part| (part.sum, part.min, part.max)));
        }
    }
    m.domains.group_capacities[known] = updated;
}

/// Sets the number of CPUs of the LLC that the search for an idle CPU examines at a wake-up
/// (update_idle_cpu_scan). The higher the utilization of the LLC is, the lower the number. It is 0
/// if the utilization is 85 % or more.
fn update_idle_scan(m: &mut Machine, env: &Env, util: u64) {
    let span = env.span(m);
    let (weight, pct) = (u64::from(span.weight), span.imbalance_pct);
    let llc = m.domains.llc(env.cpu);
    if u64::from(llc.weight) == weight {
        let x = util / weight;
        let used = (x * x * pct * pct / (10_000 * 1024)).min(1024);
        llc.nr_idle_scan = ((1024 - used) * weight / 1024) as u32;
    }
}

/// Returns whether group `index` is busier than the busiest group found so far
/// (update_sd_pick_busiest).
fn is_busier(m: &Machine, env: &Env, all: &SpanStats, index: usize, stats: &Stats) -> bool {
    if stats.nr_fair == 0 {
        return false;
    }
    let span = env.span(m);
    if span.asym {
        let capacity = m.capacity_of(env.dst_cpu);
        let helps = (!m.domains.smt_active || is_core_idle(m, env.dst_cpu))
            && capacity_greater(capacity, stats.max_capacity)
            && all.local.kind == GroupType::HasSpare;
        if stats.kind == GroupType::MisfitTask && !helps {
            return false;
        }
        // A group of faster CPUs keeps its tasks if they do not compete for CPUs, because they
        // would run slower on this CPU.
        if stats.kind <= GroupType::FullyBusy && capacity_greater(stats.min_capacity, capacity) {
            return false;
        }
    }
    let Some((busiest_index, busiest)) = &all.busiest else {
        return true;
    };
    if stats.kind != busiest.kind {
        return stats.kind > busiest.kind;
    }
    let less_spare = stats.idle_cpus < busiest.idle_cpus
        || (stats.idle_cpus == busiest.idle_cpus && stats.nr_running > busiest.nr_running);
    let (group, busiest_group) = (&span.groups[index], &span.groups[*busiest_index]);
    match stats.kind {
        GroupType::Overloaded => stats.avg_load > busiest.avg_load,
        GroupType::LlcBalance => stats.nr_preferring > busiest.nr_preferring,
        GroupType::Imbalanced => false,
        GroupType::MisfitTask => stats.misfit_load > busiest.misfit_load,
        // The tasks of the CPUs with the lowest priority are moved first.
        GroupType::AsymPacking => m.domains.prefers(busiest_group.preferred, group.preferred),
        GroupType::SmtBalance if stats.idle_cpus != 0 || busiest.idle_cpus != 0 => less_spare,
        GroupType::SmtBalance | GroupType::FullyBusy => !busiest_group.smt,
        GroupType::HasSpare if group.smt != busiest_group.smt => !(group.smt && stats.nr_fair <= 1),
        GroupType::HasSpare => less_spare,
    }
}

/// Returns how many more running tasks the busiest group has than the local group. Groups with
/// different numbers of cores are compared by tasks per core. The result is 0 if the CPU that pulls
/// tasks is busy.
fn sibling_imbalance(env: &Env, busiest: (&Group, &Stats), local: (&Group, &Stats)) -> i64 {
    if !env.idle() || busiest.1.nr_running == 0 {
        return 0;
    }
    let (cores_busiest, cores_local) = (i64::from(busiest.0.cores), i64::from(local.0.cores));
    let (nr_busiest, nr_local) = (i64::from(busiest.1.nr_running), i64::from(local.1.nr_running));
    if cores_busiest == cores_local {
        return (nr_busiest - nr_local).max(0);
    }
    let cores = cores_busiest + cores_local;
    let imbalance = (cores_local * nr_busiest - cores_busiest * nr_local).max(0);
    let imbalance = (2 * imbalance + cores) / cores;
    if imbalance <= 1 && nr_local == 0 && nr_busiest > 1 {
        2
    } else {
        imbalance
    }
}

/// Returns the group from which tasks are pulled. Stores the kind and the size of the imbalance in
/// `env`.
pub(super) fn find_src_group(m: &mut Machine, env: &mut Env) -> Option<usize> {
    let all = span_stats(m, env);
    let (index, busiest) = all.busiest?;
    let local = all.local;
    if m.numa.active() && env.span(m).numa {
        env.preference = numa::classify(busiest.nr_fair, (busiest.nr_numa, busiest.nr_preferred));
    }
    let span = env.span(m);
    let (group, own) = (&span.groups[index], env.local_group(m));
    let imbalance = sibling_imbalance(env, (group, &busiest), (own, &local));
    let average = all.total_load * 1024 / all.total_capacity.max(1);
    if !matches!(
        busiest.kind,
        GroupType::MisfitTask | GroupType::AsymPacking | GroupType::Imbalanced
    ) {
        if local.kind > busiest.kind {
            return None;
        }
        if local.kind == GroupType::Overloaded
            && (local.avg_load >= busiest.avg_load
                || local.avg_load >= average
                || 100 * busiest.avg_load <= span.imbalance_pct * local.avg_load)
        {
            return None;
        }
        let spread = group.prefer_sibling
            && local.kind == GroupType::HasSpare
            && (busiest.kind == GroupType::LlcBalance || imbalance > 1);
        if !spread && busiest.kind != GroupType::Overloaded {
            let unlike = busiest.kind == GroupType::SmtBalance && group.smt != own.smt;
            let even = busiest.weight > 1 && local.idle_cpus <= busiest.idle_cpus + 1;
            if !env.idle() || (!unlike && (even || busiest.nr_fair == 1)) {
                return None;
            }
        }
    }
    let (kind, amount) = amount(env, span, group, &busiest, &local, imbalance, average);
    env.kind = kind;
    env.imbalance = amount;
    (amount > 0).then_some(index)
}

/// Returns the kind and size of the imbalance (calculate_imbalance).
fn amount(
    env: &Env,
    span: &Span,
    group: &Group,
    busiest: &Stats,
    local: &Stats,
    sibling_imbalance: i64,
    average: u64,
) -> (Migrate, i64) {
    match busiest.kind {
        GroupType::MisfitTask if span.asym => return (Migrate::Misfit, 1),
        GroupType::MisfitTask => return (Migrate::Load, busiest.misfit_load as i64),
        GroupType::AsymPacking => return (Migrate::Task, busiest.nr_fair.into()),
        GroupType::SmtBalance | GroupType::Imbalanced => return (Migrate::Task, 1),
        GroupType::LlcBalance => return (Migrate::LlcTask, 1),
        _ => {}
    }
    if local.kind == GroupType::HasSpare {
        if busiest.kind > GroupType::FullyBusy && !span.share_llc {
            let spare = local.capacity.saturating_sub(local.util) as i64;
            return if env.idle() && spare == 0 {
                (Migrate::Task, 1)
            } else {
                (Migrate::Util, spare)
            };
        }
        let mut imbalance = if busiest.weight == 1 || group.prefer_sibling {
            sibling_imbalance
        } else {
            (i64::from(local.idle_cpus) - i64::from(busiest.idle_cpus)).max(0)
        };
        if span.numa {
            imbalance = adjust_numa_imbalance(imbalance, local.nr_running + 1, span.imb_numa_nr);
        }
        return (Migrate::Task, imbalance >> 1);
    }
    let mut local_load = local.avg_load;
    if local.kind < GroupType::Overloaded {
        // The local group could become overloaded by the load that it pulls, so loads are compared.
        local_load = local.load * 1024 / local.capacity.max(1);
        if local_load >= busiest.avg_load || local_load >= average {
            return (Migrate::Load, 0);
        }
    }
    // Linux calculates without signs: if the busiest group has less than the average load, because a
    // group of another type has more, only the room of the local group counts.
    let surplus = busiest.avg_load.wrapping_sub(average).wrapping_mul(busiest.capacity);
    let room = average.wrapping_sub(local_load).wrapping_mul(local.capacity);
    (Migrate::Load, (surplus.min(room) / 1024) as i64)
}

/// Returns the busiest CPU of a group (sched_balance_find_src_rq).
pub(super) fn find_src_rq(m: &mut Machine, env: &Env, group: usize) -> Option<CpuId> {
    let span = m.domains.levels[env.cpu.index()][env.level].span as usize;
    let (asym, pct) = (m.domains.spans[span].asym, m.domains.spans[span].imbalance_pct);
    let dst_capacity = m.capacity_of(env.dst_cpu);
    let mut busiest = None;
    let (mut most, mut most_capacity) = (0, 1);
    for i in 0..m.domains.spans[span].groups[group].cpus.len() {
        let cpu = m.domains.spans[span].groups[group].cpus[i];
        let nr = m.rqs[cpu].fair.cfs.h_nr_runnable;
        if nr == 0 || !env.usable(m, cpu) {
            continue;
        }
        if env.preference < Preference::All {
            let preference = numa::classify(m.rqs[cpu].nr_running, numa::count_preferences(m, cpu));
            if preference > env.preference {
                continue;
            }
        }
        let capacity = m.capacity_of(cpu);
        // Busy SMT siblings reduce the capacity of a CPU.
        let shared = m.domains.smt_active && !is_core_idle(m, cpu);
        if asym && nr == 1 && !shared && !capacity_greater(dst_capacity, capacity) {
            continue;
        }
        // A CPU of higher priority keeps its only task.
        if nr == 1 && sched_asym(m, &m.domains.spans[span], cpu, env.dst_cpu) {
            continue;
        }
        let value = match env.kind {
            Migrate::Load => {
                let load = m.cpu_load(cpu);
                let full = capacity * pct >= m.arch_capacity(cpu) * 100;
                if nr == 1 && load as i64 > env.imbalance && full {
                    continue;
                }
                load
            }
            Migrate::Util if nr <= 1 => continue,
            Migrate::Util => m.cpu_util_boost(cpu),
            Migrate::Task => u64::from(nr),
            Migrate::Misfit => m.rqs[cpu].fair.misfit_task_load,
            Migrate::LlcTask => sched_cache::nr_preferring(m, cpu, env.dst_cpu).into(),
        };
        let capacity = if env.kind == Migrate::Load { capacity } else { 1 };
        if value * most_capacity > most * capacity {
            (most, most_capacity, busiest) = (value, capacity, Some(cpu));
        }
    }
    busiest
}
