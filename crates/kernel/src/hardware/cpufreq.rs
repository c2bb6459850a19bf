// SPDX-License-Identifier: GPL-2.0-only
//! CPU frequencies, as set by scx_bpf_cpuperf_set() through schedutil
//! (kernel/sched/cpufreq_schedutil.c).
//!
//! A CPU runs at 1.25 times the policy's target (map_util_perf()), and at least at the machine's
//! `cpuperf_min`. A change takes effect immediately: transition times and schedutil's rate limit
//! are not modelled. CPUs run at full speed without a policy, and under a policy that sets no
//! target, because the fair class' utilisation does not control frequencies here. The frequency
//! affects only tasks' work, not the cost of the kernel and the policy.

use crate::machine::Machine;
use crate::policy::layout::enums::SCX_CPUPERF_ONE;
use crate::simulation::id::CpuId;

const ONE: u64 = SCX_CPUPERF_ONE;

impl Machine {
    /// Returns the performance level of a CPU, 1..=1024, where 1024 is its full speed
    /// (arch_scale_freq_capacity()).
    pub(crate) fn perf_level(&self, cpu: CpuId) -> u64 {
        let target = u64::from(self.rq_struct(cpu).scx.cpuperf_target);
        (target + target / 4).clamp(u64::from(self.spec.cpuperf_min), ONE)
    }

    /// Sets the policy's performance target of a CPU, 0..=1024 (cpufreq_update_util()).
    pub(crate) fn set_perf_target(&mut self, cpu: CpuId, target: u32) {
        self.rq_struct(cpu).scx.cpuperf_target = target;
        let full = u64::from(self.spec.topology.cpus[cpu.index()].capacity);
        self.rqs[cpu].capacity = (full * self.perf_level(cpu) / ONE).max(1);
        self.update_speed(cpu);
    }

    /// Sets all CPUs to full speed. Called when a policy is loaded or unloaded.
    pub(crate) fn reset_perf_targets(&mut self) {
        for cpu in self.cpus() {
            self.set_perf_target(cpu, ONE as u32);
        }
    }
}
