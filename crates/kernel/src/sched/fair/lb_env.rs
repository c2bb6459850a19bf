// SPDX-License-Identifier: GPL-2.0-only
//! State of one run of the load balancer (struct lb_env).

use crate::machine::Machine;
use crate::sched::fair::state::domains::{Group, GroupCapacity, Level, Span};
use crate::simulation::id::CpuId;

/// State of the CPU that wants to pull tasks (cpu_idle_type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleType {
    Busy,
    Idle,
    NewlyIdle,
}

/// Unit in which `imbalance` is measured (migration_type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Migrate {
    Load,
    Util,
    Task,
    Misfit,
    /// A task that prefers the LLC of the destination (migrate_llc_task).
    LlcTask,
}

/// How well the tasks of a CPU or group can be moved to another node, according to their preferred
/// nodes (enum fbq_type). The earlier a value is in this list, the better it is to move tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Preference {
    /// Some tasks have no preferred node.
    Regular,
    /// Some tasks are not on their preferred node.
    Remote,
    /// All tasks are on their preferred nodes.
    #[default]
    All,
}

/// State of one balancing run (struct lb_env).
pub(super) struct Env {
    pub dst_cpu: CpuId,
    /// CPU on behalf of which the domain is balanced.
    pub cpu: CpuId,
    /// Level of the domain; the smallest domain of a CPU has level 0.
    pub level: usize,
    pub idle: IdleType,
    pub kind: Migrate,
    pub imbalance: i64,
    pub src_cpu: CpuId,
    /// Only CPUs with this preference or an earlier one are sources (fbq_type).
    pub preference: Preference,
    /// CPUs that are excluded from this run. They are destinations that have been tried, and
    /// sources with only pinned tasks.
    pub excluded: Vec<CpuId>,
}

impl Env {
    pub fn span<'a>(&self, m: &'a Machine) -> &'a Span {
        m.domains.domain_span(self.cpu, self.level)
    }

    /// Returns the state of the domain that belongs to `self.cpu`.
    pub fn domain<'a>(&self, m: &'a mut Machine) -> &'a mut Level {
        &mut m.domains.levels[self.cpu.index()][self.level]
    }

    /// Returns whether this run may use a CPU as source or destination.
    pub(crate) fn usable(&self, m: &Machine, cpu: CpuId) -> bool {
        m.online_cpus.contains(cpu) && (self.excluded.is_empty() || !self.excluded.contains(&cpu))
    }

    pub fn idle(&self) -> bool {
        self.idle != IdleType::Busy
    }

    /// Returns the capacity of the group that represents this domain in the next larger domain. It records
    /// whether affinities prevented the balancing of this domain.
    pub fn parent_group<'a>(&self, m: &'a mut Machine) -> Option<&'a mut GroupCapacity> {
        let above = m.domains.levels[self.cpu.index()].get(self.level + 1)?;
        let group = &m.domains.spans[above.span as usize].groups[above.local as usize];
        Some(&mut m.domains.group_capacities[group.capacity as usize])
    }

    /// Returns the group of the domain that contains `self.cpu`.
    pub fn local_group<'a>(&self, m: &'a Machine) -> &'a Group {
        let domain = &m.domains.levels[self.cpu.index()][self.level];
        &m.domains.spans[domain.span as usize].groups[domain.local as usize]
    }
}
