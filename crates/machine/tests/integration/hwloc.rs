// SPDX-License-Identifier: GPL-2.0-only
//! Tests of hwloc XML as real machines have it: memory without CPUs, devices, all versions of the
//! format. lstopo is the reference: what it reads must be read here, with the same result.

use crate::hwloc_tree::{cache, core, cores, group, node, object, pu, xml, xml_with_offline};
use std::path::Path;
use std::process::Command;

/// Returns the XML that lstopo writes of an input (a file or a synthetic string), or `None` if
/// lstopo is not installed.
fn lstopo(input: &str, flags: &[&str]) -> Option<String> {
    let output = Command::new("lstopo")
        .args(["--disallowed", "-i", input, "--of", "xml"])
        .args(flags)
        .arg("-")
        .output()
        .ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "lstopo cannot read {input}: {stderr}");
    Some(String::from_utf8(output.stdout).expect("the XML is UTF-8"))
}

/// Reads a machine, and returns its packages, nodes, LLCs, cores and CPUs, and its notes.
fn read(text: &str) -> ([usize; 5], Vec<String>) {
    let definition = machine::from_xml("m.xml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let t = &definition.spec.topology;
    let shape = [
        t.packages.len(),
        t.nodes.len(),
        t.llcs.len(),
        t.cores.len(),
        t.cpus.len(),
    ];
    (shape, definition.notes)
}

fn topology(text: &str) -> String {
    let definition = machine::from_xml("m.xml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let topology = definition.spec.topology;
    format!("{:?} {:?}", topology.cpus, topology.node_distances)
}

/// Checks that lstopo reads the same topology from a file. The XML of lstopo has all objects in
/// hwloc's order, with all sets.
fn check_with_lstopo(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.xml"));
    std::fs::write(&path, text).unwrap();
    match lstopo(path.to_str().unwrap(), &[]) {
        Some(converted) => assert_eq!(topology(text), topology(&converted), "{name}"),
        None => golden::skip!("lstopo (package hwloc) is not installed"),
    }
}

fn check(name: &str, text: &str, shape: [usize; 5], notes: &[&str]) {
    assert_eq!(
        read(text),
        (shape, notes.iter().map(|&note| note.to_owned()).collect()),
        "{name}"
    );
    check_with_lstopo(name, text);
}

#[test]
fn memory_without_cpus_is_ignored() {
    let package = |cpus| object("Package", vec![node(0)]).and(cores(cpus));
    // A group that has only a node of CXL memory, after and before the package.
    let after = xml(vec![package(0..4), group(vec![node(1)])], &[]);
    let note = "no CPU belongs to NUMA node 1, so its memory is not modelled";
    check("cxl-after", &after, [1, 1, 1, 4, 4], &[note]);
    check(
        "cxl-before",
        &xml(vec![group(vec![node(1)]), package(0..4)], &[]),
        [1, 1, 1, 4, 4],
        &[note],
    );
    // Flat mode of Knights Landing with four clusters: each has a node of DRAM and a node of MCDRAM.
    let cluster = |n: u32| group(vec![node(n), node(4 + n)]).and(vec![core(&[2 * n, 2 * n + 1])]);
    let note = "no CPU belongs to NUMA nodes 4-7, so their memory is not modelled";
    let flat = xml(vec![object("Package", (0..4).map(cluster).collect())], &[]);
    check("knl-flat", &flat, [1, 4, 4, 4, 8], &[note]);
    // A GPU's memory is attached to the package, next to the package's own memory.
    let gpus = xml(
        vec![
            object("Package", vec![node(0), node(62)]).and(vec![core(&[0, 1, 2, 3, 4, 5, 6, 7])]),
            object("Package", vec![node(8), node(63)]).and(vec![core(&[8, 9, 10, 11, 12, 13, 14, 15])]),
        ],
        &[],
    );
    let note = "no CPU belongs to NUMA nodes 62-63, so their memory is not modelled";
    check("gpu-memory", &gpus, [2, 2, 2, 2, 16], &[note]);
    // Memory of the whole machine, and a memory-side cache before a node.
    let whole = xml(
        vec![
            node(2),
            object("Package", vec![object("MemCache", vec![node(0)])]).and(cores(0..2)),
            object("Package", vec![node(1)]).and(cores(2..4)),
        ],
        &[],
    );
    let whole = whole.replace(
        "<object type=\"MemCache\"",
        "<object type=\"MemCache\" cache_size=\"1024\" depth=\"1\" cache_type=\"0\"",
    );
    let note = "no CPU belongs to NUMA node 2, so its memory is not modelled";
    check("whole-machine", &whole, [2, 2, 2, 4, 4], &[note]);
}

#[test]
fn every_cpu_may_have_only_high_bandwidth_memory() {
    // A64FX: four core memory groups, each with its own node.
    let cmg = |n: u32| group(vec![node(n)]).and(vec![cache(2, 8, cores(12 * n..12 * n + 12))]);
    let text = xml(vec![object("Package", (0..4).map(cmg).collect())], &[]);
    check("a64fx", &text, [1, 4, 4, 48, 48], &[]);
}

#[test]
fn groups_between_machine_and_package_are_transparent() {
    // s390: a drawer has books, and a book has packages.
    let package = |first: u32| object("Package", vec![cache(3, 4, cores(first..first + 2))]);
    let book = |first: u32| group(vec![package(first), package(first + 2)]);
    let drawers = vec![node(0), group(vec![book(0), book(4)]), group(vec![book(8)])];
    check("s390", &xml(drawers, &[]), [6, 1, 6, 12, 12], &[]);
    // Sub-NUMA clustering: the L3 belongs to the package.
    let half = |n: u32| group(vec![node(n)]).and(cores(4 * n..4 * n + 4));
    let package = |n: u32| object("Package", vec![cache(3, 32, vec![half(2 * n), half(2 * n + 1)])]);
    check("snc", &xml(vec![package(0), package(1)], &[]), [2, 4, 2, 16, 16], &[]);
}

#[test]
fn offline_and_disallowed_cpus_are_ignored() {
    let text = xml_with_offline(vec![object("Package", vec![node(0)]).and(cores(0..4))], &[], 0b1000);
    let note = "1 CPU is ignored, because it is offline or disallowed; the others are renumbered";
    check("offline", &text, [1, 1, 1, 3, 3], &[note]);
    // All CPUs of the first package are disallowed.
    let packages = || {
        vec![
            object("Package", vec![node(0)]).and(cores(0..2)),
            object("Package", vec![node(1)]).and(cores(2..4)),
        ]
    };
    let text = xml_with_offline(packages(), &[], 0b0011);
    let notes = [
        "2 CPUs are ignored, because they are offline or disallowed; the others are renumbered",
        "no CPU belongs to NUMA node 0, so its memory is not modelled",
    ];
    check("package-offline", &text, [1, 1, 1, 2, 2], &notes);
}

#[test]
fn devices_and_added_objects_are_skipped() {
    let device = |kind| object(kind, Vec::new());
    let mut package = object("Package", vec![node(0)])
        .and(cores(0..2))
        .info("CPUModel", "Some  Processor");
    package = package.and(vec![device("Misc").info("Type", "MemoryModule")]);
    let text = xml(vec![package, device("Misc")], &[]);
    check("misc", &text, [1, 1, 1, 2, 2], &[]);
    let description = machine::from_xml("m.xml", &text).unwrap().spec.description;
    assert_eq!(description, "Some Processor");
    let bridge = object("Bridge", vec![object("PCIDev", vec![device("OSDev")])]);
    assert_eq!(read(&xml(vec![node(0), core(&[0, 1]), bridge], &[])).0, [1, 1, 1, 1, 2]);
}

#[test]
fn the_order_of_objects_does_not_matter() {
    let text = xml(vec![node(0), core(&[2, 3]), core(&[0, 1]), pu(4)], &[]);
    check("unordered", &text, [1, 1, 1, 3, 5], &[]);
    assert_eq!(
        machine::from_xml("m.xml", &text).unwrap().spec.topology.siblings(0),
        [0, 1]
    );
}

/// Machines that lstopo exports in versions 1 and 2 of the format.
const SYNTHETIC: [&str; 10] = [
    "pack:2 [numa] l3:2(size=16MiB) core:4 pu:2",
    "node:4 core:4 pu:2(indexes=2*16:16*1)",
    "pack:2 node:2 l3:1 l2:4 l1d:1 l1i:1 core:1 pu:2",
    "pack:2 [numa] [numa] core:2 pu:1",
    "group:2 pack:2 [numa] die:2 l3:1 core:2 pu:2",
    "8",
    "core:4 pu:8",
    "pack:1 l3:1 l2:4 core:2 pu:1",
    "group:4 [numa] [numa] l2:2 core:2 pu:4",
    "pack:2 l3:2 [numa] core:2 pu:2",
];

#[test]
fn version_1_describes_the_same_machines_as_version_2() {
    for input in SYNTHETIC {
        let (Some(one), Some(two)) = (lstopo(input, &["--export-xml-flags", "v1"]), lstopo(input, &[])) else {
            golden::skip!("lstopo (package hwloc) is not installed");
            return;
        };
        assert!(
            one.contains("SYSTEM \"hwloc.dtd\"") && two.contains("version=\"2.0\""),
            "{input}"
        );
        assert_eq!(topology(&one), topology(&two), "{input}");
        let three = two.replacen("version=\"2.0\"", "version=\"3.0\"", 1);
        assert_eq!(topology(&three), topology(&two), "{input}");
    }
}

#[test]
fn version_1_is_read() {
    // hwloc 1 called packages sockets, and NUMA nodes contained the CPUs.
    let sets = |bits: u32| format!("cpuset=\"0x{bits:x}\" complete_cpuset=\"0x{bits:x}\" online_cpuset=\"0x{bits:x}\"");
    let pu = |cpu: u32| format!("<object type=\"PU\" os_index=\"{cpu}\" {}/>", sets(1 << cpu));
    let node = |index: u32| {
        let bits = 3 << (2 * index);
        format!(
            "<object type=\"NUMANode\" os_index=\"{index}\" {sets} nodeset=\"0x{nodes:x}\" complete_nodeset=\"0x{nodes:x}\">\
             <object type=\"Socket\" {sets}><object type=\"Cache\" {sets} cache_size=\"2097152\" depth=\"2\" \
             cache_type=\"0\">{}{}</object></object></object>",
            pu(2 * index),
            pu(2 * index + 1),
            sets = sets(bits),
            nodes = 1 << index,
        )
    };
    let machine = |inner: &str| {
        format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc.dtd\">\n<topology>\n\
             <object type=\"Machine\" {} nodeset=\"0x3\" complete_nodeset=\"0x3\">{inner}</object></topology>\n",
            sets(15)
        )
    };
    let latency = |value: f32| format!("<latency value=\"{value:.6}\"/>");
    let distances = [1.0, 2.1, 2.1, 1.0].map(latency).concat();
    let distances =
        format!("<distances nbobjs=\"2\" relative_depth=\"1\" latency_base=\"10.000000\">{distances}</distances>");
    let text = machine(&format!("{distances}{}{}", node(0), node(1)));
    check("version-1", &text, [2, 2, 2, 4, 4], &[]);
    let t = machine::from_xml("m.xml", &text).unwrap().spec.topology;
    assert_eq!(t.node_distances, [[10, 21], [21, 10]]);
    assert_eq!(t.cpus[0].llc_bytes, 2 << 20);
    // A machine without NUMA had no node.
    let without = machine(&[0, 1, 2, 3].map(pu).concat()).replace(" nodeset=\"0x3\" complete_nodeset=\"0x3\"", "");
    check("version-1-flat", &without, [1, 1, 1, 4, 4], &[]);
    for (wrong, message) in [
        (
            text.replace("depth=\"2\"", "depth=\"9\""),
            "m.xml:4: there is no cache of level \"9\"",
        ),
        (
            text.replace("value=\"2.100000\"", "value=\"x\""),
            "m.xml:4: value is not a number up to 10^9",
        ),
        (
            text.replacen("<latency value=\"1.000000\"/>", "", 1),
            "m.xml:4: <distances> has 3 latencies, expected 2 x 2",
        ),
    ] {
        let error = machine::from_xml("m.xml", &wrong).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn later_versions_are_refused_with_a_way_to_convert_them() {
    let text = xml(vec![node(0), core(&[0])], &[]);
    let error = |version: &str| {
        let text = text.replacen("version=\"2.0\"", &format!("version=\"{version}\""), 1);
        machine::from_xml("m.xml", &text).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        error("4.0"),
        "m.xml:3: the file has version 4.0 of hwloc's format, expected 1 to 3\n  hint: let the hwloc that wrote the \
         file write an older version: `lstopo -i FILE --of xml --export-xml-flags v2 NEW.xml`"
    );
    assert!(error("new").starts_with("m.xml:3: \"new\" is not a version of hwloc's format"));
    let differences = machine::from_xml("d.xml", "<topologydiff/>")
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(differences.contains("hwloc-patch"), "{differences}");
}

#[test]
fn files_of_versions_1_and_3_are_read() {
    let data = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
        std::fs::read_to_string(path).unwrap()
    };
    let one = data("version-1.xml");
    check("data-version-1", &one, [2, 2, 2, 4, 4], &[]);
    let three = data("hybrid-memory.xml");
    let (shape, notes) = read(&three);
    assert_eq!((shape, notes.len()), ([1, 1, 2, 5, 6], 4), "{notes:?}");
    let definition = machine::from_xml("m.xml", &three).unwrap();
    let capacities: Vec<u32> = definition.spec.topology.cpus.iter().map(|cpu| cpu.capacity).collect();
    assert_eq!(capacities, [1024, 1024, 608, 608, 608, 400]);
    // lstopo 2 reads the file if it claims to have version 2, except for the information about the
    // whole machine at its end.
    let two = three
        .replacen("version=\"3.0\"", "version=\"2.0\"", 1)
        .replace("  <info name=\"Backend\" value=\"Linux\"/>\n</topology>", "</topology>");
    check_with_lstopo("data-version-3", &two);
}
