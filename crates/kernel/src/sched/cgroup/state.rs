// SPDX-License-Identifier: GPL-2.0-only
//! State of the cgroups in the simulated kernel: the settings of the cpu and cpuset controllers.
//!
//! A workload can contain disturbances (events that it imposes on the machine) that create, remove
//! and change cgroups during the run (see `cgroup_change`). They represent a user's writes to
//! cgroupfs. No simulated CPU is charged for them.
//!
//! - Weights and limits are passed to the callbacks of the policy. The fair class uses them to
//!   divide CPU time.
//! - cpuset.cpus limits the CPUs of tasks of all classes.
//! - Other controllers, cpuset partitions, freezing and cgroup.kill are not modelled.
//!
//! Sources: kernel/cgroup/cgroup.c, kernel/cgroup/cpuset.c, the cpu controller in
//! kernel/sched/core.c.

use crate::simulation::cpuset::CpuSet;
use crate::simulation::id::TaskId;
use std::collections::BTreeMap;
use workload::{Action, Workload};

/// Value of `quota_us` that means "no limit" (RUNTIME_INF in us).
pub(crate) const NO_QUOTA_US: u64 = u64::MAX;

/// Default period of cpu.max, us.
pub(crate) const PERIOD_US: u64 = 100_000;

/// A cgroup and the settings of its cpu and cpuset controllers.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// Whether the cgroup exists at the moment.
    pub online: bool,
    /// Value of cpu.weight.
    pub weight: u32,
    /// Value of cpu.idle.
    pub idle: bool,
    /// Quota of cpu.max, us. [`NO_QUOTA_US`] means "max", that is, no limit.
    pub quota_us: u64,
    /// Period of cpu.max, us.
    pub period_us: u64,
    /// Value of cpu.max.burst, us.
    pub burst_us: u64,
    /// CPUs in cpuset.cpus. `None` if it is empty or was never written.
    pub(crate) cpus: Option<CpuSet>,
}

impl Cgroup {
    pub(crate) fn new(weight: u32, online: bool) -> Cgroup {
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

/// All cgroups of a workload, indexed by their number.
#[derive(Debug, Default)]
pub struct Cgroups {
    pub(crate) list: Vec<Cgroup>,
    /// Whether any disturbance of the workload writes cpuset.cpus.
    pub(crate) cpusets: bool,
    /// CPUs that each task requested with sched_setaffinity() (`p->user_cpus_ptr`). They are
    /// recorded only if `cpusets` is set.
    pub(crate) user_cpus: BTreeMap<TaskId, CpuSet>,
    /// Messages about failed cgroup operations of the user, one for each.
    pub refused: Vec<String>,
}

impl Cgroups {
    pub(crate) fn new(workload: &Workload) -> Cgroups {
        let cgroup = |(index, known): (usize, &workload::Cgroup)| {
            Cgroup::new(known.weight, !workload.is_created_later(index as u32))
        };
        let mut list: Vec<Cgroup> = workload.cgroups.iter().enumerate().map(cgroup).collect();
        if list.is_empty() {
            list.push(Cgroup::new(100, true));
        }
        let cpusets = workload
            .disturbances
            .iter()
            .any(|d| matches!(d.action, Action::Cpus { .. }));
        Cgroups {
            list,
            cpusets,
            ..Cgroups::default()
        }
    }

    /// Returns whether any disturbance of the workload writes cpuset.cpus.
    pub(crate) fn has_cpusets(&self) -> bool {
        self.cpusets
    }

    pub fn get(&self, cgroup: u32) -> &Cgroup {
        &self.list[cgroup as usize]
    }
}

/// Returns the CPUs that are in both sets, or `None` if there are none.
pub(crate) fn intersection(a: &CpuSet, b: &CpuSet) -> Option<CpuSet> {
    let mut shared = a.clone();
    a.iter()
        .filter(|&cpu| !b.contains(cpu))
        .for_each(|cpu| shared.remove(cpu));
    (!shared.is_empty()).then_some(shared)
}
