// SPDX-License-Identifier: GPL-2.0-only
//! Changes of the scheduling domains when a CPU goes online or offline (kernel/sched/topology.c).

use crate::machine::Machine;
use crate::sched::fair::state::domains::Domains;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;

/// Rebuilds the scheduling domains after a CPU went online or offline (partition_sched_domains).
/// Keeps the fields of `Domains` that do not describe a domain.
pub(crate) fn rebuild_domains(m: &mut Machine) {
    let old = std::mem::replace(
        &mut m.domains,
        Domains::for_online(
            &m.spec.topology,
            &m.spec.priorities,
            &m.online_cpus,
            &m.options.isolated,
        ),
    );
    let (now, jiffies) = (m.now, m.jiffies());
    for level in m.domains.levels.iter_mut().flatten() {
        level.last_balance = jiffies;
        level.last_decay = now;
        level.newidle_stamp_ns = now;
    }
    let used: Vec<CpuId> = m.cpus().filter(|&cpu| !m.domains.levels[cpu].is_empty()).collect();
    used.into_iter().for_each(|cpu| m.update_cpu_capacity(cpu));
    m.domains.reduced |= old.reduced;
    start_group_capacities(m);
    m.domains.idle_policy_cpus = old.idle_policy_cpus;
    m.domains.overloaded = old.overloaded;
    m.domains.nohz = old.nohz;
    m.domains.rng = old.rng;
}

/// Calculates the capacities of all groups of CPUs, and when new-idle balancing does so next
/// (init_sched_groups_capacity).
pub(crate) fn start_group_capacities(m: &mut Machine) {
    let capacities: Table<CpuId, u64> = m.cpus().map(|cpu| m.capacity_of(cpu)).collect();
    m.domains.set_capacities(|cpu| capacities[cpu]);
    let (jiffies, tick_ns, nr_cpus) = (m.jiffies(), m.tick_ns(), m.nr_cpus());
    let domains = &mut m.domains;
    for level in domains.levels.iter().flatten() {
        let group = &domains.spans[level.span as usize].groups[level.local as usize];
        let next_update = jiffies + level.interval_jiffies(tick_ns, nr_cpus, false);
        domains.group_capacities[group.capacity as usize].next_update = next_update;
    }
}
