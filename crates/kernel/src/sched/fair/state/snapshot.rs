// SPDX-License-Identifier: GPL-2.0-only
//! Load statistics of CPUs and groups at one instant, see `sched::fair::snapshot`.

use crate::sched::fair::state::domains::{GroupCapacity, Span, Unit};
use crate::sched::fair::state::group::{Rank, Stats};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;

/// Number of groups in a block. A search for the idlest group looks only into blocks that contain
/// an idler group than the best one found so far.
const BLOCK: usize = 64;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// The current event does not start a task.
    #[default]
    Off,
    /// The current event starts a task, and the previous event did not.
    Empty,
    /// The snapshot contains the samples of an earlier placement at the time `Snapshot::now`.
    Valid,
}

/// Numbers of CPUs of a domain that are near the CPUs of an LLC and a node.
#[derive(Clone, Copy)]
pub(crate) struct Near {
    /// Number of the LLC, an index in `Domains::llcs`.
    pub llc: u32,
    pub node: u32,
    /// CPUs of the domain in this LLC.
    pub in_llc: u32,
    /// CPUs of the domain in this node.
    pub in_node: u32,
}

/// Statistics of CPUs and groups. A sample is the statistics of one CPU.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    pub(crate) now: u64,
    /// CPUs that have a sample.
    pub(crate) sampled: Option<CpuSet>,
    /// Domains whose CPUs all have samples, by their index in `Domains::spans`.
    pub(crate) covered: Vec<bool>,
    /// CPUs whose load may have changed since their samples were taken.
    pub(crate) stale: Vec<CpuId>,
    pub(crate) samples: Table<CpuId, Stats>,
    pub(crate) ranks: Table<CpuId, Rank>,
    /// For each domain whose groups are single CPUs, the idlest rank of each [`BLOCK`] of groups.
    /// The list of other domains is empty.
    pub(crate) idlest_of_blocks: Vec<Vec<Rank>>,
    /// Sums of the samples of each domain that is a group of another domain.
    pub(crate) sums: Vec<Stats>,
    pub(crate) sum_ranks: Vec<Rank>,
    /// CPUs that were idle when their samples were taken.
    pub(crate) idle: Option<CpuSet>,
    /// CPUs that had only SCHED_IDLE tasks when their samples were taken.
    pub(crate) sched_idle: Option<CpuSet>,
    /// Upper bound of the times at which the CPUs in `idle` became idle.
    pub(crate) newest_idle: u64,
    /// The CPUs of each node.
    pub(crate) nodes: Vec<CpuSet>,
    /// For each domain, its CPUs near the CPU that read the load of the domain last.
    pub(crate) near: Vec<Option<Near>>,
    /// Number of searches of a domain that used the snapshot.
    #[cfg(test)]
    pub nr_used: u32,
}

impl Snapshot {
    /// Begins an event. `starts_task` says whether the event starts a task of the workload.
    #[inline]
    pub fn begin_event(&mut self, starts_task: bool) {
        if !starts_task {
            self.state = State::Off;
        } else if self.state == State::Off {
            self.state = State::Empty;
        }
    }

    /// Records that the load of a CPU may have changed.
    #[inline]
    pub(crate) fn note_change(&mut self, cpu: CpuId) {
        if self.state == State::Valid {
            self.stale.push(cpu);
        }
    }

    /// Discards all samples if they were taken at another time than `now`.
    pub(crate) fn prepare(&mut self, now: u64, nr_cpus: u32, nr_spans: usize) {
        if self.state == State::Valid && self.now == now {
            return;
        }
        self.state = State::Valid;
        self.now = now;
        self.sampled = Some(CpuSet::empty(nr_cpus));
        self.idle = Some(CpuSet::empty(nr_cpus));
        self.sched_idle = Some(CpuSet::empty(nr_cpus));
        self.stale.clear();
        self.newest_idle = 0;
        self.samples = vec![Stats::default(); nr_cpus as usize].into();
        self.ranks = vec![Rank::default(); nr_cpus as usize].into();
        let no_cpus = Stats {
            min_capacity: u64::MAX,
            ..Stats::default()
        };
        self.sums = vec![no_cpus; nr_spans];
        self.sum_ranks = vec![Rank::default(); nr_spans];
        self.covered = vec![false; nr_spans];
        self.idlest_of_blocks = vec![Vec::new(); nr_spans];
        self.near = vec![None; nr_spans];
    }

    /// Stores the rank of a CPU that is the group `group` of the domain `span`.
    pub(crate) fn set_rank(&mut self, at: u32, span: &Span, group: usize, cpu: CpuId, rank: Rank) {
        self.ranks[cpu] = rank;
        let blocks = &mut self.idlest_of_blocks[at as usize];
        if blocks.is_empty() {
            blocks.resize(span.units.len().div_ceil(BLOCK), Rank::default());
        }
        let first = group / BLOCK * BLOCK;
        let units = &span.units[first..span.units.len().min(first + BLOCK)];
        let ranks = units.iter().map(|unit| match unit {
            Unit::Cpu(cpu) => self.ranks[*cpu],
            Unit::Span(_) => Rank::default(),
        });
        blocks[group / BLOCK] = ranks.min().unwrap_or_default();
    }

    /// Returns the statistics of a group.
    fn stats(&self, unit: Unit) -> &Stats {
        match unit {
            Unit::Cpu(cpu) => &self.samples[cpu],
            Unit::Span(span) => &self.sums[span as usize],
        }
    }

    /// Returns the statistics of the local group `own` of the domain `span`, which has the number
    /// `at`, and the idlest other group with its statistics.
    pub fn idlest(
        &self,
        at: u32,
        span: &Span,
        own: usize,
        capacities: &[GroupCapacity],
    ) -> (Stats, Option<(usize, Stats)>) {
        let imbalance = |group: usize| capacities[span.groups[group].capacity as usize].imbalance;
        let classified = |group: usize| {
            let mut stats = *self.stats(span.units[group]);
            stats.classify_for_placement(span.imbalance_pct, imbalance(group));
            stats
        };
        let rank = |group: usize| match span.units[group] {
            Unit::Cpu(cpu) => self.ranks[cpu],
            Unit::Span(_) if imbalance(group) => classified(group).rank(),
            Unit::Span(span) => self.sum_ranks[span as usize],
        };
        // No group is idler than an idle group of the largest size without utilization.
        let best = Rank::idle(span.largest_group);
        let blocks = &self.idlest_of_blocks[at as usize];
        let mut idlest: Option<(usize, Rank)> = None;
        'search: for part in [own + 1..span.groups.len(), 0..own] {
            let mut group = part.start;
            while group < part.end {
                let end = part.end.min((group / BLOCK + 1) * BLOCK);
                let is_idler = |rank: Rank| idlest.is_none_or(|(_, idlest)| rank < idlest);
                if blocks.get(group / BLOCK).is_some_and(|&rank| !is_idler(rank)) {
                    group = end;
                    continue;
                }
                for group in group..end {
                    let rank = rank(group);
                    if idlest.is_none_or(|(_, idlest)| rank < idlest) {
                        idlest = Some((group, rank));
                        if rank == best {
                            break 'search;
                        }
                    }
                }
                group = end;
            }
        }
        (classified(own), idlest.map(|(group, _)| (group, classified(group))))
    }
}
