// SPDX-License-Identifier: GPL-2.0-only
//! Load statistics of a group of CPUs (struct sg_lb_stats). Load balancing and the placement of new
//! tasks use them.

use crate::sched::fair::state::domains::{Group, GroupCapacity, Span};

/// State of a group (group_type). The later a state is in this list, the more urgent it is to pull
/// tasks from the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupType {
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

/// Order of groups for the placement of a task. A group with a lower rank is more suitable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    kind: GroupType,
    first: u64,
    second: u64,
}

impl Rank {
    /// Rank of a group of `nr_cpus` idle CPUs without utilization.
    pub fn idle(nr_cpus: u32) -> Rank {
        Rank {
            kind: GroupType::HasSpare,
            first: u64::MAX - u64::from(nr_cpus),
            second: 0,
        }
    }
}

/// Load statistics of a group (struct sg_lb_stats).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
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
    pub fn new(group: &Group, capacity: &GroupCapacity) -> Stats {
        Stats {
            weight: group.cpus.len() as u32,
            capacity: capacity.sum,
            min_capacity: capacity.min,
            max_capacity: capacity.max,
            ..Stats::default()
        }
    }

    pub fn add_capacity(&mut self, capacity: u64) {
        self.capacity += capacity;
        self.min_capacity = self.min_capacity.min(capacity);
        self.max_capacity = self.max_capacity.max(capacity);
    }

    /// Sets the state of the group (group_classify).
    pub fn classify(&mut self, span: &Span, imbalance: bool) {
        self.set_kind(span.imbalance_pct, imbalance);
    }

    /// Sets the state of the group, and its average load if the placement of a task needs it.
    pub fn classify_for_placement(&mut self, imbalance_pct: u64, imbalance: bool) {
        self.set_kind(imbalance_pct, imbalance);
        self.avg_load = 0;
        if matches!(self.kind, GroupType::FullyBusy | GroupType::Overloaded) {
            self.set_avg_load();
        }
    }

    fn set_kind(&mut self, pct: u64, imbalance: bool) {
        self.kind = if self.overloaded(pct) {
            GroupType::Overloaded
        } else if self.llc_balance {
            GroupType::LlcBalance
        } else if imbalance {
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

    /// Returns how suitable the group is for a task (update_pick_idlest).
    pub fn rank(&self) -> Rank {
        let (first, second) = match self.kind {
            GroupType::Overloaded | GroupType::FullyBusy => (self.avg_load, 0),
            GroupType::MisfitTask => (u64::MAX - self.max_capacity, 0),
            GroupType::HasSpare => (u64::MAX - u64::from(self.idle_cpus), self.util),
            GroupType::LlcBalance | GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => (0, 0),
        };
        Rank {
            kind: self.kind,
            first,
            second,
        }
    }

    /// Replaces the sample of one CPU in the sums by a new sample. If `before` is `None`, the sums
    /// do not contain the CPU yet. If the CPU's capacity has changed, the caller must also call
    /// [`Stats::limit_capacity`].
    pub fn replace(&mut self, before: Option<&Stats>, now: &Stats) {
        if let Some(before) = before {
            self.load -= before.load;
            self.util -= before.util;
            self.runnable -= before.runnable;
            self.capacity -= before.capacity;
            self.nr_running -= before.nr_running;
            self.nr_fair -= before.nr_fair;
            self.idle_cpus -= before.idle_cpus;
        } else {
            self.weight += 1;
        }
        self.load += now.load;
        self.util += now.util;
        self.runnable += now.runnable;
        self.add_capacity(now.capacity);
        self.nr_running += now.nr_running;
        self.nr_fair += now.nr_fair;
        self.idle_cpus += now.idle_cpus;
    }

    /// Sets the smallest and the greatest capacity to those of the CPUs with `capacities`.
    pub fn limit_capacity(&mut self, capacities: impl Iterator<Item = u64>) {
        (self.min_capacity, self.max_capacity) = (u64::MAX, 0);
        for capacity in capacities {
            self.min_capacity = self.min_capacity.min(capacity);
            self.max_capacity = self.max_capacity.max(capacity);
        }
    }

    pub fn set_avg_load(&mut self) {
        self.avg_load = self.load * 1024 / self.capacity.max(1);
    }
}

/// Returns the imbalance between two NUMA groups. If the imbalance is small and only few tasks run
/// in the destination, the result is 0 (adjust_numa_imbalance).
pub(crate) fn adjust_numa_imbalance(imbalance: i64, dst_running: u32, imb_numa_nr: u32) -> i64 {
    /// Imbalance that is allowed, so that two tasks that communicate can stay on one node.
    const NUMA_IMBALANCE_MIN: i64 = 2;
    if dst_running <= imb_numa_nr && imbalance <= NUMA_IMBALANCE_MIN {
        0
    } else {
        imbalance
    }
}
