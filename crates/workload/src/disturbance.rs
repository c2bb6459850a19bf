// SPDX-License-Identifier: GPL-2.0-only
//! What happens to the machine while tasks run, and is no task's doing: CPUs that come and go, cgroups that an administrator
//! changes, interrupts. A workload names it with its time.

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// ns after the start.
    pub at_ns: u64,
    pub what: Action,
}

/// A cgroup is an index into [`Workload::cgroups`](crate::Workload::cgroups).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Interrupts of this length on a CPU, `period_ns` apart; `None`: for ever. What runs there is held up.
    Irq {
        cpu: u32,
        ns: u64,
        period_ns: u64,
        count: Option<u64>,
    },
    /// A CPU goes offline or comes back.
    Hotplug { cpu: u32, online: bool },
    /// mkdir: until then the cgroup is not there. Its weight is 100 and it has no limits.
    Make { cgroup: u32 },
    /// rmdir, which fails while tasks or other cgroups are in it.
    Remove { cgroup: u32 },
    /// cpu.weight, 1..=10000.
    Weight { cgroup: u32, weight: u32 },
    /// cpu.idle
    Idle { cgroup: u32, idle: bool },
    /// cpu.max and cpu.max.burst; a quota of `None` is "max".
    Max {
        cgroup: u32,
        quota_us: Option<u64>,
        period_us: u64,
        burst_us: u64,
    },
    /// cpuset.cpus; `None`: those of the cgroup above.
    Cpus { cgroup: u32, cpus: Option<Vec<u32>> },
    /// All tasks of this name are moved to the cgroup, as one set: with the other threads of their processes if `process`
    /// (cgroup.procs), else alone (cgroup.threads).
    Attach { cgroup: u32, comm: String, process: bool },
}

impl crate::Workload {
    /// A cgroup that is not there at the start.
    pub fn is_made_later(&self, cgroup: u32) -> bool {
        let mut life = self.disturbances.iter().filter(|d| d.what.cgroup() == Some(cgroup));
        let first = life.find(|d| matches!(d.what, Action::Make { .. } | Action::Remove { .. }));
        first.is_some_and(|d| matches!(d.what, Action::Make { .. }))
    }
}

impl Action {
    /// The cgroup it is about.
    pub fn cgroup(&self) -> Option<u32> {
        match *self {
            Action::Hotplug { .. } | Action::Irq { .. } => None,
            Action::Make { cgroup }
            | Action::Remove { cgroup }
            | Action::Weight { cgroup, .. }
            | Action::Idle { cgroup, .. }
            | Action::Max { cgroup, .. }
            | Action::Cpus { cgroup, .. }
            | Action::Attach { cgroup, .. } => Some(cgroup),
        }
    }

    /// The CPUs it names.
    pub fn cpus(&self) -> &[u32] {
        match self {
            Action::Hotplug { cpu, .. } | Action::Irq { cpu, .. } => std::slice::from_ref(cpu),
            Action::Cpus { cpus: Some(cpus), .. } => cpus,
            _ => &[],
        }
    }
}
