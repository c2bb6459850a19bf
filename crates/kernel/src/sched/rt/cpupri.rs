// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs run what priority, machine-wide (kernel/sched/cpupri.c), and which have realtime tasks to spare.

use super::queue::NO_RT;
use crate::hardware::cpuset::CpuSet;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;

pub struct RootDomain {
    /// CPUs by their best realtime priority; the last entry are those without.
    levels: Vec<(u32, CpuSet)>,
    priorities: Table<CpuId, u32>,
    /// rto_mask: CPUs with more than one realtime task, one of which may move.
    pub overloaded: CpuSet,
    pub nr_overloaded: u32,
    /// Where the last free choice among CPUs fell (cpumask_any_and_distribute).
    pub(super) last_choice: u32,
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
            last_choice: 0,
        }
    }

    pub(super) fn set(&mut self, cpu: CpuId, prio: u32) {
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

    pub(super) fn set_overloaded(&mut self, cpu: CpuId, overloaded: bool) {
        if self.overloaded.contains(cpu) != overloaded {
            self.overloaded.set(cpu, overloaded);
            self.nr_overloaded = self.nr_overloaded - u32::from(!overloaded) + u32::from(overloaded);
        }
    }

    /// The CPUs of the lowest priority that are online and allowed, if lower than `prio` (cpupri_find).
    pub(super) fn find(&self, prio: u32, allowed: &CpuSet, online: &CpuSet) -> Option<&CpuSet> {
        let lower = self.levels[prio as usize + 1..].iter().rev().filter(|(nr, _)| *nr > 0);
        let usable = |cpus: &CpuSet| {
            let words = cpus.words().iter().zip(allowed.words()).zip(online.words());
            words.into_iter().any(|((a, b), c)| a & b & c != 0)
        };
        lower.map(|(_, cpus)| cpus).find(|cpus| usable(cpus))
    }
}
