// SPDX-License-Identifier: GPL-2.0-only
//! How busy a group of CPUs is, for balancing and for placing new tasks (struct sg_lb_stats).

use super::domains::{Group, Span};

/// What a group is like, by rising urgency to pull from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupType {
    #[default]
    HasSpare,
    /// No spare capacity, but nobody competes.
    FullyBusy,
    /// A task is too big for its CPU.
    MisfitTask,
    /// A core's threads are busy while another core could help.
    SmtBalance,
    /// Affinity was in the way below.
    Imbalanced,
    Overloaded,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    /// Load by capacity; only of overloaded groups, when placing also of fully busy ones.
    pub avg_load: u64,
    pub load: u64,
    pub capacity: u64,
    pub min_capacity: u64,
    pub max_capacity: u64,
    pub util: u64,
    pub runnable: u64,
    /// Tasks of all classes, and fair ones that can run.
    pub nr_running: u32,
    pub nr_fair: u32,
    pub idle_cpus: u32,
    pub weight: u32,
    pub misfit_load: u64,
    pub smt_balance: bool,
    pub kind: GroupType,
}

impl Stats {
    pub fn new(group: &Group) -> Stats {
        Stats {
            weight: group.cpus.len() as u32,
            min_capacity: u64::MAX,
            ..Stats::default()
        }
    }

    pub fn add_capacity(&mut self, capacity: u64) {
        self.capacity += capacity;
        self.min_capacity = self.min_capacity.min(capacity);
        self.max_capacity = self.max_capacity.max(capacity);
    }

    /// group_classify.
    pub fn classify(&mut self, span: &Span, group: &Group) {
        let pct = span.imbalance_pct;
        self.kind = if self.overloaded(pct) {
            GroupType::Overloaded
        } else if group.imbalance {
            GroupType::Imbalanced
        } else if self.smt_balance {
            GroupType::SmtBalance
        } else if self.misfit_load > 0 {
            GroupType::MisfitTask
        } else if self.has_capacity(pct) {
            GroupType::HasSpare
        } else {
            GroupType::FullyBusy
        };
    }

    fn overloaded(&self, pct: u64) -> bool {
        self.nr_running > self.weight
            && (self.capacity * 100 < self.util * pct || self.capacity * pct < self.runnable * 100)
    }

    fn has_capacity(&self, pct: u64) -> bool {
        self.nr_running < self.weight
            || (self.capacity * pct >= self.runnable * 100 && self.capacity * 100 > self.util * pct)
    }

    pub fn set_avg_load(&mut self) {
        self.avg_load = self.load * 1024 / self.capacity.max(1);
    }
}

/// An imbalance between NUMA groups that is left alone while few tasks run (adjust_numa_imbalance).
pub(super) fn adjust_numa_imbalance(imbalance: i64, dst_running: u32, imb_numa_nr: u32) -> i64 {
    /// A pair of tasks that talk to each other.
    const NUMA_IMBALANCE_MIN: i64 = 2;
    if dst_running <= imb_numa_nr && imbalance <= NUMA_IMBALANCE_MIN {
        0
    } else {
        imbalance
    }
}
