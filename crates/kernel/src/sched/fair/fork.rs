// SPDX-License-Identifier: GPL-2.0-only
//! Choice of a CPU for a task at fork or exec (sched_balance_find_dst_cpu). The search starts in a
//! large domain. In each domain it selects the idlest group, then continues in the domain one level
//! below.

use super::idle_scan::{available_idle_cpu, sched_idle_cpu};
use super::snapshot::{self, charge_lines};
use crate::layout::SCHED_IDLE;
use crate::machine::Machine;
use crate::sched::fair::state::group::{GroupType, Stats, adjust_numa_imbalance};
use crate::simulation::id::{CpuId, TaskId};

/// Returns the CPU on which `task` should run. The search starts in the current CPU's domain of
/// level `level`.
pub(super) fn find_dst_cpu(m: &mut Machine, task: TaskId, level: usize, prev_cpu: CpuId) -> CpuId {
    if !snapshot::is_usable(m, task) {
        return search(m, task, level, prev_cpu, false);
    }
    let before = m.rqs[m.this_cpu].free_at;
    let cpu = search(m, task, level, prev_cpu, true);
    if cfg!(debug_assertions) {
        let averages = |m: &Machine| m.rqs.iter().map(|rq| rq.fair.cfs.avg).collect::<Vec<_>>();
        let found = (cpu, m.rqs[m.this_cpu].free_at, averages(m));
        let this_cpu = m.this_cpu;
        m.rqs[this_cpu].free_at = before;
        let plain = search(m, task, level, prev_cpu, false);
        let plain = (plain, m.rqs[this_cpu].free_at, averages(m));
        assert_eq!(found, plain, "the snapshot of the CPUs' load is wrong");
    }
    cpu
}

/// Performs [`find_dst_cpu`]. If `use_snapshot` is set, takes the load of CPUs from the snapshot
/// where possible.
fn search(m: &mut Machine, task: TaskId, level: usize, prev_cpu: CpuId, use_snapshot: bool) -> CpuId {
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
        let from_snapshot = use_snapshot && m.domains.domain_span(cpu, at).is_summable;
        let Some(group) = find_dst_group(m, task, cpu, at, from_snapshot) else {
            continue;
        };
        new_cpu = if from_snapshot {
            let normal = m.tasks[task].policy() != SCHED_IDLE;
            snapshot::find_group_cpu(m, m.domains.levels[cpu][at].span, group, normal)
        } else {
            find_dst_group_cpu(m, task, cpu, at, group)
        };
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
        (m.task_h_load(task), m.tasks[task].fair.avg.runnable_avg)
    } else {
        (0, 0)
    };
    let t = &m.tasks[task];
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
    let known = m.domains.capacity(g);
    let imbalance = known.imbalance;
    let mut stats = Stats::new(g, known);
    // A value above 0 means that no CPU examined so far is fast enough for the task.
    stats.misfit_load = u64::from(m.domains.spans[span].asym);
    let from = m.this_cpu;
    let mut examined = [0; 5];
    for i in 0..stats.weight as usize {
        let cpu = m.domains.spans[span].groups[group].cpus[i];
        if !m.tasks[task].cpus.contains(cpu) || !m.online_cpus.contains(cpu) {
            continue;
        }
        examined[m.distance(from, cpu) as usize] += 1;
        add_cpu(m, &mut stats, cpu, task);
    }
    charge_lines(m, examined);
    let span = &m.domains.spans[span];
    stats.classify_for_placement(span.imbalance_pct, imbalance);
    stats
}

/// Returns the statistics of the group `own` of a domain, and the idlest other group with its
/// statistics (update_pick_idlest). Ignores groups whose CPUs the task may not use.
fn find_idlest_group(
    m: &mut Machine,
    task: TaskId,
    span: usize,
    own: usize,
) -> (Option<Stats>, Option<(usize, Stats)>) {
    let nr = m.domains.spans[span].groups.len();
    let mut idlest: Option<(usize, Stats)> = None;
    let mut local = None;
    for i in 0..nr {
        let group = (own + i) % nr;
        let (g, allowed) = (&m.domains.spans[span].groups[group], &m.tasks[task].cpus);
        let usable = match g.cpus[..] {
            [cpu] => allowed.contains(cpu),
            _ => g.set.intersects(allowed),
        };
        if !usable {
            continue;
        }
        let stats = group_stats(m, task, span, group);
        if group == own {
            local = Some(stats);
        } else if idlest.as_ref().is_none_or(|(_, best)| stats.rank() < best.rank()) {
            idlest = Some((group, stats));
        }
    }
    (local, idlest)
}

/// Returns the group in which `task` should be placed, or `None` if it should stay in the group of
/// `cpu`. If `from_snapshot` is set, takes the load of CPUs from the snapshot.
fn find_dst_group(m: &mut Machine, task: TaskId, cpu: CpuId, level: usize, from_snapshot: bool) -> Option<usize> {
    let domain = &m.domains.levels[cpu.index()][level];
    let (span, own) = (domain.span as usize, domain.local as usize);
    let (local, idlest) = if from_snapshot {
        snapshot::refresh(m, span as u32);
        let domains = &m.domains;
        let capacities = &domains.group_capacities;
        let (local, idlest) = domains
            .snapshot
            .idlest(span as u32, &domains.spans[span], own, capacities);
        (Some(local), idlest)
    } else {
        find_idlest_group(m, task, span, own)
    };
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
                let usable = span.groups[own].set.weight_and(&m.tasks[task].cpus);
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
            if since > latest.map_or(0, |(best, _)| best) {
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
