// SPDX-License-Identifier: GPL-2.0-only
//! Choice of a CPU for a task at fork or exec (sched_balance_find_dst_cpu). The search starts in a
//! large domain. In each domain it selects the idlest group, then continues in the domain one level
//! below.

use super::group::{GroupType, Stats, adjust_numa_imbalance};
use super::idle_scan::{available_idle_cpu, sched_idle_cpu};
use crate::layout::SCHED_IDLE;
use crate::simulation::id::{CpuId, TaskId};
use crate::state::machine::Machine;

/// Returns the CPU on which `task` should run. The search starts in the current CPU's domain of
/// level `level`.
pub(super) fn find_dst_cpu(m: &mut Machine, task: TaskId, level: usize, prev_cpu: CpuId) -> CpuId {
    let mut cpu = m.this_cpu;
    let mut new_cpu = cpu;
    if !m.domains.domain_span(cpu, level).set.intersects(&m.tasks[task].cpus) {
        return prev_cpu;
    }
    let mut level = Some(level);
    while let Some(at) = level {
        level = at.checked_sub(1);
        if !m.domains.domain_span(cpu, at).near {
            continue;
        }
        let Some(group) = find_dst_group(m, task, cpu, at) else {
            continue;
        };
        new_cpu = find_dst_group_cpu(m, task, cpu, at, group);
        if new_cpu != cpu {
            // The search continues in the next smaller domain of the selected CPU.
            let weight = m.domains.domain_span(cpu, at).weight;
            cpu = new_cpu;
            let below =
                |i: &usize| m.domains.domain_span(cpu, *i).weight < weight && m.domains.domain_span(cpu, *i).near;
            level = (0..m.domains.levels[cpu.index()].len()).rfind(below);
        }
    }
    new_cpu
}

/// Adds the load of a CPU to the statistics of its group. The contribution of `task` is left out
/// (cpu_load_without and others).
fn add_cpu(m: &mut Machine, stats: &mut Stats, cpu: CpuId, task: TaskId) {
    let t = &m.tasks[task];
    let here = t.cpu() == cpu && !t.fair.avg.detached();
    let (load, runnable) = if here {
        (m.task_h_load(task), t.fair.avg.runnable_avg)
    } else {
        (0, 0)
    };
    let local = u32::from(here && t.on_rq());
    stats.load += m.cpu_load(cpu).saturating_sub(load);
    stats.util += if here {
        m.cpu_util_without(cpu, task)
    } else {
        m.cpu_util(cpu)
    };
    stats.runnable += m.cpu_runnable(cpu).saturating_sub(runnable);
    let rq = &m.rqs[cpu];
    stats.nr_fair += rq.fair.cfs.h_nr_runnable.saturating_sub(local);
    let running = rq.nr_running - local;
    stats.nr_running += running;
    let idle = m.idle_cpus.contains(cpu) || rq.curr == task;
    stats.idle_cpus += u32::from(running == 0 && idle);
    if stats.misfit_load > 0 && m.task_fits_cpu(task, cpu) {
        stats.misfit_load = 0;
    }
}

/// Returns the statistics of a group. The contribution of `task` is left out.
fn group_stats(m: &mut Machine, task: TaskId, span: usize, group: usize) -> Stats {
    let g = &m.domains.spans[span].groups[group];
    let mut stats = Stats::new(g);
    // A value above 0 means that no CPU examined so far is fast enough for the task.
    stats.misfit_load = u64::from(m.domains.spans[span].asym);
    let from = m.this_cpu;
    for i in 0..stats.weight as usize {
        let cpu = m.domains.spans[span].groups[group].cpus[i];
        stats.add_capacity(m.capacity_of(cpu));
        if !m.tasks[task].cpus.contains(cpu) || !m.online_cpus.contains(cpu) {
            continue;
        }
        let line = m.spec.costs.cache_line.at(m.distance(from, cpu));
        m.charge_here(line);
        add_cpu(m, &mut stats, cpu, task);
    }
    stats.classify(&m.domains.spans[span], &m.domains.spans[span].groups[group]);
    if matches!(stats.kind, GroupType::FullyBusy | GroupType::Overloaded) {
        stats.set_avg_load();
    }
    stats
}

/// Returns whether group `a` is idler than group `idlest` (update_pick_idlest).
fn is_idler(a: &Stats, idlest: &Stats) -> bool {
    if a.kind != idlest.kind {
        return a.kind < idlest.kind;
    }
    match a.kind {
        GroupType::Overloaded | GroupType::FullyBusy => a.avg_load < idlest.avg_load,
        GroupType::MisfitTask => a.max_capacity > idlest.max_capacity,
        GroupType::HasSpare => {
            a.idle_cpus > idlest.idle_cpus || (a.idle_cpus == idlest.idle_cpus && a.util < idlest.util)
        }
        GroupType::LlcBalance | GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
    }
}

/// Returns the group in which `task` should be placed, or `None` if it should stay in the group of
/// `cpu`.
fn find_dst_group(m: &mut Machine, task: TaskId, cpu: CpuId, level: usize) -> Option<usize> {
    let domain = &m.domains.levels[cpu.index()][level];
    let (span, own) = (domain.span as usize, domain.local as usize);
    let nr = m.domains.spans[span].groups.len();
    let mut idlest: Option<(usize, Stats)> = None;
    let mut local = None;
    for i in 0..nr {
        let group = (own + i) % nr;
        if !m.domains.spans[span].groups[group].set.intersects(&m.tasks[task].cpus) {
            continue;
        }
        let stats = group_stats(m, task, span, group);
        if group == own {
            local = Some(stats);
        } else if idlest.as_ref().is_none_or(|(_, best)| is_idler(&stats, best)) {
            idlest = Some((group, stats));
        }
    }
    let (group, idlest) = idlest?;
    let Some(local) = local else { return Some(group) };
    if local.kind != idlest.kind {
        return (local.kind > idlest.kind).then_some(group);
    }
    let span = &m.domains.spans[span];
    if span.numa && local.kind == GroupType::HasSpare && m.numa.active() {
        // A task with a preferred node stays on it or goes there if this node has spare capacity.
        let preferred = m.numa_preferred(task);
        let node = |cpu: CpuId| m.spec.topology.cpus[cpu.index()].node;
        if node(cpu) == preferred {
            return None;
        }
        if node(span.groups[group].cpus[0]) == preferred {
            return Some(group);
        }
    }
    let push = match local.kind {
        GroupType::Overloaded | GroupType::FullyBusy => {
            let imbalance = 1024 * (span.imbalance_pct - 100) / 100;
            !(span.numa && idlest.avg_load + imbalance >= local.avg_load)
                && idlest.avg_load < local.avg_load + imbalance
                && 100 * local.avg_load > span.imbalance_pct * idlest.avg_load
        }
        GroupType::MisfitTask => local.max_capacity < idlest.max_capacity,
        GroupType::HasSpare => {
            let mut far = true;
            if span.numa {
                let allowed = &m.tasks[task].cpus;
                let usable = span.groups[own]
                    .cpus
                    .iter()
                    .filter(|&&cpu| allowed.contains(cpu))
                    .count() as u32;
                let imbalance = i64::from(local.idle_cpus).abs_diff(i64::from(idlest.idle_cpus)) as i64;
                far = adjust_numa_imbalance(imbalance, local.nr_running + 1, span.imb_numa_nr.min(usable)) != 0;
            }
            far && local.idle_cpus < idlest.idle_cpus
        }
        GroupType::LlcBalance | GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
    };
    push.then_some(group)
}

/// Returns, among the CPUs of the group, the CPU that became idle most recently, or a CPU that runs
/// only SCHED_IDLE tasks. If the group has no such CPU, returns the CPU with the least load.
fn find_dst_group_cpu(m: &mut Machine, task: TaskId, this_cpu: CpuId, level: usize, group: usize) -> CpuId {
    let span = m.domains.levels[this_cpu.index()][level].span as usize;
    let nr = m.domains.spans[span].groups[group].cpus.len();
    if nr == 1 {
        return m.domains.spans[span].groups[group].cpus[0];
    }
    let normal = m.tasks[task].policy() != SCHED_IDLE;
    let mut latest: Option<(u64, CpuId)> = None;
    let mut least = (u64::MAX, this_cpu);
    for i in 0..nr {
        let cpu = m.domains.spans[span].groups[group].cpus[i];
        if !m.tasks[task].cpus.contains(cpu) || !m.online_cpus.contains(cpu) {
            continue;
        }
        if normal && sched_idle_cpu(m, cpu) {
            return cpu;
        }
        if available_idle_cpu(m, cpu) {
            let since = m.rqs[cpu].idle_since;
            if latest.is_none_or(|(best, _)| since > best) {
                latest = Some((since, cpu));
            }
        } else if latest.is_none() {
            let load = m.cpu_load(cpu);
            if load < least.0 {
                least = (load, cpu);
            }
        }
    }
    latest.map_or(least.1, |(_, cpu)| cpu)
}
