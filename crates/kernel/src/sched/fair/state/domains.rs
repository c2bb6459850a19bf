// SPDX-License-Identifier: GPL-2.0-only
//! Scheduling domains, which determine the CPUs between which load is balanced
//! (kernel/sched/topology.c).
//!
//! Each CPU has a list of domains of increasing size: its core, its LLC, its node, and one NUMA
//! domain for each larger distance between nodes. A domain is omitted if it has no more CPUs than
//! the one below. Each domain is divided into groups, which correspond to the domains one level
//! below. Load balancing moves load between the groups.
//!
//! ```text
//! level 2   node                 [ 0 1 2 3 | 4 5 6 7 ]     two groups: the LLCs
//! level 1   LLC of CPU 0         [ 0 1 | 2 3 ]             two groups: the cores
//! level 0   core of CPU 0        [ 0 | 1 ]                 two groups: the threads
//! ```
//!
//! The CPUs of a domain share one [`Span`], which has the set of CPUs and the groups. Each CPU also
//! has a [`Level`] for each of its domains, with its own balancing interval and failure count.
//! After CPU hotplug, all domains are rebuilt from the online CPUs, and all intervals start again.

use crate::sched::fair::state::entity::CfsRq;
use crate::sched::fair::state::snapshot::Snapshot;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use crate::simulation::prandom::Prandom;
use crate::simulation::table::Table;
use machine::Topology;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum NUMA distance over which fork, exec and affine wake-ups may choose a CPU
/// (node_reclaim_distance).
const NODE_RECLAIM_DISTANCE: u32 = 30;

/// Base slice before scaling (sysctl_sched_base_slice), ns.
const BASE_SLICE_NS: u64 = 700_000;

/// Returns the length of a slice in ns: 0.7 ms * (1 + log2(n)), where n is the number of CPUs, at
/// most 8.
pub(crate) fn base_slice(nr_cpus: u32) -> u64 {
    BASE_SLICE_NS * u64::from(1 + nr_cpus.clamp(1, 8).ilog2())
}

/// A part of a domain that is balanced against the other parts (struct sched_group).
pub(crate) struct Group {
    pub cpus: Vec<CpuId>,
    pub set: CpuSet,
    /// CPUs that may pull tasks on behalf of the group. If groups overlap, only some of the group's
    /// CPUs may.
    pub balance_mask: Vec<CpuId>,
    pub cores: u32,
    /// CPU of the highest priority (asym_prefer_cpu).
    pub preferred: CpuId,
    /// Whether the CPUs are threads of one core.
    pub smt: bool,
    /// Whether tasks should be spread over the groups of the domain (SD_PREFER_SIBLING of the
    /// domain below, to which this group corresponds).
    pub prefer_sibling: bool,
    /// Index of the group's capacity in [`Domains::group_capacities`].
    pub capacity: u32,
}

/// Capacity of a group, as known since it was calculated last (struct sched_group_capacity). Groups
/// with the same CPUs in the domains of one level share it. A CPU that balances a domain updates the
/// capacity of its own group only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupCapacity {
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    /// Time before which new-idle balancing does not calculate the capacity again, in jiffies.
    pub next_update: u64,
    /// Whether affinities prevented the balancing of the domain to which the group corresponds.
    pub imbalance: bool,
}

impl GroupCapacity {
    /// Replaces the capacity by the sum of the parts.
    pub fn set(&mut self, parts: impl Iterator<Item = (u64, u64, u64)>) {
        (self.sum, self.min, self.max) = (0, u64::MAX, 0);
        for (sum, min, max) in parts {
            self.sum += sum;
            self.min = self.min.min(min);
            self.max = self.max.max(max);
        }
    }
}

/// The CPUs of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A single CPU.
    Cpu(CpuId),
    /// All CPUs of the domain with this index in [`Domains::spans`].
    Span(u32),
}

/// A scheduling domain: a set of CPUs between which load is balanced. This is the part of struct
/// sched_domain that its CPUs share.
pub(crate) struct Span {
    /// Name of the domain's level in the kernel (sched_domain_topology_level).
    pub name: &'static str,
    pub set: CpuSet,
    pub weight: u32,
    pub groups: Vec<Group>,
    /// The CPUs of each group.
    pub units: Vec<Unit>,
    /// Number of CPUs of the largest group.
    pub largest_group: u32,
    /// Whether a [`Snapshot`] can have the sums of the domain's groups. This is the case if CPUs do
    /// not differ in capacity and no group is a NUMA domain.
    pub is_summable: bool,
    /// Whether the CPUs share a core (SD_SHARE_CPUCAPACITY).
    pub smt: bool,
    /// Whether the CPUs share an LLC (SD_SHARE_LLC).
    pub share_llc: bool,
    /// Whether the domain spans NUMA nodes (SD_NUMA).
    pub numa: bool,
    /// Whether the CPUs have different capacities (SD_ASYM_CPUCAPACITY).
    pub asym: bool,
    /// Whether load moves to CPUs of higher priority (SD_ASYM_PACKING).
    pub asym_packing: bool,
    /// Whether fork, exec and affine wake-ups may choose CPUs in this domain (SD_BALANCE_FORK,
    /// SD_BALANCE_EXEC, SD_WAKE_AFFINE).
    pub near: bool,
    /// Threshold for imbalances, in percent: two groups are imbalanced if the load of one is more
    /// than this percentage of the load of the other.
    pub imbalance_pct: u64,
    /// Number of failed balancing runs that must be exceeded before cache-hot tasks may be moved.
    pub cache_nice_tries: u32,
    /// Number of running tasks up to which a small NUMA imbalance is allowed.
    pub imb_numa_nr: u32,
}

/// A CPU's own state of one of its domains (the part of struct sched_domain that is separate for
/// each CPU). Times are in jiffies unless a name or comment says otherwise.
pub(crate) struct Level {
    /// Index of the domain in [`Domains::spans`].
    pub span: u32,
    /// Index of the CPU's own group in the domain.
    pub local: u32,
    /// Interval of periodic balancing, ms.
    pub balance_interval: u64,
    pub last_balance: u64,
    pub nr_balance_failed: u32,
    /// Largest recent cost of new-idle balancing, ns.
    pub max_newidle_lb_cost: u64,
    /// Time at which `max_newidle_lb_cost` was last changed, ns.
    pub last_decay: u64,
    /// Number of attempts of new-idle balancing. It is halved, together with `newidle_success`,
    /// after every 512 attempts.
    pub newidle_call: u32,
    /// Number of successful attempts.
    pub newidle_success: u32,
    /// Success rate when the counters were last halved, in units of 1/1024. The less often attempts
    /// succeed, the more of them are skipped at random.
    pub newidle_ratio: u32,
    /// Time at which the counters were last halved, ns.
    pub newidle_stamp_ns: u64,
}

/// State of the balancing on behalf of idle CPUs (the kernel's variable `nohz`). Times are in
/// jiffies.
pub(crate) struct Nohz {
    /// CPUs whose tick is stopped, or that have had no tick since they became busy
    /// (idle_cpus_mask).
    pub idle: CpuSet,
    pub next_balance: u64,
    /// Time until which the load of idle CPUs need not be updated.
    pub next_blocked: u64,
    /// Whether the load of an idle CPU is not 0, so that it decays.
    pub has_blocked_load: bool,
    /// Whether a CPU has become idle since `next_balance` was calculated.
    pub needs_update: bool,
}

impl Nohz {
    fn new(idle: &CpuSet) -> Nohz {
        Nohz {
            idle: idle.clone(),
            next_balance: 0,
            next_blocked: 0,
            has_blocked_load: false,
            needs_update: false,
        }
    }
}

/// State that the CPUs of an LLC share (struct sched_domain_shared).
pub(crate) struct Llc {
    pub set: CpuSet,
    /// The words of `set` that contain its CPUs.
    pub words: Range<usize>,
    pub weight: u32,
    pub has_idle_cores: bool,
    /// Number of CPUs that the search for an idle CPU examines at a wake-up (SIS_UTIL).
    pub nr_idle_scan: u32,
}

/// The scheduling domains of all CPUs, and state of the fair class that belongs to the whole
/// machine.
pub struct Domains {
    pub(crate) spans: Vec<Span>,
    /// Domains of each CPU, smallest first.
    pub(crate) levels: Table<CpuId, Vec<Level>>,
    pub(crate) group_capacities: Vec<GroupCapacity>,
    /// Whether real-time tasks have ever reduced the capacity of a CPU.
    pub(crate) reduced: bool,
    pub(crate) llcs: Vec<Llc>,
    /// Index in `llcs` for each CPU.
    pub(crate) llc_index: Table<CpuId, u32>,
    pub(crate) smt_active: bool,
    /// Priority of each CPU (arch_asym_cpu_priority). Empty if CPUs have no priorities.
    pub(crate) priorities: Vec<u32>,
    /// Whether CPUs differ in capacity.
    pub(crate) asym: bool,
    /// The different capacities of CPUs, greatest first, each with the CPUs that have it.
    pub(crate) capacities: Vec<(u64, CpuSet)>,
    /// CPUs on which all fair tasks have the policy SCHED_IDLE.
    pub(crate) idle_policy_cpus: CpuSet,
    /// Length of a slice, ns.
    pub(crate) base_slice: u64,
    /// Whether a CPU was found that has several tasks, or a task that needs a faster CPU
    /// (rd->overloaded). It is reset whenever a balancing run examines a topmost domain.
    pub(crate) overloaded: bool,
    pub(crate) nohz: Nohz,
    /// Random generators of the CPUs for new-idle balancing (sched_rnd_state). The random numbers of the workload come from
    /// another generator, so they do not depend on load balancing.
    pub(crate) rng: Table<CpuId, Prandom>,
    pub(crate) snapshot: Snapshot,
}

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
        let mut balanced = online.clone();
        let isolated = CpuSet::from_cpus(topology.nr_cpus(), isolated);
        isolated.iter().for_each(|cpu| balanced.remove(cpu));
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
            smt_active: topology.cores.iter().any(|core| core.len() > 1),
            priorities: priorities.to_vec(),
            asym: false,
            capacities: capacities(topology, online),
            idle_policy_cpus: CpuSet::empty(nr_cpus),
            base_slice: base_slice(nr_online),
            overloaded: false,
            nohz: Nohz::new(online),
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

    /// Calculates the capacities of all groups (init_sched_groups_capacity).
    pub(crate) fn set_capacities(&mut self, capacity_of: impl Fn(CpuId) -> u64) {
        for group in self.spans.iter().flat_map(|span| &span.groups) {
            let capacities = group.cpus.iter().map(|&cpu| capacity_of(cpu));
            self.group_capacities[group.capacity as usize]
                .set(capacities.map(|capacity| (capacity, capacity, capacity)));
        }
    }

    /// Returns the capacity of a group.
    pub(crate) fn capacity(&self, group: &Group) -> &GroupCapacity {
        &self.group_capacities[group.capacity as usize]
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

    /// Returns whether CPU `a` has a higher priority than CPU `b` (sched_asym_prefer).
    pub(crate) fn prefers(&self, a: CpuId, b: CpuId) -> bool {
        self.priorities.get(a.index()) > self.priorities.get(b.index())
    }

    /// Returns the first CPU that has the highest priority.
    fn most_preferred(&self, cpus: &[CpuId]) -> CpuId {
        let better = |best, &cpu| if self.prefers(cpu, best) { cpu } else { best };
        cpus.iter().fold(cpus[0], better)
    }

    /// Returns the CPU's largest domain in which load moves to CPUs of higher priority
    /// (sd_asym_packing).
    pub(crate) fn asym_packing_span(&self, cpu: CpuId) -> Option<&Span> {
        let mut spans = self.levels[cpu]
            .iter()
            .rev()
            .map(|level| &self.spans[level.span as usize]);
        spans.find(|span| span.asym_packing)
    }

    /// Begins an event. `starts_task` says whether the event starts a task of the workload.
    #[inline]
    pub(crate) fn begin_event(&mut self, starts_task: bool) {
        self.snapshot.begin_event(starts_task);
    }

    /// Records that the load of a CPU may change: a task joins or leaves its queue, or the CPU
    /// schedules.
    #[inline]
    pub(crate) fn note_change(&mut self, cpu: CpuId) {
        self.snapshot.note_change(cpu);
    }

    /// Returns whether two CPUs share an LLC (cpus_share_cache).
    pub(crate) fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        self.llc_index[a] == self.llc_index[b]
    }

    pub(crate) fn llc(&mut self, cpu: CpuId) -> &mut Llc {
        &mut self.llcs[self.llc_index[cpu] as usize]
    }

    pub(crate) fn domain_span(&self, cpu: CpuId, level: usize) -> &Span {
        &self.spans[self.levels[cpu][level].span as usize]
    }

    /// Returns the CPU's smallest domain that contains CPUs of all capacities
    /// (sd_asym_cpucapacity).
    pub(crate) fn asym_span(&self, cpu: CpuId) -> Option<&Span> {
        let mut spans = self.levels[cpu].iter().map(|level| &self.spans[level.span as usize]);
        spans.find(|span| self.asym && self.capacities.iter().all(|(_, cpus)| cpus.intersects(&span.set)))
    }

    /// Records whether all fair tasks of a CPU have the policy SCHED_IDLE.
    pub(crate) fn update_idle_policy(&mut self, cpu: CpuId, cfs: &CfsRq) {
        let only = cfs.h_nr_idle > 0 && cfs.h_nr_idle == cfs.h_nr_queued;
        if only != self.idle_policy_cpus.contains(cpu) {
            self.idle_policy_cpus.set(cpu, only);
        }
    }
}

impl Llc {
    fn new(nr_cpus: u32, cpus: &[u32]) -> Llc {
        let weight = cpus.len() as u32;
        let set = CpuSet::from_cpus(nr_cpus, cpus);
        let used = |word: &u64| *word != 0;
        let first = set.words().iter().position(used).unwrap_or(0);
        let end = set.words().iter().rposition(used).map_or(0, |last| last + 1);
        Llc {
            set,
            words: first..end,
            weight,
            has_idle_cores: true,
            nr_idle_scan: weight,
        }
    }
}

impl Level {
    fn new(span: u32, local: u32, weight: u32) -> Level {
        Level {
            span,
            local,
            balance_interval: u64::from(weight),
            last_balance: 0,
            nr_balance_failed: 0,
            max_newidle_lb_cost: 0,
            last_decay: 0,
            // The initial success rate is one half.
            newidle_call: 512,
            newidle_success: 256,
            newidle_ratio: 512,
            newidle_stamp_ns: 0,
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

/// Returns the different capacities of the online CPUs, greatest first, each with the CPUs that
/// have it.
fn capacities(topology: &Topology, online: &CpuSet) -> Vec<(u64, CpuSet)> {
    let mut found: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
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
