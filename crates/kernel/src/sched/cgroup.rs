// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups while a machine runs: made, removed, changed, and tasks attached to them (kernel/cgroup/cgroup.c, cpuset.c and the
//! cpu controller of kernel/sched/core.c), done by a user at no cost.
//!
//! Weights and limits reach the policy through its callbacks, and the fair class, whose tasks they divide time between;
//! cpuset.cpus is what tasks may run on. Not there: other controllers, partitions, freezing, kill.

use crate::hardware::cpuset::CpuSet;
use crate::simulation::id::TaskId;
use std::collections::BTreeMap;
use workload::{Action, Workload};

/// No limit (RUNTIME_INF in us), and the period it would be for.
pub(super) const NO_QUOTA_US: u64 = u64::MAX;

pub(super) const PERIOD_US: u64 = 100_000;

/// A cgroup and its cpu controller's settings.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// It is there.
    pub online: bool,
    /// cpu.weight
    pub weight: u32,
    /// cpu.idle
    pub idle: bool,
    /// cpu.max: [`NO_QUOTA_US`] is "max".
    pub quota_us: u64,
    pub period_us: u64,
    /// cpu.max.burst
    pub burst_us: u64,
    /// cpuset.cpus
    pub(super) cpus: Option<CpuSet>,
}

impl Cgroup {
    pub(super) fn new(weight: u32, online: bool) -> Cgroup {
        Cgroup {
            online,
            weight,
            idle: false,
            quota_us: NO_QUOTA_US,
            period_us: PERIOD_US,
            burst_us: 0,
            cpus: None,
        }
    }
}

/// All cgroups of a workload, by their number.
#[derive(Debug, Default)]
pub struct Cgroups {
    pub(super) list: Vec<Cgroup>,
    pub(super) cpusets: bool,
    /// `p->user_cpus_ptr`, of those that asked for CPUs. Only where there are cpusets.
    pub(super) user_cpus: BTreeMap<TaskId, CpuSet>,
    /// What a user wanted and did not get, a sentence each.
    pub refused: Vec<String>,
}

impl Cgroups {
    pub(crate) fn new(workload: &Workload) -> Cgroups {
        let cgroup = |(index, known): (usize, &workload::Cgroup)| {
            Cgroup::new(known.weight, !workload.is_made_later(index as u32))
        };
        let mut list: Vec<Cgroup> = workload.cgroups.iter().enumerate().map(cgroup).collect();
        if list.is_empty() {
            list.push(Cgroup::new(100, true));
        }
        let cpusets = workload
            .disturbances
            .iter()
            .any(|d| matches!(d.what, Action::Cpus { .. }));
        Cgroups {
            list,
            cpusets,
            ..Cgroups::default()
        }
    }

    /// There is a cpuset, or will be.
    pub(crate) fn has_cpusets(&self) -> bool {
        self.cpusets
    }

    pub fn get(&self, cgroup: u32) -> &Cgroup {
        &self.list[cgroup as usize]
    }
}

/// What two sets share; `None` if nothing.
pub(super) fn both(a: &CpuSet, b: &CpuSet) -> Option<CpuSet> {
    let mut shared = a.clone();
    a.iter()
        .filter(|&cpu| !b.contains(cpu))
        .for_each(|cpu| shared.remove(cpu));
    (!shared.is_empty()).then_some(shared)
}
