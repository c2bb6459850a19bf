// SPDX-License-Identifier: GPL-2.0-only
//! CPU frequencies. A policy (BPF scheduler) sets them with scx_bpf_cpuperf_set() through the
//! governor schedutil (kernel/sched/cpufreq_schedutil.c).
//!
//! The performance level of a CPU is 1.25 times the target that the policy has set
//! (map_util_perf()). It is at least the machine's `cpuperf_min`. A change takes effect
//! immediately: transition times and the rate limit of schedutil are not modelled.
//!
//! All CPUs run at full speed if there is no policy or if the policy sets no target, because the
//! utilization of the fair class does not influence frequencies in this model. The frequency
//! affects only the work of tasks, not the cost of the kernel and of the policy.

use crate::machine::Machine;
use crate::simulation::id::CpuId;

/// Performance level of a CPU at full speed (SCHED_CAPACITY_SCALE).
pub(crate) const SCHED_CAPACITY_SCALE: u64 = 1024;

impl Machine {
    /// Returns the performance level of a CPU, from 1 to 1024. 1024 is the full speed of that CPU
    /// (arch_scale_freq_capacity()).
    pub(crate) fn perf_level(&self, cpu: CpuId) -> u64 {
        let target = u64::from(self.layout.rq_struct(cpu).scx.cpuperf_target);
        (target + target / 4).clamp(u64::from(self.spec.cpuperf_min), SCHED_CAPACITY_SCALE)
    }

    /// Sets the performance target of a CPU, from 0 to 1024, as requested by the policy
    /// (cpufreq_update_util()).
    pub(crate) fn set_perf_target(&mut self, cpu: CpuId, target: u32) {
        self.update_clock_pelt(cpu);
        self.layout.rq_struct_mut(cpu).scx.cpuperf_target = target;
        let full = u64::from(self.spec.topology.cpus[cpu.index()].capacity);
        self.rqs[cpu].capacity = (full * self.perf_level(cpu) / SCHED_CAPACITY_SCALE).max(1);
        self.update_speed(cpu);
    }

    /// Sets all CPUs to full speed. Called when a policy is loaded and when it ends.
    pub(crate) fn reset_perf_targets(&mut self) {
        for cpu in self.cpus() {
            self.set_perf_target(cpu, SCHED_CAPACITY_SCALE as u32);
        }
    }
}
