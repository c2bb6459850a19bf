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

mod build;

use crate::sched::fair::state::entity::CfsRq;
use crate::sched::fair::state::snapshot::Snapshot;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use crate::simulation::prandom::Prandom;
use crate::simulation::table::Table;
use std::ops::Range;

/// Base slice before scaling (normalized_sysctl_sched_base_slice), ns.
pub(crate) const BASE_SLICE_NS: u64 = 700_000;

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
    /// CPUs of `idle` that their domains count as busy, because these were built while the CPUs were idle
    /// (nr_busy_cpus).
    pub counted_busy: CpuSet,
    pub next_balance: u64,
    /// Time until which the load of idle CPUs need not be updated.
    pub next_blocked: u64,
    /// Whether the load of an idle CPU is not 0, so that it decays.
    pub has_blocked_load: bool,
    /// Whether a CPU has become idle since `next_balance` was calculated.
    pub needs_update: bool,
}

impl Nohz {
    /// Handles a CPU that is busy at its tick, or goes offline (nohz_balance_exit_idle).
    pub(crate) fn exit_idle(&mut self, cpu: CpuId) {
        self.idle.remove(cpu);
        self.counted_busy.remove(cpu);
    }

    fn new(nr_cpus: u32, idle: &CpuSet) -> Nohz {
        Nohz {
            idle: idle.clone(),
            counted_busy: CpuSet::empty(nr_cpus),
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
    /// The same index, or NO_LLC for CPUs without domains: offline and isolated ones (sd_llc_id).
    llc_ids: Table<CpuId, u32>,
    /// Whether a core has more than one online thread (sched_smt_present).
    pub(crate) smt_active: bool,
    /// Priority of each CPU (arch_asym_cpu_priority). Empty if CPUs have no priorities.
    pub(crate) priorities: Vec<u32>,
    /// Whether CPUs differ in capacity.
    pub(crate) asym: bool,
    /// The different capacities of online CPUs, greatest first, each with the CPUs that have it.
    pub(crate) capacities: Vec<(u64, CpuSet)>,
    /// The different capacities of all CPUs, also of those that are offline (asym_cap_list).
    pub(crate) all_capacities: Vec<(u64, CpuSet)>,
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

impl Domains {
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

    /// Returns whether two CPUs share an LLC. A CPU without domains shares none with a CPU in a domain
    /// (cpus_share_cache).
    pub(crate) fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        a == b || self.llc_ids[a] == self.llc_ids[b]
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
