// SPDX-License-Identifier: GPL-2.0-only
//! Frequencies of CPUs (drivers/cpufreq). Frequencies are in 1/1024 of the highest frequency of
//! each CPU. The governor decides which frequency a CPU requests:
//!
//! | governor | requested frequency |
//! |---|---|
//! | none | 1.25 times the target that the policy (BPF scheduler) has set, at once (map_util_perf()); full without a policy |
//! | performance | full |
//! | schedutil | see `sched::schedutil` |
//!
//! A CPU runs at the requested frequency, at least at the machine's `cpuperf_min`, and at most at
//! the frequency that its package can reach with the present number of active cores (turbo). A core
//! is active while one of its CPUs runs a task.
//!
//! The frequency affects only the work of tasks, not the cost of the kernel and of the policy.

pub mod state;

use crate::hardware::cpufreq::state::{BusyFrequency, CpuFrequency};
use crate::layout::SCHED_CAPACITY_SCALE;
use crate::machine::Machine;
use crate::simulation::id::CpuId;
use machine::FrequencyGovernor;

impl Machine {
    /// Returns the frequency of a CPU, from 1 to 1024. 1024 is the full speed of that CPU
    /// (arch_scale_freq_capacity()).
    pub(crate) fn perf_level(&self, cpu: CpuId) -> u64 {
        self.cpufreq.cpus[cpu].current
    }

    /// Sets the performance target of a CPU, from 0 to 1024, as requested by the policy.
    pub(crate) fn set_perf_target(&mut self, cpu: CpuId, target: u32) {
        self.layout.rq_struct_mut(cpu).scx.cpuperf_target = target;
        match self.cpufreq.governor {
            FrequencyGovernor::Targets => {
                let target = u64::from(target);
                self.request_frequency(cpu, target + target / 4);
            }
            FrequencyGovernor::Performance => {}
            FrequencyGovernor::Schedutil => self.cpufreq_update_util(cpu, false),
        }
    }

    /// Resets the targets of all CPUs. Called when a policy is loaded and when it ends.
    pub(crate) fn reset_perf_targets(&mut self) {
        for cpu in self.cpus() {
            self.set_perf_target(cpu, SCHED_CAPACITY_SCALE as u32);
        }
    }

    /// Makes a CPU run at the frequency `level`, as far as its limits allow this.
    pub(crate) fn request_frequency(&mut self, cpu: CpuId, level: u64) {
        let least = u64::from(self.spec.cpuperf_min);
        self.cpufreq.cpus[cpu].requested = level.clamp(least, SCHED_CAPACITY_SCALE);
        self.apply_frequency(cpu);
    }

    /// Sets the frequency of a CPU to the requested frequency or to the highest that is possible
    /// now.
    fn apply_frequency(&mut self, cpu: CpuId) {
        let now = self.now;
        let limit = self.cpufreq.limit(cpu);
        let state = &mut self.cpufreq.cpus[cpu];
        let level = state.requested.min(limit);
        state.count(now);
        state.current = level;
        #[cfg(test)]
        self.cpufreq.changes.push((now, cpu, level));
        self.update_clock_pelt(cpu);
        let known = u64::from(self.spec.topology.cpus[cpu.index()].capacity);
        let full = u64::from(self.spec.speed(cpu.nr()));
        let rq = &mut self.rqs[cpu];
        rq.capacity = (full * level / SCHED_CAPACITY_SCALE).max(1);
        rq.known_capacity = (known * level / SCHED_CAPACITY_SCALE).max(1);
        self.update_speed(cpu);
    }

    /// Records that a CPU has switched from the idle task (`busy`) or to it. A change of the number
    /// of active cores changes the highest frequency of all CPUs of the package.
    pub(super) fn track_busy(&mut self, cpu: CpuId, busy: bool) {
        let now = self.now;
        let core = self.spec.topology.cpus[cpu.index()].core as usize;
        let freq = &mut self.cpufreq;
        let state = &mut freq.cpus[cpu];
        state.count(now);
        state.busy = busy;
        state.idle_calls += u64::from(!busy);
        let package = freq.package_of[cpu.index()];
        let threads = &mut freq.busy_threads[core];
        let cores = &mut freq.packages[package].active_cores;
        let was_active = *threads > 0;
        if busy {
            *threads += 1;
        } else {
            *threads -= 1;
        }
        match (was_active, *threads > 0) {
            (false, true) => *cores += 1,
            (true, false) => *cores -= 1,
            _ => return,
        }
        if freq.turbo.is_empty() {
            return;
        }
        for index in 0..self.cpufreq.packages[package].cpus.len() {
            let cpu = self.cpufreq.packages[package].cpus[index];
            let state = &self.cpufreq.cpus[cpu];
            if state.current != state.requested.min(self.cpufreq.limit(cpu)) {
                self.apply_frequency(cpu);
            }
        }
    }

    /// Returns the frequency of each CPU over the time in which the CPU was busy, until the last
    /// change or the end of the run. Returns an empty list if the machine file names neither a
    /// governor nor turbo frequencies.
    pub fn busy_frequencies(&self) -> Vec<BusyFrequency> {
        let measured = |state: &CpuFrequency| BusyFrequency {
            busy_ns: state.busy_ns,
            mean: state.cycles.checked_div(state.busy_ns.into()).unwrap_or(0) as u64,
        };
        match self.cpufreq.tracks_busy {
            true => self.cpufreq.cpus.iter().map(measured).collect(),
            false => Vec::new(),
        }
    }

    /// Ends the measurement of frequencies at the end of the run.
    pub(crate) fn finish_frequencies(&mut self) {
        let now = self.now;
        self.cpufreq.cpus.iter_mut().for_each(|state| state.count(now));
    }

    /// Verifies the frequency of a CPU.
    ///
    /// # Panics
    /// If the frequency does not follow from the request and the limit.
    pub(super) fn verify_frequency(&self, cpu: CpuId) {
        let state = &self.cpufreq.cpus[cpu];
        let full = u64::from(self.spec.speed(cpu.nr()));
        assert_eq!(
            (state.current, self.rqs[cpu].capacity),
            (
                state.requested.min(self.cpufreq.limit(cpu)),
                (full * state.current / SCHED_CAPACITY_SCALE).max(1)
            ),
            "the frequency of CPU {cpu} is wrong"
        );
    }
}
