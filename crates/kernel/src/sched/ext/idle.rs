// SPDX-License-Identifier: GPL-2.0-only
//! Built-in idle tracking and the selection of idle CPUs (kernel/sched/ext/idle.c).
//!
//! BPF programs can read the idle masks, for example with scx_bpf_get_idle_cpumask(). A search
//! intersects up to three masks word by word (see `Domain`), so it needs no temporary mask.

use crate::layout::enums::{
    SCX_OPS_BUILTIN_IDLE_PER_NODE, SCX_OPS_KEEP_BUILTIN_IDLE, SCX_PICK_IDLE_CORE, SCX_PICK_IDLE_IN_NODE, SCX_WAKE_SYNC,
};
use crate::layout::{Mask, PF_EXITING};
use crate::machine::Machine;
use crate::sched::ext::state::idle_masks::*;
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Starts idle tracking for a policy with these ops.flags (scx_idle_enable).
pub(crate) fn enable(m: &mut Machine, ops_flags: u64, has_update_idle: bool) {
    m.idle.enabled = !has_update_idle || ops_flags & SCX_OPS_KEEP_BUILTIN_IDLE != 0;
    m.idle.per_node = ops_flags & SCX_OPS_BUILTIN_IDLE_PER_NODE != 0;
    m.mirror_online();
    rebuild_domains(m);
    update_topology(m);
    // Initially all online CPUs are marked as idle in Linux 7.2, and none in Linux 7.3. Each CPU corrects
    // its own bit when it schedules.
    let online = if m.ext.is_linux_7_3 {
        m.layout.none
    } else {
        m.layout.online
    };
    for node in 0..m.idle.masks.len() {
        let Masks { cpu, smt } = m.idle.masks[node];
        for word in 0..cpu.words() {
            let used = if m.idle.per_node { node > 0 } else { node == 0 };
            let within = if node == 0 {
                !0
            } else {
                m.idle.nodes[node - 1].word(word)
            };
            let idle = if used { online.word(word) & within } else { 0 };
            cpu.set_word(word, idle);
            smt.set_word(word, idle);
        }
    }
}

/// Stops idle tracking (scx_idle_disable).
pub(crate) fn disable(m: &mut Machine) {
    m.idle.enabled = false;
    m.idle.per_node = false;
}

/// Updates the threads of each core when a CPU has come online or has died (cpu_smt_mask).
pub(crate) fn update_cores(m: &Machine) {
    fill(m, &m.spec.topology.cores, &m.idle.cores, |cpu| {
        m.layout.online.contains(cpu)
    });
}

/// Updates the CPUs of each LLC and node when the scheduling domains have been rebuilt, and whether a core has
/// more than one thread (sd_llc, sd_numa, sched_smt_present). A CPU that goes offline is in no domain.
pub(crate) fn rebuild_domains(m: &mut Machine) {
    let topology = &m.spec.topology;
    for (groups, masks) in [(&topology.llcs, &m.idle.llcs), (&topology.nodes, &m.idle.nodes)] {
        fill(m, groups, masks, |cpu| m.online_cpus.contains(cpu));
    }
    m.idle.smt_active = m.domains.smt_active;
}

/// Writes into a mask for each group of CPUs those that satisfy `is_used`.
fn fill(m: &Machine, groups: &[Vec<u32>], masks: &[Mask], is_used: impl Fn(CpuId) -> bool) {
    for (cpus, mask) in groups.iter().zip(masks) {
        (0..mask.words()).for_each(|word| mask.set_word(word, 0));
        cpus.iter()
            .filter_map(|&cpu| m.rqs.id(cpu as usize))
            .filter(|&cpu| is_used(cpu))
            .for_each(|cpu| mask.insert(cpu));
    }
}

/// Decides whether searches consider LLCs and nodes (scx_idle_update_selcpu_topology). Called when a policy is
/// enabled, and by hotplug: after the domains have been rebuilt for a CPU that comes online, but before they are
/// rebuilt for one that goes offline.
pub(crate) fn update_topology(m: &mut Machine) {
    let online = m.layout.online;
    let Some(first) = online.first() else { return };
    let nr_online = online.weight();
    let (llc, numa) = (llc_weight(m, first), numa_weight(m, first));
    let mismatch = m
        .cpus()
        .any(|cpu| online.contains(cpu) && llc_weight(m, cpu) != numa_weight(m, cpu));
    m.idle.topo_llc = llc > 0 && llc < nr_online;
    m.idle.topo_numa = !m.idle.per_node && numa > 0 && numa < nr_online && mismatch;
}

/// Returns the CPUs of the scheduling domain sd_llc of `cpu`, which are the online CPUs of its LLC.
/// A CPU that is alone in its LLC has no such domain.
fn llc_span(m: &Machine, cpu: CpuId) -> Option<Mask> {
    let llc = m.idle.llcs[m.spec.topology.cpus[cpu.index()].llc as usize];
    (llc.weight() > 1).then_some(llc)
}

fn llc_weight(m: &Machine, cpu: CpuId) -> u32 {
    llc_span(m, cpu).map_or(0, Mask::weight)
}

/// Returns the first group of the scheduling domain sd_numa of `cpu`, which is the node of `cpu`.
/// Machines with a single node have no such domain, and isolated CPUs have none.
fn numa_span(m: &Machine, cpu: CpuId) -> Option<Mask> {
    if m.options.isolated.contains(&cpu.nr()) {
        return None;
    }
    let populated = m.idle.nodes.iter().filter(|node| !node.is_empty()).count();
    (populated > 1).then(|| m.idle.nodes[m.spec.topology.cpus[cpu.index()].node as usize])
}

fn numa_weight(m: &Machine, cpu: CpuId) -> u32 {
    numa_span(m, cpu).map_or(0, Mask::weight)
}

/// Returns the node whose idle masks contain a CPU, or `None` if the global masks are in use
/// (scx_cpu_node_if_enabled).
fn node_of(m: &Machine, cpu: CpuId) -> Option<u32> {
    m.idle.per_node.then(|| m.spec.topology.cpus[cpu.index()].node)
}

/// Charges the current CPU for reading the first cache line of a mask.
#[inline]
fn read(m: &mut Machine, mask: Mask) {
    m.read_line(mask.addr());
}

/// Charges the current CPU for writing the cache line of `mask` that contains the bit of `cpu`.
#[inline]
fn write(m: &mut Machine, mask: Mask, cpu: CpuId) {
    m.write_line(mask.addr() + u64::from(cpu.nr() / 64) * 8);
}

/// Marks a CPU as idle or busy in the idle masks (update_builtin_idle). Does not call
/// ops.update_idle().
pub(crate) fn update(m: &mut Machine, cpu: CpuId, idle: bool) {
    if !m.idle.enabled {
        return;
    }
    let idle = idle && !m.is_housekeeping(cpu);
    let Masks { cpu: cpus, smt: smts } = m.idle.node_masks(node_of(m, cpu));
    write(m, cpus, cpu);
    if idle {
        cpus.insert(cpu)
    } else {
        cpus.remove(cpu)
    }
    if !m.idle.smt_active {
        return;
    }
    let core = m.idle.cores[m.spec.topology.cpus[cpu.index()].core as usize];
    if idle {
        if m.siblings(cpu).all(|cpu| !core.contains(cpu) || cpus.contains(cpu)) {
            write(m, smts, cpu);
            set_core(m, core, cpu, |cpu| smts.insert(cpu));
        }
    } else {
        write(m, smts, cpu);
        set_core(m, core, cpu, |cpu| smts.remove(cpu));
    }
}

/// Calls `set` for the online CPUs of a core.
fn set_core(m: &Machine, core: Mask, cpu: CpuId, set: impl Fn(CpuId)) {
    m.siblings(cpu).filter(|&cpu| core.contains(cpu)).for_each(set);
}

/// Reduces the instruction budget of the running BPF program for a search of the hardware threads
/// of a core. Does nothing if the core has only a few threads.
fn charge_core(m: &Machine, cpu: CpuId) {
    const FEW: usize = 8;
    let threads = m.spec.topology.siblings(cpu.nr()).len();
    if threads > FEW {
        m.ext.charge_program(threads as u64);
    }
}

/// Claims a CPU if it is idle, so that no other caller gets it. Returns whether the CPU was idle
/// (scx_idle_test_and_clear_cpu).
pub(crate) fn test_and_clear_cpu(m: &mut Machine, cpu: CpuId) -> bool {
    let Masks { cpu: cpus, smt: smts } = m.idle.node_masks(node_of(m, cpu));
    // The kernel reads the masks before it writes.
    read(m, cpus);
    if m.idle.smt_active {
        read(m, smts);
        // The core no longer counts as fully idle, even if the CPU turns out to be busy.
        let core = m.idle.cores[m.spec.topology.cpus[cpu.index()].core as usize];
        charge_core(m, cpu);
        set_core(m, core, cpu, |cpu| smts.remove(cpu));
        smts.remove(cpu);
    }
    let was_idle = cpus.contains(cpu);
    if was_idle {
        write(m, cpus, cpu);
        cpus.remove(cpu);
    }
    was_idle
}

/// Returns a CPU that is in both `domain` and `mask` (cpumask_any_and_distribute). Each calling CPU
/// starts the search after the CPU that it found last, so results are spread.
fn any_and_distribute(m: &mut Machine, domain: Domain, mask: Mask) -> Option<CpuId> {
    m.ext.charge_mask(mask.words());
    let prev = m.rqs[m.this_cpu].distribute_cpu_mask_prev;
    let next = domain.next_wrap(mask, prev.nr() + 1);
    if let Some(cpu) = next {
        m.rqs[m.this_cpu].distribute_cpu_mask_prev = cpu;
    }
    next
}

/// Returns any CPU of a mask. Successive calls return different CPUs (cpumask_any_distribute).
pub(crate) fn any_distribute(m: &mut Machine, mask: Mask) -> Option<CpuId> {
    let possible = m.layout.possible;
    any_and_distribute(m, Domain::new(mask), possible)
}

/// Returns any CPU that is in a mask and in a node. Successive calls return different CPUs
/// (cpumask_any_and_distribute).
pub(crate) fn any_in_node(m: &mut Machine, mask: Mask, node: u32) -> Option<CpuId> {
    let node = m.layout.nodes[node as usize];
    any_and_distribute(m, Domain::new(mask), node)
}

/// Claims an idle CPU of `domain` according to the idle masks of one node, preferably on a fully
/// idle core.
#[inline]
fn pick_in_node(m: &mut Machine, domain: Domain, node: Option<u32>, flags: u64) -> Option<CpuId> {
    let Masks { cpu: cpus, smt: smts } = m.idle.node_masks(node);
    if cpus.is_empty() {
        // The mask of fully idle cores is a subset, so neither search would find a CPU.
        let second = m.idle.smt_active && flags & SCX_PICK_IDLE_CORE == 0;
        for _ in 0..=u32::from(second) {
            m.ext.charge_mask(cpus.words());
        }
        return None;
    }
    loop {
        let mut found = None;
        if m.idle.smt_active {
            found = any_and_distribute(m, domain, smts);
            if found.is_none() && flags & SCX_PICK_IDLE_CORE != 0 {
                return None;
            }
        }
        let cpu = found.or_else(|| any_and_distribute(m, domain, cpus))?;
        if test_and_clear_cpu(m, cpu) {
            return Some(cpu);
        }
    }
}

/// Claims an idle CPU of a mask. The search starts at `node`, if given (scx_pick_idle_cpu).
pub(crate) fn pick(m: &mut Machine, allowed: Mask, node: Option<u32>, flags: u64) -> Option<CpuId> {
    pick_from(m, Domain::new(allowed), node, flags)
}

/// Number of instructions by which the budget of the running BPF program is reduced for the search
/// of another node. The search of long masks reduces the budget further.
const NODE: u64 = 16;

/// Claims an idle CPU of a domain. The search starts at `node` and continues with the other nodes,
/// nearest first.
fn pick_from(m: &mut Machine, domain: Domain, node: Option<u32>, flags: u64) -> Option<CpuId> {
    let found = pick_in_node(m, domain, node, flags);
    let Some(start) = node.filter(|_| found.is_none() && flags & SCX_PICK_IDLE_IN_NODE == 0) else {
        return found;
    };
    (0..m.idle.near[start as usize].len()).find_map(|i| {
        let other = m.idle.near[start as usize][i];
        m.ext.charge_program(NODE);
        pick_in_node(m, domain, Some(other), flags)
    })
}

/// Claims the best idle CPU for a task (scx_select_cpu_dfl). Only CPUs in `cpus_allowed` are
/// considered, if it is given. Returns `None` if no idle CPU is found.
#[inline(always)]
pub(crate) fn select_cpu_dfl(
    m: &mut Machine,
    task: TaskId,
    prev_cpu: CpuId,
    wake_flags: u64,
    cpus_allowed: Option<Mask>,
    flags: u64,
) -> Option<CpuId> {
    // If no CPU is idle, the search ends here. The mask of fully idle cores need not be tested,
    // because it is a subset of the mask of idle CPUs.
    if !m.idle.per_node {
        let idle = m.idle.masks[0].cpu;
        read(m, idle);
        m.ext.charge_mask(idle.words());
        if idle.is_empty() {
            return None;
        }
    }
    select_idle_cpu(m, task, prev_cpu, wake_flags, cpus_allowed, flags)
}

/// Performs the search of [`select_cpu_dfl`] after the quick test whether any CPU is idle.
fn select_idle_cpu(
    m: &mut Machine,
    task: TaskId,
    prev_cpu: CpuId,
    wake_flags: u64,
    cpus_allowed: Option<Mask>,
    flags: u64,
) -> Option<CpuId> {
    let node = node_of(m, prev_cpu);
    let cpus_ptr = m.cpus_ptr(task);
    let everywhere = m.tasks[task].nr_cpus_allowed() >= m.nr_cpus();
    let restricted = cpus_allowed.filter(|mask| mask.addr() != cpus_ptr.addr());
    let allowed = match restricted {
        None => Domain::new(cpus_ptr),
        Some(mask) if everywhere => Domain::new(mask),
        Some(mask) => {
            let common = Domain {
                masks: [cpus_ptr, mask, mask],
            };
            m.ext.charge_mask(mask.words());
            if common.is_empty() {
                return None;
            }
            common
        }
    };
    let is_prev_allowed = allowed.contains(prev_cpu);
    // A domain is searched only if it contains a CPU that the task may use.
    let within = |span: Option<Mask>| {
        let span = span?;
        if restricted.is_none() && everywhere {
            return Some(Domain::new(span));
        }
        let domain = allowed.and(span);
        m.ext.charge_mask(span.words());
        (!domain.is_empty()).then_some(domain)
    };
    let numa = if m.idle.topo_numa {
        within(numa_span(m, prev_cpu))
    } else {
        None
    };
    let llc = if m.idle.topo_llc {
        within(llc_span(m, prev_cpu))
    } else {
        None
    };

    if wake_flags & SCX_WAKE_SYNC != 0 {
        let waker = m.this_cpu;
        if is_prev_allowed && m.domains.share_cache(waker, prev_cpu) && test_and_clear_cpu(m, prev_cpu) {
            return Some(prev_cpu);
        }
        let waker_node = node_of(m, waker);
        let curr = m.rqs[waker].curr;
        let exiting = curr != IDLE && m.tasks[curr].flags() & PF_EXITING != 0;
        if !exiting
            && m.ext.local_dsq_empty(waker)
            && (flags & SCX_PICK_IDLE_IN_NODE == 0 || waker_node == node)
            && !m.idle.node_masks(waker_node).cpu.is_empty()
            && allowed.contains(waker)
        {
            test_and_clear_cpu(m, waker);
            return Some(waker);
        }
    }

    if m.idle.smt_active {
        if is_prev_allowed && m.idle.node_masks(node).smt.contains(prev_cpu) && test_and_clear_cpu(m, prev_cpu) {
            return Some(prev_cpu);
        }
        for domain in [llc, numa].into_iter().flatten() {
            if let Some(cpu) = pick_in_node(m, domain, node, SCX_PICK_IDLE_CORE) {
                return Some(cpu);
            }
        }
        let cpu = pick_from(m, allowed, node, flags | SCX_PICK_IDLE_CORE);
        if cpu.is_some() || flags & SCX_PICK_IDLE_CORE != 0 {
            return cpu;
        }
    }

    if is_prev_allowed && test_and_clear_cpu(m, prev_cpu) {
        return Some(prev_cpu);
    }
    if m.idle.smt_active {
        for i in 0..m.spec.topology.siblings(prev_cpu.nr()).len() {
            let Some(cpu) = m.cpu_id(m.spec.topology.siblings(prev_cpu.nr())[i]) else {
                continue;
            };
            if cpu != prev_cpu && m.layout.online.contains(cpu) && allowed.contains(cpu) && test_and_clear_cpu(m, cpu) {
                return Some(cpu);
            }
        }
    }
    for domain in [llc, numa].into_iter().flatten() {
        if let Some(cpu) = pick_in_node(m, domain, node, 0) {
            return Some(cpu);
        }
    }
    pick_from(m, allowed, node, flags)
}

/// Returns whether a task must stay on its CPU (is_bpf_migration_disabled). While a callback is
/// executed, migration is disabled for the task that runs there, too.
pub(crate) fn is_bpf_migration_disabled(m: &Machine, task: TaskId) -> bool {
    match m.tasks[task].migration_disabled() {
        1 => m.current() != task,
        count => count > 0,
    }
}

/// Claims the CPU of a task that may use only one CPU, if that CPU is idle (select_cpu_restricted).
/// scx_bpf_select_cpu_and() calls it.
pub(crate) fn select_restricted(
    m: &mut Machine,
    task: TaskId,
    prev_cpu: CpuId,
    allowed: Option<Mask>,
    flags: u64,
) -> Option<CpuId> {
    let t = &m.tasks[task];
    let cpus = m.cpus_ptr(task);
    let cpu = if is_bpf_migration_disabled(m, task) {
        t.cpu()
    } else {
        cpus.first()?
    };
    let fits = cpus.contains(cpu)
        && allowed.is_none_or(|mask| mask.contains(cpu))
        && (flags & SCX_PICK_IDLE_IN_NODE == 0 || node_of(m, cpu) == node_of(m, prev_cpu));
    (fits && test_and_clear_cpu(m, cpu)).then_some(cpu)
}

#[cfg(test)]
mod tests;
