// SPDX-License-Identifier: GPL-2.0-only
//! Disturbances: events that are caused by no task, such as CPUs going offline, cgroups being
//! changed by an administrator, and interrupts. A workload lists them with their times.

use serde::Serialize;

/// A disturbance and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disturbance {
    /// Time in ns since the start.
    pub at_ns: u64,
    pub action: Action,
}

/// Kind of a disturbance. A cgroup is an index into
/// [`Workload::cgroups`](crate::Workload::cgroups).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Action {
    /// `count` interrupts on a CPU, one every `period_ns`. Each delays the running task by `ns`. If
    /// `count` is `None`, the interrupts never end.
    Irq {
        cpu: u32,
        ns: u64,
        period_ns: u64,
        count: Option<u64>,
    },
    /// The CPU goes offline or comes back online.
    Hotplug { cpu: u32, online: bool },
    /// Creates a cgroup (mkdir), which must not exist yet. Its weight is 100, and it has no limits.
    Create { cgroup: u32 },
    /// Removes a cgroup (rmdir). This fails if it contains tasks or cgroups.
    Remove { cgroup: u32 },
    /// Sets cpu.weight, 1..=10000.
    Weight { cgroup: u32, weight: u32 },
    /// Sets cpu.idle.
    Idle { cgroup: u32, idle: bool },
    /// Sets cpu.max and cpu.max.burst. A quota of `None` is "max".
    Max {
        cgroup: u32,
        quota_us: Option<u64>,
        period_us: u64,
        burst_us: u64,
    },
    /// Sets cpuset.cpus. `None` restores the CPUs of the parent cgroup.
    Cpus { cgroup: u32, cpus: Option<Vec<u32>> },
    /// Moves all tasks with the name `comm` to a cgroup at once. If `process` is set, the other
    /// threads of their processes move, too (as by a write to cgroup.procs). Otherwise only these
    /// tasks move (cgroup.threads).
    Attach { cgroup: u32, comm: String, process: bool },
}

impl crate::Workload {
    /// Returns whether a cgroup does not exist at the start, because a disturbance creates it
    /// later.
    pub fn is_created_later(&self, cgroup: u32) -> bool {
        let mut life = self.disturbances.iter().filter(|d| d.action.cgroup() == Some(cgroup));
        let first = life.find(|d| matches!(d.action, Action::Create { .. } | Action::Remove { .. }));
        first.is_some_and(|d| matches!(d.action, Action::Create { .. }))
    }
}

impl Action {
    /// Returns the cgroup that the action changes, if there is one.
    pub fn cgroup(&self) -> Option<u32> {
        match *self {
            Action::Hotplug { .. } | Action::Irq { .. } => None,
            Action::Create { cgroup }
            | Action::Remove { cgroup }
            | Action::Weight { cgroup, .. }
            | Action::Idle { cgroup, .. }
            | Action::Max { cgroup, .. }
            | Action::Cpus { cgroup, .. }
            | Action::Attach { cgroup, .. } => Some(cgroup),
        }
    }

    /// Returns the CPUs that the action contains.
    pub fn cpus(&self) -> &[u32] {
        match self {
            Action::Hotplug { cpu, .. } | Action::Irq { cpu, .. } => std::slice::from_ref(cpu),
            Action::Cpus { cpus: Some(cpus), .. } => cpus,
            _ => &[],
        }
    }
}
