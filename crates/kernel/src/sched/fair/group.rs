// SPDX-License-Identifier: GPL-2.0-only
//! Load statistics of a group of CPUs (struct sg_lb_stats). Load balancing and the placement of new
//! tasks use them.

use crate::state::fair::domains::{Group, Span};

/// State of a group (group_type). The later a state is in this list, the more urgent it is to pull
/// tasks from the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupType {
    /// The group has spare capacity for more tasks.
    #[default]
    HasSpare,
    /// The group has no spare capacity, but its tasks do not compete for CPUs.
    FullyBusy,
    /// A task of the group needs a faster CPU than its current one.
    MisfitTask,
    /// The group is a core with several runnable tasks, and the CPU that wants to pull is idle.
    SmtBalance,
    /// An idle CPU of higher priority could run the group's tasks.
    AsymPacking,
    /// Affinities prevented the balancing of the domain to which the group corresponds.
    Imbalanced,
    /// Tasks of the group prefer the LLC of the CPU that wants to pull.
    LlcBalance,
    /// Tasks compete for CPUs.
    Overloaded,
}

/// Load statistics of a group (struct sg_lb_stats).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    /// load * 1024 / capacity. For balancing, it is set for overloaded groups only. For placement,
    /// it is also set for fully busy groups.
    pub avg_load: u64,
    pub load: u64,
    pub capacity: u64,
    pub min_capacity: u64,
    pub max_capacity: u64,
    pub util: u64,
    pub runnable: u64,
    /// Number of running and queued tasks of all classes.
    pub nr_running: u32,
    /// Number of runnable fair tasks.
    pub nr_fair: u32,
    pub idle_cpus: u32,
    pub weight: u32,
    /// Number of fair tasks with a preferred node.
    pub nr_numa: u32,
    /// Number of fair tasks that are on their preferred node.
    pub nr_preferred: u32,
    pub misfit_load: u64,
    pub smt_balance: bool,
    pub llc_balance: bool,
    /// Number of fair tasks that prefer the LLC of the CPU that wants to pull.
    pub nr_preferring: u32,
    pub asym_packing: bool,
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

    /// Sets the state of the group (group_classify).
    pub fn classify(&mut self, span: &Span, group: &Group) {
        let pct = span.imbalance_pct;
        self.kind = if self.overloaded(pct) {
            GroupType::Overloaded
        } else if self.llc_balance {
            GroupType::LlcBalance
        } else if group.imbalance {
            GroupType::Imbalanced
        } else if self.asym_packing {
            GroupType::AsymPacking
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

    /// Sets `avg_load`.
    pub fn set_avg_load(&mut self) {
        self.avg_load = self.load * 1024 / self.capacity.max(1);
    }
}

/// Returns the imbalance between two NUMA groups. If the imbalance is small and only few tasks run
/// in the destination, the result is 0 (adjust_numa_imbalance).
pub(super) fn adjust_numa_imbalance(imbalance: i64, dst_running: u32, imb_numa_nr: u32) -> i64 {
    /// Imbalance that is allowed, so that two tasks that communicate can stay on one node.
    const NUMA_IMBALANCE_MIN: i64 = 2;
    if dst_running <= imb_numa_nr && imbalance <= NUMA_IMBALANCE_MIN {
        0
    } else {
        imbalance
    }
}
