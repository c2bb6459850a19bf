// SPDX-License-Identifier: GPL-2.0-only
//! Capacities of hybrid machines in hwloc XML, for the properties of CPUs that real machines
//! export.

use crate::hwloc_tree::{CpuKind, cores, node, object, xml};

/// Returns the capacities and the notes of a machine with `cpus` cores of these kinds.
fn described(cpus: u32, kinds: &[CpuKind]) -> (Vec<u32>, Vec<String>) {
    let text = xml(vec![object("Package", vec![node(0)]).and(cores(0..cpus))], kinds);
    let definition = machine::from_xml("m.xml", &text).unwrap_or_else(|error| panic!("{error}"));
    let capacities = definition.spec.topology.cpus.iter().map(|cpu| cpu.capacity).collect();
    (capacities, definition.notes)
}

const P: (&str, &str) = ("CoreType", "IntelCore");
const E: (&str, &str) = ("CoreType", "IntelAtom");
const LP: (&str, &str) = ("CoreType", "IntelLowPower");
const SAME: (&str, &str) = ("LinuxCapacity", "1024");

const fn mhz(value: &'static str) -> (&'static str, &'static str) {
    ("FrequencyMaxMHz", value)
}

#[test]
fn equal_capacities_of_a_hybrid_machine_are_ignored() {
    // x86 kernels since 6.12 export 1024 for all CPUs of a hybrid processor with SMT.
    let with = described(
        6,
        &[
            (0..2, Some(1024), &[P, mhz("5000"), SAME]),
            (2..4, Some(1024), &[E, mhz("3800"), SAME]),
            (4..6, Some(1024), &[LP, mhz("2500"), SAME]),
        ],
    );
    let without = described(
        6,
        &[
            (0..2, None, &[P, mhz("5000")]),
            (2..4, None, &[E, mhz("3800")]),
            (4..6, None, &[LP, mhz("2500")]),
        ],
    );
    // 3/4 of 3.8 / 5 and of 2.5 / 5 GHz.
    assert_eq!(with.0, [1024, 1024, 583, 583, 384, 384]);
    assert_eq!(with.0, without.0);
    let estimates = [
        "capacities are estimated from core types and highest frequencies: 1024 (CPUs 0-1), 583 (CPUs 2-3), 384 \
         (CPUs 4-5)",
        "an IntelAtom or IntelLowPower core is assumed to do 3/4 of a fast core's work per cycle",
    ];
    assert_eq!(without.1, estimates);
    assert_eq!(
        with.1[0],
        "the capacity that the kernel exported, 1024 for all CPUs, is ignored, because their core types and highest \
         frequencies differ"
    );
    assert_eq!(with.1[1..], estimates);
}

#[test]
fn equal_capacities_are_ignored_if_only_frequencies_differ() {
    // An ARM kernel without capacity-dmips-mhz in the device tree.
    let (capacities, notes) = described(
        4,
        &[(0..2, None, &[mhz("1400"), SAME]), (2..4, None, &[mhz("2000"), SAME])],
    );
    assert_eq!(capacities, [716, 716, 1024, 1024]);
    assert!(
        notes[0].ends_with("because their highest frequencies differ"),
        "{notes:?}"
    );
    assert_eq!(
        notes[1..],
        [
            "capacities are estimated from highest frequencies: 1024 (CPUs 2-3), 716 (CPUs 0-1)",
            "all cores are assumed to do the same work per cycle"
        ]
    );
}

#[test]
fn capacities_that_differ_are_used_without_a_note() {
    // Three kinds of cores, as in telephones. The frequencies do not matter.
    let (capacities, notes) = described(
        4,
        &[
            (0..2, Some(250), &[("LinuxCapacity", "250"), mhz("1800")]),
            (2..3, Some(870), &[("LinuxCapacity", "870"), mhz("2500")]),
            (3..4, Some(1024), &[("LinuxCapacity", "1024"), mhz("2500")]),
        ],
    );
    assert_eq!(capacities, [250, 250, 870, 1024]);
    assert_eq!(notes, [""; 0]);
    // Cores without SMT: the kernel knows that E cores are slower, and that some P cores are best.
    let (capacities, notes) = described(
        3,
        &[
            (0..1, None, &[P, ("LinuxCapacity", "1024")]),
            (1..2, None, &[P, ("LinuxCapacity", "1009")]),
            (2..3, None, &[E, ("LinuxCapacity", "623")]),
        ],
    );
    assert_eq!((capacities, notes), (vec![1024, 1009, 623], Vec::<String>::new()));
}

#[test]
fn low_power_cores_are_slower_without_frequencies_too() {
    let (capacities, notes) = described(
        6,
        &[(0..2, Some(0), &[P]), (2..4, Some(0), &[E]), (4..6, Some(0), &[LP])],
    );
    assert_eq!(capacities, [1024, 1024, 768, 768, 512, 512]);
    assert_eq!(
        notes[2],
        "the frequencies of some CPUs are not known, so an IntelLowPower core is assumed to run at 2/3 of an \
         IntelAtom core's frequency"
    );
}

#[test]
fn cores_of_one_type_with_different_frequencies_differ() {
    // Kernels before 6.13 and hwloc before 2.12 call low-power cores IntelAtom.
    let (capacities, _) = described(
        4,
        &[
            (0..1, None, &[P, mhz("4800")]),
            (1..2, None, &[P, mhz("4500")]),
            (2..3, None, &[E, mhz("3800")]),
            (3..4, None, &[E, mhz("2500")]),
        ],
    );
    // The P cores have the same capacity: the best ones may run a little faster.
    assert_eq!(capacities, [1024, 1024, 608, 400]);
}

#[test]
fn dense_cores_of_amd_are_slower() {
    let performance = ("CoreType", "AMDPerformance");
    let efficiency = ("CoreType", "AMDEfficiency");
    let (capacities, _) = described(
        4,
        &[
            (0..2, Some(1), &[performance, mhz("5100")]),
            (2..4, Some(0), &[efficiency, mhz("3300")]),
        ],
    );
    assert_eq!(capacities, [1024, 1024, 662, 662]);
    let (capacities, notes) = described(4, &[(0..2, Some(1), &[performance]), (2..4, Some(0), &[efficiency])]);
    assert_eq!(capacities, [1024, 1024, 682, 682]);
    assert!(notes[1].contains("2/3 of a fast core's frequency"), "{notes:?}");
    // hwloc before 2.9 has only the frequencies.
    let (capacities, _) = described(4, &[(0..2, None, &[mhz("4900")]), (2..4, None, &[mhz("3500")])]);
    assert_eq!(capacities, [1024, 1024, 731, 731]);
}

#[test]
fn preferred_cores_have_the_same_capacity() {
    let (capacities, notes) = described(
        4,
        &[
            (0..1, None, &[mhz("5000"), SAME]),
            (1..2, None, &[mhz("4800"), SAME]),
            (2..4, None, &[mhz("4500"), SAME]),
        ],
    );
    assert_eq!((capacities, notes), (vec![1024; 4], Vec::<String>::new()));
}

#[test]
fn efficiencies_rank_kinds_without_speeds() {
    // Apple's processors: the system has names and ranks of kinds, but no frequencies.
    let (capacities, notes) = described(
        4,
        &[
            (0..2, Some(0), &[("DarwinCompatible", "apple,icestorm;ARM,v8")]),
            (2..4, Some(1), &[("DarwinCompatible", "apple,firestorm;ARM,v8")]),
        ],
    );
    assert_eq!(capacities, [512, 512, 1024, 1024]);
    assert_eq!(
        notes[0],
        "capacities are estimated from efficiencies: 1024 (CPUs 2-3), 512 (CPUs 0-1)"
    );
    let (capacities, _) = described(3, &[(0..1, Some(0), &[]), (1..2, Some(3), &[]), (2..3, Some(9), &[])]);
    assert_eq!(capacities, [256, 512, 1024]);
}

#[test]
fn unknown_core_types_are_named() {
    let tiny = ("CoreType", "NewTiny");
    let (capacities, notes) = described(4, &[(0..2, None, &[P]), (2..4, None, &[tiny])]);
    assert_eq!(capacities, [1024; 4]);
    assert_eq!(
        notes,
        [
            "the speed of the core type NewTiny is not known, so all CPUs have capacity 1024; a machine file can set \
             the capacities with [[kind]]"
        ]
    );
    let (capacities, notes) = described(
        4,
        &[(0..2, None, &[P, mhz("4000")]), (2..4, None, &[tiny, mhz("3000")])],
    );
    assert_eq!(capacities, [1024, 1024, 768, 768]);
    assert_eq!(
        notes[1],
        "the core type NewTiny is not known, so these cores are assumed to do a fast core's work per cycle"
    );
    // Some CPUs may lack a core type.
    let (capacities, _) = described(4, &[(0..2, None, &[P, mhz("4000")]), (2..4, None, &[mhz("2000")])]);
    assert_eq!(capacities, [1024, 1024, 512, 512]);
}

#[test]
fn incomplete_capacities_are_ignored() {
    let (capacities, notes) = described(
        4,
        &[
            (0..1, None, &[("LinuxCapacity", "1024")]),
            (1..3, None, &[("LinuxCapacity", "400")]),
        ],
    );
    assert_eq!(capacities, [1024; 4]);
    assert_eq!(
        notes,
        ["the capacities that the kernel exported are ignored, because 1 of 4 CPUs have none"]
    );
}

#[test]
fn senseless_numbers_are_harmless() {
    for value in ["0", "-1", "99999999999999999999", "18446744073709551615", "1.5", ""] {
        let (capacities, _) = described(
            2,
            &[
                (0..1, None, &[P, ("FrequencyMaxMHz", value), ("LinuxCapacity", value)]),
                (1..2, Some(u32::MAX), &[E, mhz("3000")]),
            ],
        );
        assert!(
            capacities.iter().all(|capacity| (1..=1024).contains(capacity)),
            "{value}: {capacities:?}"
        );
    }
}

#[test]
fn a_machine_file_replaces_estimated_capacities() {
    let xml = xml(
        vec![object("Package", vec![node(0)]).and(cores(0..4))],
        &[(0..2, None, &[P, mhz("5000")]), (2..4, None, &[E, mhz("4000")])],
    );
    let file = |rest: &str| {
        let text = format!("description = \"d\"\nhz = 250\ntopology = {{ inline = '''{xml}''' }}\n{rest}");
        let definition = machine::from_toml("m", &text).unwrap_or_else(|error| panic!("{error}"));
        let capacities: Vec<u32> = definition.spec.topology.cpus.iter().map(|cpu| cpu.capacity).collect();
        (capacities, definition.notes.len())
    };
    assert_eq!(file(""), (vec![1024, 1024, 614, 614], 2));
    assert_eq!(
        file("[[kind]]\ncpus = \"2-3\"\ncapacity = 500\n"),
        (vec![1024, 1024, 500, 500], 0)
    );
    // The capacity of CPU 2 is still an estimate.
    assert_eq!(
        file("[[kind]]\ncpus = \"3\"\ncapacity = 500\n"),
        (vec![1024, 1024, 614, 500], 2)
    );
}
