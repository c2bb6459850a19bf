// SPDX-License-Identifier: GPL-2.0-only
//! Frequencies of CPUs, see `hardware::cpufreq`.

use crate::layout::SCHED_CAPACITY_SCALE;
use crate::simulation::id::CpuId;
use crate::simulation::table::{Id, Table};
use machine::{FrequencyGovernor, MachineSpec};

/// Frequencies of all CPUs.
pub(crate) struct Cpufreq {
    pub(crate) governor: FrequencyGovernor,
    /// Whether the machine measures mean frequencies, and whether turbo depends on active cores.
    /// Otherwise nothing has to be done when a CPU becomes busy or idle.
    pub(crate) tracks_busy: bool,
    pub(crate) cpus: Table<CpuId, CpuFrequency>,
    /// Highest frequency by the number of active cores of a package, less one. Empty if the number
    /// has no influence.
    pub(crate) turbo: Vec<u64>,
    pub(crate) packages: Vec<Package>,
    pub(crate) package_of: Vec<usize>,
    /// Number of busy CPUs of each core.
    pub(crate) busy_threads: Vec<u32>,
    /// Time, CPU and new frequency of each change, for tests.
    #[cfg(test)]
    pub(crate) changes: Vec<(u64, CpuId, u64)>,
}

pub(crate) struct Package {
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) active_cores: usize,
}

/// Mean frequency of a CPU while it was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyFrequency {
    /// Time during which the CPU was busy, ns.
    pub busy_ns: u64,
    /// Mean frequency in 1/1024 of the CPU's full frequency. 0 if the CPU was never busy.
    pub mean: u64,
}

pub(crate) struct CpuFrequency {
    /// Frequency that the governor requests.
    pub(crate) requested: u64,
    /// Frequency at which the CPU runs.
    pub(crate) current: u64,
    pub(crate) busy: bool,
    /// Time up to which `busy_ns` and `cycles` are counted, ns.
    counted_until: u64,
    /// Time during which the CPU was busy, ns.
    pub(crate) busy_ns: u64,
    /// Sum of frequency times busy time.
    pub(crate) cycles: u128,
    /// Number of times that the CPU became idle.
    pub(crate) idle_calls: u64,
}

impl CpuFrequency {
    /// Counts the time until `now` at the current frequency.
    pub(crate) fn count(&mut self, now: u64) {
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
    pub(crate) fn limit(&self, cpu: CpuId) -> u64 {
        let active = self.packages[self.package_of[cpu.index()]].active_cores;
        let limit = self.turbo.get(active.saturating_sub(1)).or(self.turbo.last());
        limit.copied().unwrap_or(SCHED_CAPACITY_SCALE)
    }

    /// Returns the number of times that a CPU became idle.
    pub(crate) fn idle_calls(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].idle_calls
    }
}
