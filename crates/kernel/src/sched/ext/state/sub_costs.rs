// SPDX-License-Identifier: GPL-2.0-only
//! Costs of sub-schedulers, which the results of a run list beside those of the root policy.

use crate::machine::Machine;
use crate::sched::ext::state::core::Core;
use crate::sched::ext::state::ops_table::{Called, NR_OPS, OpsTable};
use crate::sched::ext::state::scheds::SchedId;
use bpf::engine::{Gap, PathCounts, Vm};
use bpf::image::Code;
use bpf::sanitizer::CheckCounts;

/// Costs of a sub-scheduler. They outlive its maps, which are freed when it ends.
#[derive(Clone, Debug)]
pub struct SubCosts {
    /// Index of its cgroup in the workload.
    pub cgroup: u32,
    pub code: Code,
    pub ops: OpsTable,
    /// Calls of each callback, indexed by `Op as usize`.
    pub called: [Called; NR_OPS],
    /// Executed instructions of each call path. Empty unless instructions are counted.
    pub paths: Vec<PathCounts>,
    /// Number of checks that the sanitizer has made, or `None` if it is off.
    pub checks: Option<CheckCounts>,
    /// Accesses to unallocated pages of the arena, by instruction.
    pub gaps: Vec<(usize, Gap)>,
}

impl Core {
    /// Returns the costs of all sub-schedulers that have been attached to the current root policy, in
    /// the order in which they ended. Those that still run come last.
    pub fn sub_costs(&self) -> Vec<SubCosts> {
        let live = self.live_subs().filter_map(|id| self.costs_of(id));
        self.ended_subs.iter().cloned().chain(live).collect()
    }

    /// Returns the cgroups and programs of the sub-schedulers that have not ended.
    pub fn sub_vms(&self) -> Vec<(u32, &Vm<Machine>)> {
        let subs = self.live_subs();
        subs.filter_map(|id| Some((self.sched(id).cgroup, &self.policy_of(id)?.vm)))
            .collect()
    }

    /// Returns the costs of a sub-scheduler, or `None` if it has been removed.
    pub(crate) fn costs_of(&self, id: SchedId) -> Option<SubCosts> {
        let policy = self.policy_of(id)?;
        Some(SubCosts {
            cgroup: self.sched(id).cgroup,
            code: policy.vm.code().clone(),
            ops: policy.ops.clone(),
            called: *self.called_of(id),
            paths: policy.vm.instruction_counts(),
            checks: policy.vm.check_counts(),
            gaps: policy.vm.gaps(),
        })
    }
}
