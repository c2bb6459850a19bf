// SPDX-License-Identifier: GPL-2.0-only
//! Records the highest real-time priority on each CPU (kernel/sched/cpupri.c), and the set of CPUs
//! that have a waiting real-time task which could run on another CPU.

use crate::sched::rt::state::queue::NO_RT;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;

/// Machine-wide state of the real-time class (struct root_domain).
pub struct RootDomain {
    /// For each priority index, the CPUs whose highest queued priority has this index: their number
    /// and their set. The last entry is for CPUs without a real-time task.
    levels: Vec<(u32, CpuSet)>,
    /// Index of the highest queued priority of each CPU.
    priorities: Table<CpuId, u32>,
    /// CPUs with a waiting real-time task whose affinity has several CPUs (rto_mask).
    pub overloaded: CpuSet,
    pub nr_overloaded: u32,
}

impl RootDomain {
    pub fn new(nr_cpus: u32) -> RootDomain {
        let mut levels: Vec<(u32, CpuSet)> = (0..=NO_RT).map(|_| (0, CpuSet::empty(nr_cpus))).collect();
        levels[NO_RT as usize] = (nr_cpus, CpuSet::all(nr_cpus));
        RootDomain {
            levels,
            priorities: vec![NO_RT; nr_cpus as usize].into(),
            overloaded: CpuSet::empty(nr_cpus),
            nr_overloaded: 0,
        }
    }

    /// Records the priority index of the highest real-time priority that is queued on a CPU
    /// (cpupri_set).
    pub(crate) fn set(&mut self, cpu: CpuId, prio: u32) {
        let old = std::mem::replace(&mut self.priorities[cpu], prio);
        if old == prio {
            return;
        }
        let (nr, cpus) = &mut self.levels[old as usize];
        *nr -= 1;
        cpus.remove(cpu);
        let (nr, cpus) = &mut self.levels[prio as usize];
        *nr += 1;
        cpus.insert(cpu);
    }

    /// Records whether a CPU has a waiting real-time task that could run elsewhere
    /// (rt_set_overload).
    pub(crate) fn set_overloaded(&mut self, cpu: CpuId, overloaded: bool) {
        if self.overloaded.contains(cpu) != overloaded {
            self.overloaded.set(cpu, overloaded);
            self.nr_overloaded = self.nr_overloaded - u32::from(!overloaded) + u32::from(overloaded);
        }
    }

    /// Finds the lowest priority level with a CPU that is `usable`, and returns all CPUs of this level.
    /// Returns `None` if no such level is below `prio` (cpupri_find).
    pub(crate) fn find(&self, prio: u32, usable: impl Fn(CpuId) -> bool) -> Option<&CpuSet> {
        let lower = self.levels[prio as usize + 1..].iter().rev().filter(|(nr, _)| *nr > 0);
        lower.map(|(_, cpus)| cpus).find(|cpus| cpus.iter().any(&usable))
    }
}
