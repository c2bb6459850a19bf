// SPDX-License-Identifier: GPL-2.0-only
//! Changes of the scheduling domains when a CPU goes online or offline (kernel/sched/topology.c).

use crate::machine::Machine;
use crate::sched::fair::state::domains::{Domains, base_slice};
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;

/// Rebuilds the scheduling domains after `changed` went online or offline (partition_sched_domains).
/// Keeps the fields of `Domains` that do not describe a domain.
pub(crate) fn rebuild_domains(m: &mut Machine, changed: CpuId) {
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
    let used: Vec<CpuId> = m
        .online_cpus
        .iter()
        .filter(|cpu| !m.options.isolated.contains(&cpu.nr()))
        .collect();
    for cpu in used {
        m.update_cpu_capacity(cpu);
        if cpu != changed {
            // For a moment, the CPU is offline for the scheduler (rq_attach_root, rq_offline_fair).
            m.clear_tg_load_avg(cpu);
        }
    }
    m.domains.reduced |= old.reduced;
    start_group_capacities(m);
    m.domains.idle_policy_cpus = old.idle_policy_cpus;
    m.domains.base_slice = old.base_slice;
    update_sysctl(m);
    m.domains.nohz = old.nohz;
    m.domains.nohz.counted_busy = m.domains.nohz.idle.clone();
    m.domains.rng = old.rng;
}

/// Adapts the base slice to the number of online CPUs. A CPU that goes offline still counts. Tasks get the new
/// slice when their next one begins, or when they are queued.
pub(crate) fn update_sysctl(m: &mut Machine) {
    let ns = base_slice(m.layout.online.weight());
    let old = std::mem::replace(&mut m.domains.base_slice, ns);
    if old == ns {
        return;
    }
    m.task_groups.custom_slices = true;
    for task in m.tasks.ids() {
        let t = &mut m.tasks[task];
        if t.fair.slice != 0 {
            continue;
        }
        t.fair.keep_base_slice(old);
        let (cpu, waits) = (t.cpu(), t.fair.on_rq);
        let rq = &mut m.rqs[cpu].fair;
        if waits && rq.eevdf.curr != task {
            rq.eevdf.slices.insert(old);
        }
    }
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
