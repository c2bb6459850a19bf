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

use crate::machine::Machine;
use crate::simulation::id::CpuId;
use crate::simulation::table::{Id, Table};
use machine::{FrequencyGovernor, MachineSpec};

/// Performance level of a CPU at full speed (SCHED_CAPACITY_SCALE).
pub(crate) const SCHED_CAPACITY_SCALE: u64 = 1024;

/// Frequencies of all CPUs.
pub(crate) struct Cpufreq {
    governor: FrequencyGovernor,
    /// Whether the machine measures mean frequencies, and whether turbo depends on active cores.
    /// Otherwise nothing has to be done when a CPU becomes busy or idle.
    pub(super) tracks_busy: bool,
    cpus: Table<CpuId, CpuFrequency>,
    /// Highest frequency by the number of active cores of a package, less one. Empty if the number
    /// has no influence.
    turbo: Vec<u64>,
    packages: Vec<Package>,
    package_of: Vec<usize>,
    /// Number of busy CPUs of each core.
    busy_threads: Vec<u32>,
    /// Time, CPU and new frequency of each change, for tests.
    #[cfg(test)]
    pub(crate) changes: Vec<(u64, CpuId, u64)>,
}

struct Package {
    cpus: Vec<CpuId>,
    active_cores: usize,
}

/// Mean frequency of a CPU while it was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyFrequency {
    /// Time during which the CPU was busy, ns.
    pub busy_ns: u64,
    /// Mean frequency in 1/1024 of the CPU's full frequency. 0 if the CPU was never busy.
    pub mean: u64,
}

/// Frequency of a CPU.
struct CpuFrequency {
    /// Frequency that the governor requests.
    requested: u64,
    /// Frequency at which the CPU runs.
    current: u64,
    busy: bool,
    /// Time up to which `busy_ns` and `cycles` are counted, ns.
    counted_until: u64,
    /// Time during which the CPU was busy, ns.
    busy_ns: u64,
    /// Sum of frequency times busy time.
    cycles: u128,
    /// Number of times that the CPU became idle.
    idle_calls: u64,
}

impl CpuFrequency {
    /// Counts the time until `now` at the current frequency.
    fn count(&mut self, now: u64) {
        let ns = now - self.counted_until;
        self.counted_until = now;
        if self.busy {
            self.busy_ns += ns;
            self.cycles += u128::from(ns) * u128::from(self.current);
        }
    }
}

impl Cpufreq {
    pub(crate) fn new(spec: &MachineSpec) -> Cpufreq {
        let topology = &spec.topology;
        let cpu = |_| CpuFrequency {
            requested: SCHED_CAPACITY_SCALE,
            current: SCHED_CAPACITY_SCALE,
            busy: false,
            counted_until: 0,
            busy_ns: 0,
            cycles: 0,
            idle_calls: 0,
        };
        let package = |cpus: &Vec<u32>| Package {
            cpus: cpus.iter().map(|&cpu| CpuId::new(cpu as usize)).collect(),
            active_cores: 0,
        };
        let frequency = &spec.frequency;
        Cpufreq {
            governor: frequency.governor,
            tracks_busy: frequency.governor != FrequencyGovernor::Targets || !frequency.turbo.is_empty(),
            cpus: topology.cpus.iter().map(cpu).collect(),
            turbo: frequency.turbo.iter().map(|&speed| speed.into()).collect(),
            packages: topology.packages.iter().map(package).collect(),
            package_of: topology.cpus.iter().map(|cpu| cpu.package as usize).collect(),
            busy_threads: vec![0; topology.cores.len()],
            #[cfg(test)]
            changes: Vec::new(),
        }
    }

    /// Returns the highest frequency that a CPU can reach now.
    fn limit(&self, cpu: CpuId) -> u64 {
        let active = self.packages[self.package_of[cpu.index()]].active_cores;
        let limit = self.turbo.get(active.saturating_sub(1)).or(self.turbo.last());
        limit.copied().unwrap_or(SCHED_CAPACITY_SCALE)
    }

    /// Returns the number of times that a CPU became idle.
    pub(crate) fn idle_calls(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].idle_calls
    }
}

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
