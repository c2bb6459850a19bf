// SPDX-License-Identifier: GPL-2.0-only
//! The search for the LLC that a process prefers (task_cache_work).

use super::{advance, forget_work, node_of, preferred_node, process_of, unsuitable};
use crate::layout::{PF_EXITING, PF_KTHREAD};
use crate::machine::Machine;
use crate::sched::fair::state::entity::NICE_0_LOAD;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::Id;

/// Searches for the LLC on which the process of the current task ran most, when the task returns to user
/// space (task_cache_work). The process prefers this LLC if its threads ran there more than twice as
/// much as on the LLC that it preferred before.
pub(crate) fn work(m: &mut Machine, cpu: CpuId, task: TaskId) {
    forget_work(m, task);
    if m.tasks[task].task_struct.flags & PF_EXITING != 0 {
        return;
    }
    let jiffies = m.jiffies();
    let number = m.tasks[task].cache_process;
    let period = m.sched_cache.period;
    let process = process_of(m, task);
    if jiffies < process.next_scan {
        return;
    }
    process.next_scan = jiffies + period;
    let old = process.usage.cpu;
    if unsuitable(m, number, cpu) {
        process_of(m, task).usage.cpu = None;
        return;
    }
    let old_llc = old.map(|cpu| m.domains.llc_index[cpu]);
    let (mut most, mut best, mut old_share, mut running, mut cost) = (0, None, 0, 0, 0);
    for llc in llcs_of(m, &searched(m, cpu, task, old)) {
        let (mut share, mut largest, mut busiest) = (0, 0, None);
        for index in 0..m.spec.topology.llcs[llc as usize].len() {
            let other = CpuId::new(m.spec.topology.llcs[llc as usize][index] as usize);
            if !m.online_cpus.contains(other) {
                continue;
            }
            cost += m.spec.costs.cache_line.at(m.distance(cpu, other));
            let own = occupancy(m, number, other);
            share += own;
            if own > largest {
                (largest, busiest) = (own, Some(other));
            }
            let curr = m.rqs[other].curr;
            let alive = curr != IDLE && m.tasks[curr].task_struct.flags & (PF_KTHREAD | PF_EXITING) == 0;
            running += u64::from(alive && m.tasks[curr].cache_process == number);
        }
        if share > most {
            (most, best) = (share, busiest);
        }
        if Some(llc) == old_llc {
            old_share = share;
        }
    }
    m.charge(cpu, cost);
    let llc_size = u64::from(m.domains.llcs[m.domains.llc_index[cpu] as usize].weight);
    let process = process_of(m, task);
    if most > 2 * old_share {
        process.usage.cpu = best;
    }
    // The average follows faster on small LLCs (update_avg_scale).
    let difference = running.cast_signed() - process.usage.nr_running_avg.cast_signed();
    let step = difference / (llc_size / 4).clamp(2, 8).cast_signed();
    process.usage.nr_running_avg = process.usage.nr_running_avg.wrapping_add_signed(step);
}

/// Returns the share of a CPU's recent runtime that belongs to a process. It is [`NICE_0_LOAD`] if
/// only this process ran there (fraction_mm_sched).
fn occupancy(m: &mut Machine, number: u32, cpu: CpuId) -> u64 {
    let epoch = advance(m, cpu);
    let all = m.sched_cache.cpus[cpu].recent.ns;
    let mut recent = m.sched_cache.processes[number as usize].usage.recent.iter_mut();
    let Some((_, recent)) = recent.find(|(used, _)| *used == cpu) else {
        return 0;
    };
    recent.advance(epoch);
    NICE_0_LOAD * recent.ns / (all + 1)
}

/// Returns the CPUs whose LLCs are searched (get_scan_cpumasks): those of the node that NUMA
/// balancing prefers, of the present preferred LLC's node, and of the current node. Without a
/// preferred node, these are all CPUs.
fn searched(m: &Machine, cpu: CpuId, task: TaskId, old: Option<CpuId>) -> CpuSet {
    let Some(preferred) = preferred_node(m, task) else {
        return m.online_cpus.clone();
    };
    let nodes = [Some(preferred), old.map(|cpu| node_of(m, cpu)), Some(node_of(m, cpu))];
    let all = m.online_cpus.iter();
    let mut cpus = CpuSet::empty(m.nr_cpus());
    all.filter(|&cpu| nodes.contains(&Some(node_of(m, cpu))))
        .for_each(|cpu| cpus.insert(cpu));
    cpus
}

/// Returns the LLCs of some CPUs, each once, in the order of their first CPUs.
fn llcs_of(m: &Machine, cpus: &CpuSet) -> Vec<u32> {
    let mut llcs: Vec<u32> = Vec::new();
    for cpu in cpus.iter() {
        let llc = m.domains.llc_index[cpu];
        if !llcs.contains(&llc) {
            llcs.push(llc);
        }
    }
    llcs
}
