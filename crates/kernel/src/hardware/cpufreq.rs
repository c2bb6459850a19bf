// SPDX-License-Identifier: GPL-2.0-only
//! How fast CPUs run, as far as a policy has a say in it: scx_bpf_cpuperf_set() and schedutil (kernel/sched/cpufreq_schedutil.c)
//! between them.
//!
//! A CPU runs at the level of its policy's target and a quarter more (map_util_perf), at least at the machine's `cpuperf_min`, and
//! changes at once: transition times and schedutil's rate limit are left out. Without a policy, and with one that sets
//! no target, CPUs run at full speed: utilisation of the fair class governs nothing. Only tasks' work is slower; what the kernel and
//! the policy do costs the same at each level.

use crate::machine::Machine;
use crate::policy::layout::enums::SCX_CPUPERF_ONE;
use crate::simulation::id::{CpuId, IDLE};

const ONE: u64 = SCX_CPUPERF_ONE;

impl Machine {
    /// The level at which a CPU runs, 1..=1024 of its own full speed (arch_scale_freq_capacity).
    pub(crate) fn perf_level(&self, cpu: CpuId) -> u64 {
        let target = u64::from(self.rq_struct(cpu).scx.cpuperf_target);
        (target + target / 4).clamp(u64::from(self.spec.cpuperf_min), ONE)
    }

    /// Takes a target of the policy's, 0..=1024 (cpufreq_update_util).
    pub(crate) fn set_perf_target(&mut self, cpu: CpuId, target: u32) {
        self.rq_struct(cpu).scx.cpuperf_target = target;
        let full = u64::from(self.spec.topology.cpus[cpu.index()].capacity);
        let capacity = (full * self.perf_level(cpu) / ONE).max(1);
        if capacity == self.rqs[cpu].capacity {
            return;
        }
        // What was done until now was done at the old speed.
        self.account(cpu);
        let rq = &mut self.rqs[cpu];
        rq.capacity = capacity;
        if rq.curr != IDLE && !rq.spinning && rq.online {
            self.arm_step(cpu);
        }
    }

    /// A policy comes or goes: all CPUs at full speed.
    pub(crate) fn reset_perf_targets(&mut self) {
        for cpu in self.cpus() {
            self.set_perf_target(cpu, ONE as u32);
        }
    }
}
