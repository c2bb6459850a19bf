// SPDX-License-Identifier: GPL-2.0-only
//! Construction of the scheduling domains from the topology of a machine (build_sched_domains,
//! sd_init, build_sched_groups).

use super::*;
use machine::Topology;
use std::collections::BTreeMap;

/// Maximum NUMA distance over which fork, exec and affine wake-ups may choose a CPU
/// (node_reclaim_distance).
const NODE_RECLAIM_DISTANCE: u32 = 30;

/// The LLC of a CPU without scheduling domains.
const NO_LLC: u32 = u32::MAX;

/// Kinds of domains, smallest first: the threads of a core, the CPUs of an LLC, and the CPUs of a
/// node. The numbers from `NUMA` on are for NUMA domains, one for each distance between nodes.
const SMT: u32 = 0;
const MC: u32 = 1;
const PKG: u32 = 2;
const NUMA: u32 = 3;

impl Domains {
    /// Returns the domains of a machine whose CPUs are all online.
    pub fn new(topology: &Topology, priorities: &[u32], isolated: &[u32]) -> Domains {
        Domains::for_online(topology, priorities, &CpuSet::all(topology.nr_cpus()), isolated)
    }

    /// Returns the domains of the online CPUs. Offline CPUs have no domains and are in no span.
    /// The same is true of isolated CPUs.
    pub(crate) fn for_online(topology: &Topology, priorities: &[u32], online: &CpuSet, isolated: &[u32]) -> Domains {
        let nr_online = online.weight();
        let smt_active = online_topology(topology, online)
            .cores
            .iter()
            .any(|core| core.len() > 1);
        let mut balanced = online.clone();
        let isolated = CpuSet::from_cpus(topology.nr_cpus(), isolated);
        isolated.iter().for_each(|cpu| balanced.remove(cpu));
        let mut possible = CpuSet::all(topology.nr_cpus());
        isolated.iter().for_each(|cpu| possible.remove(cpu));
        let online = &balanced;
        let topology = &online_topology(topology, online);
        let nr_cpus = topology.nr_cpus();
        let mut distances: Vec<u32> = topology
            .node_distances
            .iter()
            .flatten()
            .copied()
            .filter(|&d| d > 10)
            .collect();
        distances.sort_unstable();
        distances.dedup();
        let mut domains = Domains {
            spans: Vec::new(),
            levels: (0..nr_cpus).map(|_| Vec::new()).collect(),
            group_capacities: Vec::new(),
            reduced: false,
            llcs: topology.llcs.iter().map(|cpus| Llc::new(nr_cpus, cpus)).collect(),
            llc_index: topology.cpus.iter().map(|c| c.llc).collect(),
            llc_ids: topology
                .cpus
                .iter()
                .zip(0..)
                .map(|(c, cpu)| if online.contains_nr(cpu) { c.llc } else { NO_LLC })
                .collect(),
            smt_active,
            priorities: priorities.to_vec(),
            asym: false,
            capacities: capacities(topology, online),
            all_capacities: capacities(topology, &possible),
            idle_policy_cpus: CpuSet::empty(nr_cpus),
            base_slice: base_slice(nr_online),
            overloaded: false,
            nohz: Nohz::new(nr_cpus, online),
            rng: (0..u64::from(nr_cpus)).map(Prandom::new).collect(),
            snapshot: Snapshot::default(),
        };
        domains.asym = domains.capacities.len() > 1;
        // For each CPU, the index of its largest domain so far.
        let mut below: Table<CpuId, Option<u32>> = vec![None; nr_cpus as usize].into();
        for kind in 0..NUMA + distances.len() as u32 {
            let distance = kind.checked_sub(NUMA).map(|k| distances[k as usize]);
            below = domains.add_domains(topology, online, kind, distance, below);
        }
        domains.set_numa_imbalance(topology, online);
        domains.set_capacities(|cpu| topology.cpus[cpu.index()].capacity.into());
        domains
    }

    /// Adds the domains of one kind. `below` contains the largest domain of each CPU so far.
    /// Returns the largest domain of each CPU afterwards.
    fn add_domains(
        &mut self,
        topology: &Topology,
        online: &CpuSet,
        kind: u32,
        distance: Option<u32>,
        below: Table<CpuId, Option<u32>>,
    ) -> Table<CpuId, Option<u32>> {
        let mut made: BTreeMap<u32, u32> = BTreeMap::new();
        let mut near_cpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        // These maps find the number of a group in a domain: by the domain and the group's first
        // CPU, or by the domain and the domain below it. Without the maps, each CPU would have to
        // compare the groups' sets of CPUs.
        let mut single: BTreeMap<(u32, CpuId), u32> = BTreeMap::new();
        let mut local_groups: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        // The capacities of this level, by the first CPU that balances the group.
        let mut capacities: BTreeMap<CpuId, u32> = BTreeMap::new();
        let mut above: Table<CpuId, Option<u32>> = below.to_vec().into();
        for cpu in online.iter() {
            let info = &topology.cpus[cpu.index()];
            let (id, cpus) = match kind {
                SMT => (info.core, &topology.cores[info.core as usize]),
                MC => (info.llc, &topology.llcs[info.llc as usize]),
                PKG => (info.node, &topology.nodes[info.node as usize]),
                _ => {
                    let distance = distance.expect("a NUMA domain has a distance");
                    let within = || cpus_within(topology, info.node, distance);
                    (info.node, &*near_cpus.entry(info.node).or_insert_with(within))
                }
            };
            let weight_below = below[cpu].map_or(1, |span| self.spans[span as usize].weight);
            if cpus.len() as u32 <= weight_below {
                continue;
            }
            let span = *made.entry(id).or_insert_with(|| {
                let mut made = self.new_span(topology, kind, distance, cpus, cpu, &below);
                let span = self.spans.len() as u32;
                for group in &mut made.groups {
                    group.capacity = *capacities.entry(group.balance_mask[0]).or_insert_with(|| {
                        self.group_capacities.push(GroupCapacity::default());
                        self.group_capacities.len() as u32 - 1
                    });
                }
                for (index, group) in (0..).zip(&made.groups) {
                    if let [cpu] = group.cpus[..] {
                        single.insert((span, cpu), index);
                    }
                }
                self.spans.push(made);
                span
            });
            let groups = &self.spans[span as usize].groups;
            let local = match below[cpu] {
                // Domains of different nodes may have the same CPUs, so the group is found by
                // comparing the sets.
                Some(child) => *local_groups.entry((span, child)).or_insert_with(|| {
                    let own = &self.spans[child as usize].set;
                    let local = groups.iter().position(|group| group.set == *own);
                    local.expect("a CPU is in a group of its span") as u32
                }),
                None => single[&(span, cpu)],
            };
            self.levels[cpu].push(Level::new(span, local, self.spans[span as usize].weight));
            above[cpu] = Some(span);
        }
        above
    }

    /// Creates a domain with its groups. The list of groups begins with the group of CPU `start`.
    fn new_span(
        &self,
        topology: &Topology,
        kind: u32,
        distance: Option<u32>,
        cpus: &[u32],
        start: CpuId,
        below: &Table<CpuId, Option<u32>>,
    ) -> Span {
        let nr_cpus = topology.nr_cpus();
        let set = CpuSet::from_cpus(nr_cpus, cpus);
        let first = &topology.cpus[cpus[0] as usize];
        let asym = cpus
            .iter()
            .any(|&cpu| topology.cpus[cpu as usize].capacity != first.capacity);
        let mut covered = CpuSet::empty(nr_cpus);
        let mut groups = Vec::new();
        let mut units = Vec::new();
        let turn = cpus.iter().position(|&cpu| cpu >= start.nr()).unwrap_or(0);
        let members_of_span: Vec<CpuId> = set.iter().collect();
        let turned = members_of_span[turn..].iter().chain(&members_of_span[..turn]);
        for &cpu in turned {
            if covered.contains(cpu) {
                continue;
            }
            let child = below[cpu].map(|span| &self.spans[span as usize]);
            units.push(below[cpu].map_or(Unit::Cpu(cpu), Unit::Span));
            let group_set = child.map_or_else(|| CpuSet::from_cpus(nr_cpus, &[cpu.nr()]), |child| child.set.clone());
            let members = child.map_or_else(|| vec![cpu], |child| child.set.iter().collect());
            members.iter().for_each(|&cpu| covered.insert(cpu));
            let mut cores: Vec<u32> = members.iter().map(|&cpu| topology.cpus[cpu.index()].core).collect();
            cores.sort_unstable();
            cores.dedup();
            let same = |other: CpuId| {
                below[other] == below[cpu]
                    || child
                        .is_some_and(|child| below[other].is_some_and(|it| self.spans[it as usize].set == child.set))
            };
            groups.push(Group {
                balance_mask: members.iter().copied().filter(|&other| same(other)).collect(),
                cores: cores.len() as u32,
                preferred: self.most_preferred(&members),
                smt: child.is_some_and(|child| child.smt),
                prefer_sibling: child.is_some_and(|child| !child.numa) && !asym,
                capacity: 0,
                set: group_set,
                cpus: members,
            });
        }
        for (index, group) in groups.iter_mut().enumerate() {
            if group.balance_mask.is_empty() {
                group.balance_mask = vec![group.cpus[0]];
            }
            debug_assert!(index < cpus.len());
        }
        let is_numa = |unit: &Unit| matches!(unit, Unit::Span(span) if self.spans[*span as usize].numa);
        Span {
            name: match kind {
                SMT => "SMT",
                MC => "MC",
                PKG => "PKG",
                _ => "NUMA",
            },
            weight: cpus.len() as u32,
            set,
            largest_group: groups.iter().map(|group| group.cpus.len() as u32).max().unwrap_or(0),
            is_summable: !asym && !units.iter().any(is_numa),
            groups,
            units,
            smt: kind == SMT,
            share_llc: kind <= MC,
            numa: kind >= NUMA,
            asym,
            // ITMT sets the flag for the CPUs of an LLC and of a package (x86_sched_itmt_flags).
            asym_packing: matches!(kind, MC | PKG) && !self.priorities.is_empty(),
            near: distance.is_none_or(|d| d <= NODE_RECLAIM_DISTANCE),
            imbalance_pct: if kind == SMT { 110 } else { 117 },
            cache_nice_tries: match kind {
                SMT => 0,
                MC | PKG => 1,
                _ => 2,
            },
            imb_numa_nr: 0,
        }
    }

    /// Sets `imb_numa_nr` of the NUMA domains. The value is so low that an allowed imbalance does
    /// not force tasks to share an LLC.
    fn set_numa_imbalance(&mut self, topology: &Topology, online: &CpuSet) {
        for cpu in online.iter() {
            let info = &topology.cpus[cpu.index()];
            let node = topology.nodes[info.node as usize].len() as u32;
            let llcs = node / topology.llcs[info.llc as usize].len() as u32;
            let imb = if llcs <= 1 { node >> 3 } else { llcs }.max(1);
            let mut first = None;
            for level in &self.levels[cpu] {
                let span = &mut self.spans[level.span as usize];
                if span.numa {
                    let first = *first.get_or_insert(span.weight);
                    span.imb_numa_nr = imb * (span.weight / first).max(1);
                }
            }
        }
    }
}

/// Returns a copy of the topology whose cores, LLCs and nodes contain only online CPUs.
fn online_topology(topology: &Topology, online: &CpuSet) -> Topology {
    let mut topology = topology.clone();
    let groups = [&mut topology.cores, &mut topology.llcs, &mut topology.nodes];
    for cpus in groups.into_iter().flatten() {
        cpus.retain(|&cpu| online.contains_nr(cpu));
    }
    topology
}

/// Returns the CPUs of all nodes whose distance from `node` is at most `distance`, in ascending
/// order.
fn cpus_within(topology: &Topology, node: u32, distance: u32) -> Vec<u32> {
    let near = topology.node_distances[node as usize].iter().zip(&topology.nodes);
    let near = near.filter(|&(&far, _)| far <= distance);
    let mut cpus: Vec<u32> = near.flat_map(|(_, cpus)| cpus).copied().collect();
    cpus.sort_unstable();
    cpus
}

/// Returns the different capacities of some CPUs, greatest first, each with the CPUs that have it.
fn capacities(topology: &Topology, cpus: &CpuSet) -> Vec<(u64, CpuSet)> {
    let mut found: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in cpus.iter() {
        found
            .entry(topology.cpus[cpu.index()].capacity)
            .or_insert_with(|| CpuSet::empty(topology.nr_cpus()))
            .insert(cpu);
    }
    found
        .into_iter()
        .rev()
        .map(|(capacity, cpus)| (u64::from(capacity), cpus))
        .collect()
}
