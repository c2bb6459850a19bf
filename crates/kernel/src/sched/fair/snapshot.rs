// SPDX-License-Identifier: GPL-2.0-only
//! Load statistics of CPUs and groups at one instant, for the placement of many new tasks.
//!
//! A workload often starts thousands of tasks at the same time. For each of them, the kernel
//! examines every CPU of a domain. The code here examines a CPU again only if its state may have
//! changed since the last placement, and keeps the sums of groups. The selected CPU and the
//! simulated cost are the same as those of the plain search in `fork.rs`. Builds with debug
//! assertions execute both searches and compare them.
//!
//! A snapshot is valid during consecutive events that start tasks at the same time. In such an
//! event, the load of a CPU changes only if a task joins or leaves its queue or if the CPU
//! schedules ([`Snapshot::note_change`]).
//!
//! [`Snapshot::note_change`]: crate::sched::fair::state::snapshot::Snapshot::note_change

use super::idle_scan::{available_idle_cpu, sched_idle_cpu};
use crate::machine::Machine;
use crate::sched::fair::state::domains::Unit;
use crate::sched::fair::state::group::Stats;
use crate::sched::fair::state::snapshot::{Near, State};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::{CpuId, TaskId};

/// Returns whether the placement of `task` may use the snapshot. The task must be new, so that no
/// CPU's load includes it, and may use all CPUs. Real-time tasks must not have reduced the capacity of a
/// CPU, because groups learn of that later.
pub(super) fn is_usable(m: &Machine, task: TaskId) -> bool {
    let t = &m.tasks[task];
    m.domains.snapshot.state != State::Off
        && !m.domains.reduced
        && t.fair.avg.detached()
        && !t.on_rq()
        && !m.ext.has_policy()
        && t.cpus.weight() == m.nr_cpus()
}

/// Takes the missing samples of the CPUs of a domain, and takes those again that may be out of
/// date. Charges the current CPU like the plain search, which reads the load of each CPU.
pub(super) fn refresh(m: &mut Machine, span: u32) {
    let (now, nr_cpus, nr_spans) = (m.now, m.nr_cpus(), m.domains.spans.len());
    m.domains.snapshot.prepare(now, nr_cpus, nr_spans);
    if !m.domains.snapshot.covered[span as usize] {
        m.domains.snapshot.covered[span as usize] = true;
        let sampled = m.domains.snapshot.sampled.as_ref();
        let missing = |cpu: &CpuId| !sampled.is_some_and(|sampled| sampled.contains(*cpu));
        let missing: Vec<CpuId> = m.domains.spans[span as usize].set.iter().filter(missing).collect();
        missing.into_iter().for_each(|cpu| sample(m, cpu));
    }
    let mut stale = std::mem::take(&mut m.domains.snapshot.stale);
    stale.retain(|&cpu| {
        let in_span = m.domains.spans[span as usize].set.contains(cpu);
        let sampled = m.domains.snapshot.sampled.as_ref();
        if in_span && sampled.is_some_and(|sampled| sampled.contains(cpu)) {
            sample(m, cpu);
        }
        !in_span
    });
    m.domains.snapshot.stale = stale;
    charge(m, span);
    #[cfg(test)]
    {
        m.domains.snapshot.nr_used += 1;
    }
}

/// Takes the sample of a CPU and updates the sums of the domains that contain it.
fn sample(m: &mut Machine, cpu: CpuId) {
    let mut now = Stats {
        weight: 1,
        min_capacity: u64::MAX,
        ..Stats::default()
    };
    now.add_capacity(m.capacity_of(cpu));
    now.load = m.cpu_load(cpu);
    now.util = m.cpu_util(cpu);
    now.runnable = m.cpu_runnable(cpu);
    let rq = &m.rqs[cpu];
    now.nr_fair = rq.fair.cfs.h_nr_runnable;
    now.nr_running = rq.nr_running;
    let idle = available_idle_cpu(m, cpu);
    now.idle_cpus = idle.into();
    let sched_idle = sched_idle_cpu(m, cpu);
    let since = rq.idle_since;
    let domains = &mut m.domains;
    let snapshot = &mut domains.snapshot;
    let sets = (&mut snapshot.sampled, &mut snapshot.idle, &mut snapshot.sched_idle);
    let (Some(sampled), Some(idle_cpus), Some(sched_idle_cpus)) = sets else {
        unreachable!("the snapshot is prepared")
    };
    let before = sampled.contains(cpu).then_some(snapshot.samples[cpu]);
    sampled.insert(cpu);
    idle_cpus.set(cpu, idle);
    sched_idle_cpus.set(cpu, sched_idle);
    if idle {
        snapshot.newest_idle = snapshot.newest_idle.max(since);
    }
    for (at, level) in domains.levels[cpu].iter().enumerate() {
        let span = &domains.spans[level.span as usize];
        if at == 0 {
            now.classify_for_placement(span.imbalance_pct, false);
            snapshot.samples[cpu] = now;
            if span.units.get(level.local as usize) == Some(&Unit::Cpu(cpu)) {
                snapshot.set_rank(level.span, span, level.local as usize, cpu, now.rank());
            }
        }
        if span.numa {
            // The domain is no group of a domain whose placement uses the snapshot.
            break;
        }
        let sum = &mut snapshot.sums[level.span as usize];
        sum.replace(before.as_ref(), &now);
        if before.is_some_and(|before| before.capacity != now.capacity) {
            sum.limit_capacity(span.set.iter().map(|cpu| snapshot.samples[cpu].capacity));
        }
        if let Some(above) = domains.levels[cpu].get(at + 1) {
            sum.classify_for_placement(domains.spans[above.span as usize].imbalance_pct, false);
            snapshot.sum_ranks[level.span as usize] = sum.rank();
        }
    }
}

/// Charges the current CPU for reading the load of each CPU of a domain.
fn charge(m: &mut Machine, span: u32) {
    let topology = &m.spec.topology;
    if m.domains.snapshot.nodes.is_empty() {
        let sets = topology
            .nodes
            .iter()
            .map(|cpus| CpuSet::from_cpus(topology.nr_cpus(), cpus));
        m.domains.snapshot.nodes = sets.collect();
    }
    let from = m.this_cpu;
    let at = span as usize;
    let span = &m.domains.spans[at];
    let same = u64::from(span.set.contains(from));
    let siblings = topology.siblings(from.nr()).iter();
    let core = siblings.filter(|&&cpu| span.set.contains_nr(cpu)).count() as u64;
    let (llc, node) = (m.domains.llc_index[from], topology.cpus[from.index()].node);
    let near = m.domains.snapshot.near[at].filter(|near| (near.llc, near.node) == (llc, node));
    let near = near.unwrap_or_else(|| Near {
        llc,
        node,
        in_llc: m.domains.llcs[llc as usize].set.weight_and(&span.set),
        in_node: m.domains.snapshot.nodes[node as usize].weight_and(&span.set),
    });
    m.domains.snapshot.near[at] = Some(near);
    let llc = u64::from(near.in_llc);
    // An LLC can contain several nodes.
    let node = u64::from(near.in_node).max(llc);
    let counts = [same, core - same, llc - core, node - llc, u64::from(span.weight) - node];
    charge_lines(m, counts);
}

/// Charges the current CPU for reading one cache line of other CPUs each. `counts` contains the
/// number of CPUs at each distance, nearest first.
pub(super) fn charge_lines(m: &mut Machine, counts: [u64; 5]) {
    let lines = m.spec.costs.cache_line.values();
    let cpu = m.this_cpu;
    let ns: u64 = lines
        .iter()
        .zip(counts)
        .map(|(&line, count)| count * u64::from(line))
        .sum();
    m.rqs[cpu].free_at += ns;
}

/// Returns the CPU of a group on which a new task should run, like `find_dst_group_cpu` in
/// `fork.rs`. The domain of the group has just been refreshed. `normal` is false for a task with
/// the policy SCHED_IDLE.
pub(super) fn find_group_cpu(m: &Machine, span: u32, group: usize, normal: bool) -> CpuId {
    let snapshot = &m.domains.snapshot;
    let group = &m.domains.spans[span as usize].groups[group];
    let (Some(idle), Some(sched_idle)) = (&snapshot.idle, &snapshot.sched_idle) else {
        unreachable!("the snapshot is prepared")
    };
    if normal && let Some(cpu) = group.set.next_and(sched_idle, 0) {
        return cpu;
    }
    let mut latest: Option<(u64, CpuId)> = None;
    let mut next = group.set.next_and(idle, 0);
    while let Some(cpu) = next {
        let since = m.rqs[cpu].idle_since;
        if since > latest.map_or(0, |(best, _)| best) {
            latest = Some((since, cpu));
            if since == snapshot.newest_idle {
                break;
            }
        }
        next = group.set.next_and(idle, cpu.nr() + 1);
    }
    latest.map_or_else(
        || {
            let least = group.cpus.iter().min_by_key(|&&cpu| snapshot.samples[cpu].load);
            *least.expect("a group has CPUs")
        },
        |(_, cpu)| cpu,
    )
}
