// SPDX-License-Identifier: GPL-2.0-only
//! Capacities of CPUs, from the properties that a description has: the kernel's capacities, core
//! types, frequencies and efficiencies.
//!
//! The kernel's capacities (`cpu_capacity`, hwloc's `LinuxCapacity`) are used if they distinguish
//! the CPUs. They often do not: since Linux 6.12, x86 kernels also have the file, which contains
//! 1024 for all CPUs of a hybrid processor with SMT. The capacities are then estimated from the
//! first of these properties that distinguishes the CPUs:
//!
//! 1. the core types and frequencies,
//! 2. the frequencies, if there are no core types,
//! 3. the efficiencies by which hwloc ranks the kinds of CPUs.
//!
//! A note tells the user about every estimate, and about all capacities that are ignored.

use crate::parts::CpuParts;
use input::cpu_list;
use std::collections::{BTreeMap, BTreeSet};

/// Properties of a CPU that determine its speed. Those that the description does not contain are
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Speed {
    /// Relative capacity, which the kernel exports.
    pub capacity: Option<u64>,
    /// hwloc's `CoreType`, for example `IntelAtom`.
    pub core_type: Option<String>,
    /// Highest frequency in MHz.
    pub max_mhz: Option<u64>,
    /// hwloc's `forced_efficiency`. Faster CPUs have a higher number, but the number is no speed.
    pub efficiency: Option<u64>,
}

/// A core type of a vendor, as hwloc names it.
struct CoreType {
    name: &'static str,
    /// Work per cycle in quarters of the vendor's fast cores.
    quarters: u64,
    /// Frequency relative to the vendor's fast cores in thirds, if the description has no
    /// frequencies. The E cores of Intel then differ from the P cores only in their work per cycle.
    thirds: u64,
}

/// The core types that hwloc knows. The numbers are estimates:
///
/// - An E core of Intel (Gracemont) does about 3/4 of a P core's work per cycle (see
///   machines/hybrid.toml). Low-power E cores have the same microarchitecture. In the Core Ultra 7
///   155H they run at 2.5 instead of 3.8 GHz (data sheet), which is 2/3.
/// - AMD's Zen 4c and Zen 5c do the same work per cycle as Zen 4 and Zen 5, at about 2/3 of the
///   frequency: 3.3 instead of 5.1 GHz in the Ryzen AI 9 HX 370 (data sheet).
const CORE_TYPES: [CoreType; 5] = [
    CoreType {
        name: "IntelCore",
        quarters: 4,
        thirds: 3,
    },
    CoreType {
        name: "IntelAtom",
        quarters: 3,
        thirds: 3,
    },
    CoreType {
        name: "IntelLowPower",
        quarters: 3,
        thirds: 2,
    },
    CoreType {
        name: "AMDPerformance",
        quarters: 4,
        thirds: 3,
    },
    CoreType {
        name: "AMDEfficiency",
        quarters: 4,
        thirds: 2,
    },
];

/// A CPU whose core type is unknown counts as a fast core.
const UNKNOWN: CoreType = CoreType {
    name: "",
    quarters: 4,
    thirds: 3,
};

fn core_type(speed: &Speed) -> &'static CoreType {
    let known = CORE_TYPES
        .iter()
        .find(|known| Some(known.name) == speed.core_type.as_deref());
    known.unwrap_or(&UNKNOWN)
}

/// CPUs of one core type whose frequencies differ by at most 10 % from one to the next have the
/// same capacity. The frequencies of cores that are equal by design differ by less, because a
/// processor lets its best cores run faster (Intel Turbo Boost Max 3.0, AMD preferred cores).
const SAME_FREQUENCY_PERCENT: u64 = 10;

/// Returns the capacity of each CPU; the fastest has 1024. Adds notes about estimated and ignored
/// capacities.
pub(crate) fn capacities(cpus: &[CpuParts], notes: &mut Vec<String>) -> Vec<u32> {
    let speeds: Vec<&Speed> = cpus.iter().map(|cpu| &cpu.speed).collect();
    let exported: Vec<u64> = speeds.iter().filter_map(|speed| speed.capacity).collect();
    let complete = exported.len() == speeds.len();
    if complete && differ(&exported) {
        return relative(&exported);
    }
    let estimate = estimate(&speeds);
    if !complete && differ(&exported) {
        notes.push(format!(
            "the capacities that the kernel exported are ignored, because {} of {} CPUs have none",
            speeds.len() - exported.len(),
            speeds.len()
        ));
    } else if let (Some(capacity), Some(estimate)) = (exported.first(), &estimate) {
        notes.push(format!(
            "the capacity that the kernel exported, {capacity} for all CPUs, is ignored, because their {} differ",
            estimate.basis
        ));
    }
    let Some(estimate) = estimate else {
        notes.extend(unknown_speeds(&speeds));
        return vec![1024; speeds.len()];
    };
    let capacities = relative(&estimate.weights);
    notes.push(format!(
        "capacities are estimated from {}: {}",
        estimate.basis,
        by_capacity(&capacities)
    ));
    notes.extend(estimate.assumptions);
    capacities
}

/// Returns a note if core types differ, but the file does not say how fast they are.
fn unknown_speeds(speeds: &[&Speed]) -> Option<String> {
    let unknown = unknown_types(speeds);
    let types: Vec<Option<&str>> = speeds.iter().map(|speed| speed.core_type.as_deref()).collect();
    let without_frequency = speeds.iter().any(|speed| speed.max_mhz.is_none());
    (differ(&types) && without_frequency && !unknown.is_empty()).then(|| {
        format!(
            "the speed of the core type {unknown} is not known, so all CPUs have capacity 1024; a machine file can \
             set the capacities with [[kind]]"
        )
    })
}

/// Returns the names of the core types that are not in [`CORE_TYPES`], for messages.
fn unknown_types(speeds: &[&Speed]) -> String {
    let unknown: BTreeSet<&str> = speeds
        .iter()
        .filter(|speed| core_type(speed).name == UNKNOWN.name)
        .map(|speed| speed.core_type.as_deref().unwrap_or("(none)"))
        .collect();
    unknown.into_iter().collect::<Vec<_>>().join(", ")
}

fn differ<T: Ord>(values: &[T]) -> bool {
    values.iter().min() != values.iter().max()
}

/// Scales weights so that the largest becomes 1024.
fn relative(weights: &[u64]) -> Vec<u32> {
    // Weights from files may have any size. Frequencies in MHz, the largest sensible weights, are
    // below the limit.
    let limit = |weight: u64| weight.clamp(1, 1 << 24);
    let max = limit(weights.iter().copied().max().unwrap_or(1));
    let scaled = |&weight: &u64| u32::try_from(limit(weight) * 1024 / max).map_or(1024, |capacity| capacity.max(1));
    weights.iter().map(scaled).collect()
}

/// Formats the capacities with the CPUs that have them, highest first.
fn by_capacity(capacities: &[u32]) -> String {
    let mut cpus: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (cpu, &capacity) in (0..).zip(capacities) {
        cpus.entry(capacity).or_default().push(cpu);
    }
    let texts: Vec<String> = cpus
        .iter()
        .rev()
        .map(|(capacity, cpus)| {
            let plural = if cpus.len() == 1 { "" } else { "s" };
            format!("{capacity} (CPU{plural} {})", cpu_list::format(cpus))
        })
        .collect();
    texts.join(", ")
}

/// Estimated speeds of CPUs that differ.
struct Estimate {
    /// Speed of each CPU, in any unit.
    weights: Vec<u64>,
    /// Names of the properties that differ.
    basis: &'static str,
    /// Sentences about the assumptions of the estimate.
    assumptions: Vec<String>,
}

/// Estimates the speeds of CPUs without the kernel's capacities. Returns `None` if the properties
/// of all CPUs are equal.
fn estimate(speeds: &[&Speed]) -> Option<Estimate> {
    let types: Vec<Option<&str>> = speeds.iter().map(|speed| speed.core_type.as_deref()).collect();
    let typed = differ(&types);
    let frequencies = speeds.iter().all(|speed| speed.max_mhz.is_some_and(|mhz| mhz > 0));
    let all_known = speeds.iter().all(|speed| core_type(speed).name != UNKNOWN.name);
    let by_type = (typed && (frequencies || all_known || !ranked(speeds))).then(|| by_type(speeds, frequencies));
    let by_frequency = || frequencies.then(|| by_frequency(speeds));
    let estimate = by_type
        .or_else(by_frequency)
        .filter(|estimate| differ(&estimate.weights));
    estimate.or_else(|| ranked(speeds).then(|| by_efficiency(speeds)))
}

fn by_type(speeds: &[&Speed], frequencies: bool) -> Estimate {
    let mhz = group_frequencies(speeds);
    let weight = |(speed, mhz): (&&Speed, u64)| {
        let kind = core_type(speed);
        if frequencies {
            mhz * kind.quarters
        } else {
            1000 * kind.quarters * kind.thirds
        }
    };
    let used: Vec<&CoreType> = CORE_TYPES
        .iter()
        .filter(|known| speeds.iter().any(|speed| core_type(speed).name == known.name))
        .collect();
    let mut assumptions = Vec::new();
    let slower: Vec<&str> = used
        .iter()
        .filter(|kind| kind.quarters < 4)
        .map(|kind| kind.name)
        .collect();
    if !slower.is_empty() {
        assumptions.push(format!(
            "an {} core is assumed to do 3/4 of a fast core's work per cycle",
            slower.join(" or ")
        ));
    }
    for kind in used.iter().filter(|kind| kind.thirds < 3 && !frequencies) {
        let other = if kind.quarters < 4 { "an IntelAtom" } else { "a fast" };
        assumptions.push(format!(
            "the frequencies of some CPUs are not known, so an {} core is assumed to run at 2/3 of {other} core's \
             frequency",
            kind.name
        ));
    }
    let unknown = unknown_types(speeds);
    if !unknown.is_empty() {
        assumptions.push(format!(
            "the core type {unknown} is not known, so these cores are assumed to do a fast core's work per cycle"
        ));
    }
    Estimate {
        weights: speeds.iter().zip(mhz).map(weight).collect(),
        basis: if frequencies {
            "core types and highest frequencies"
        } else {
            "core types"
        },
        assumptions,
    }
}

fn by_frequency(speeds: &[&Speed]) -> Estimate {
    Estimate {
        weights: group_frequencies(speeds),
        basis: "highest frequencies",
        assumptions: vec!["all cores are assumed to do the same work per cycle".into()],
    }
}

/// Returns the frequency of each CPU, 0 if it is not known. CPUs of one core type with nearly the
/// same frequency get the highest frequency of these CPUs.
fn group_frequencies(speeds: &[&Speed]) -> Vec<u64> {
    let limit = |speed: &Speed| speed.max_mhz.unwrap_or(0).min(1 << 20);
    let mut of_type: BTreeMap<Option<&str>, BTreeSet<u64>> = BTreeMap::new();
    for speed in speeds {
        of_type
            .entry(speed.core_type.as_deref())
            .or_default()
            .insert(limit(speed));
    }
    // For each core type and frequency, the highest frequency of its group.
    let mut highest: BTreeMap<(Option<&str>, u64), u64> = BTreeMap::new();
    for (kind, frequencies) in of_type {
        let mut group = None;
        for &mhz in frequencies.iter().rev() {
            let top = match group {
                Some((last, top)) if last * 100 <= mhz * (100 + SAME_FREQUENCY_PERCENT) => top,
                _ => mhz,
            };
            group = Some((mhz, top));
            highest.insert((kind, mhz), top);
        }
    }
    let found = |speed: &&Speed| highest[&(speed.core_type.as_deref(), limit(speed))];
    speeds.iter().map(found).collect()
}

/// Returns whether all CPUs have an efficiency, and the efficiencies differ.
fn ranked(speeds: &[&Speed]) -> bool {
    let efficiencies: Vec<Option<u64>> = speeds.iter().map(|speed| speed.efficiency).collect();
    efficiencies.iter().all(Option::is_some) && differ(&efficiencies)
}

/// Assumes that each step down in efficiency halves the speed. This is an estimate: at equal
/// frequency, a Cortex-A53 has 485 of 1024 parts of the speed of a Cortex-A72 (capacity-dmips-mhz in
/// Linux' device tree rk3399.dtsi), and 592 parts of that of a Cortex-A73 (meson-g12b.dtsi).
fn by_efficiency(speeds: &[&Speed]) -> Estimate {
    let ranks: BTreeSet<u64> = speeds.iter().filter_map(|speed| speed.efficiency).collect();
    let steps = |speed: &&Speed| ranks.iter().rev().position(|&rank| Some(rank) == speed.efficiency);
    let weight = |speed: &&Speed| 1024_u64 >> steps(speed).unwrap_or(0).min(10);
    Estimate {
        weights: speeds.iter().map(weight).collect(),
        basis: "efficiencies",
        assumptions: vec![
            "the description ranks the kinds of CPUs but has no speeds, so each kind is assumed to be half as fast as the next".into(),
        ],
    }
}
