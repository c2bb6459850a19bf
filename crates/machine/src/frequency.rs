// SPDX-License-Identifier: GPL-2.0-only
//! Frequencies of CPUs: the section `[frequency]` and the key `turbo`.
//!
//! Frequencies are in 1/1024 of the highest frequency of the CPU.

use serde::Serialize;

/// Prefix of the keys in [`Definition::cost_sources`](crate::Definition).
pub(crate) const FREQUENCY: &str = "frequency";
/// Name of the key, and of its source in [`Definition::cost_sources`](crate::Definition).
pub(crate) const TURBO: &str = "turbo";

/// Chooses the frequencies of CPUs (drivers/cpufreq, kernel/sched/cpufreq_schedutil.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum FrequencyGovernor {
    /// Only the targets of a policy count. They take effect at once.
    #[default]
    Targets,
    /// CPUs always request their highest frequency.
    Performance,
    /// The utilization of a CPU determines its frequency.
    Schedutil,
}

impl FrequencyGovernor {
    /// Names in machine files.
    pub(crate) const NAMES: [(&'static str, FrequencyGovernor); 2] = [
        ("performance", FrequencyGovernor::Performance),
        ("schedutil", FrequencyGovernor::Schedutil),
    ];
}

/// CPUs that always have the same frequency (policy->cpus).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum FrequencyDomain {
    #[default]
    Core,
    Llc,
    Package,
}

impl FrequencyDomain {
    /// Names in machine files.
    pub(crate) const NAMES: [(&'static str, FrequencyDomain); 3] = [
        ("core", FrequencyDomain::Core),
        ("llc", FrequencyDomain::Llc),
        ("package", FrequencyDomain::Package),
    ];
}

/// Frequencies of a machine. The default is a machine whose CPUs change their frequency only at the
/// request of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frequency {
    pub governor: FrequencyGovernor,
    pub domain: FrequencyDomain,
    /// Shortest time between two changes that schedutil requests for a domain, ns.
    pub rate_limit_ns: u64,
    /// Time from a request of schedutil until the CPUs of the domain run at the new frequency, ns.
    pub transition_ns: u64,
    /// Highest frequency while 1, 2, ... cores of a package run tasks. Empty if this number has no
    /// influence.
    pub turbo: Vec<u32>,
}

/// Returns the name of a value in a table of names.
pub(crate) fn name_of<T: PartialEq + Copy>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|named| named.1 == value);
    found.map_or("", |named| named.0)
}
