// SPDX-License-Identifier: GPL-2.0-only
//! Compares the output of `machine list` and `machine show` for the named machines with golden
//! files, and checks that docs/costs.md is up to date.

use machine::costs::{CONSTANTS, SPECIAL_COSTS, Slot};
use machine::message::{CHANNELS, source_name};
use machine::{Distance, define, list, load, show};
use std::path::PathBuf;

#[test]
fn the_list_matches_golden() {
    let (machines, errors) = list(&[]);
    assert_eq!(errors, []);
    let rows = machine::show::list_rows(&machines).into_iter();
    let lines = rows.map(|(shape, description)| format!("{shape}  {description}\n"));
    golden::check!("list.txt", &lines.collect::<String>());
}

#[test]
fn every_machine_matches_golden() {
    for machine in list(&[]).0 {
        let definition = define(&machine.name, &[]).unwrap();
        golden::check!(&format!("{}.txt", machine.name), &show(&definition));
    }
}

#[test]
fn the_page_of_costs_matches_the_machine_files() {
    let names: Vec<String> = list(&[]).0.into_iter().map(|m| m.name).collect();
    let all: Vec<machine::Definition> = names.iter().map(|name| define(name, &[]).unwrap()).collect();
    golden::check!("../../../../docs/costs.md", &machine::show::costs_page(&all));
}

#[test]
fn every_constant_of_a_named_machine_has_a_source() {
    for machine in list(&[]).0 {
        let definition = define(&machine.name, &[]).unwrap();
        let smt = definition.spec.smt_throughput.len() > 1;
        assert_eq!(
            definition.cost_sources.contains_key("smt_throughput"),
            smt,
            "{}",
            machine.name
        );
        let states = &definition.spec.cpuidle.states;
        for state in states {
            let name = format!("idle_state.{}", state.name);
            assert!(definition.cost_sources.contains_key(&name), "{}: {name}", machine.name);
        }
        for constant in &CONSTANTS {
            if constant.name == "idle_exit" && !states.is_empty() {
                continue;
            }
            if SPECIAL_COSTS.contains(&constant.name) {
                continue;
            }
            assert!(
                definition.cost_sources.contains_key(constant.name),
                "{}: {}",
                machine.name,
                constant.name
            );
        }
    }
}

/// The words with which the source of a constant must begin. docs/model.md explains them.
const KINDS_OF_SOURCES: [&str; 9] = [
    "assumption",
    "estimate",
    "calibrated",
    "counted",
    "measured",
    "not used",
    "drivers/",
    "0 ps per byte",
    "0 on the same CPU",
];

#[test]
fn every_source_says_how_much_is_known() {
    for machine in list(&[]).0 {
        let definition = define(&machine.name, &[]).unwrap();
        for (constant, source) in &definition.cost_sources {
            assert!(
                KINDS_OF_SOURCES.iter().any(|kind| source.starts_with(kind)),
                "{}: {constant}: {source}",
                machine.name
            );
        }
    }
}

/// Returns the time in ns of the first quantity like "1 800 cycles at 3.7 GHz" in the text of a
/// source.
fn cycles_ns(source: &str) -> Option<f64> {
    let (before, after) = source.split_once(" cycles at ")?;
    let digits = |c: char| c.is_ascii_digit() || c == '.' || c == ' ';
    let number = before.rsplit(|c| !digits(c)).next()?.replace(' ', "");
    let mut words = after.split([' ', ';', ',']);
    let frequency: f64 = words.next()?.parse().ok()?;
    let ghz = match words.next()?.trim_end_matches(['.', ':']) {
        "GHz" => frequency,
        "MHz" => frequency / 1000.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? / ghz)
}

#[test]
fn cycles_are_read_from_sources() {
    assert_eq!(
        cycles_ns("assumption: 90 000 cycles at 450 MHz for it"),
        Some(200_000.0)
    );
    assert_eq!(cycles_ns("estimate: 1.10 cycles at 0.5 GHz; counted"), Some(2.2));
    assert_eq!(cycles_ns("calibrated: 200 cycles at 400 MHz. loop_yield"), Some(500.0));
    assert_eq!(cycles_ns("assumption: 20 cycles of the bus"), None);
}

/// If the source of a constant names cycles and a frequency, their quotient must be the value of
/// the constant, which is rounded to 10 ns.
#[test]
fn the_arithmetic_of_sources_gives_the_values() {
    let mut checked = 0;
    for machine in list(&[]).0 {
        let mut definition = define(&machine.name, &[]).unwrap();
        let sources = std::mem::take(&mut definition.cost_sources);
        let costs = &mut definition.spec.costs;
        let mut values: Vec<(String, f64)> = Vec::new();
        for constant in &CONSTANTS {
            let ns = match constant.slot {
                Slot::Ps(cost) => f64::from(*cost(costs)) / 1000.0,
                Slot::Ns(cost) => f64::from(*cost(costs)),
                Slot::ByDistance(cost) => f64::from(cost(costs).same),
                Slot::MbPerS(_) => continue,
            };
            values.push((constant.name.to_owned(), ns));
        }
        for kind in &CHANNELS {
            values.push((source_name(kind), f64::from((kind.row)(costs).send_ns)));
        }
        for (name, value) in values {
            let Some(expected) = sources.get(&name).and_then(|source| cycles_ns(source)) else {
                continue;
            };
            // Constants below 5 ns are costs of instructions, which files give in ps. For larger
            // constants, the tolerance allows for rounding, and for the two frequencies that
            // sources use for smp2 (466 and 466.67 MHz).
            let rounding = if value < 5.0 {
                0.01
            } else {
                f64::max(6.0, value / 500.0)
            };
            assert!(
                (value - expected).abs() <= rounding,
                "{}: {name} is {value} ns, but its source says {expected:.1} ns",
                machine.name
            );
            checked += 1;
        }
    }
    assert!(checked > 150, "{checked} constants have such a source");
}

#[test]
fn all_machine_files_are_built_in() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .filter_map(|e| Some(e.unwrap().path().file_stem()?.to_str()?.to_owned()))
        .collect();
    files.sort();
    let names: Vec<String> = list(&[]).0.into_iter().map(|m| m.name).collect();
    assert_eq!(files, names);
    let found = define("smp8", &[&dir]).unwrap();
    assert!(found.origin.ends_with("machines/smp8.toml"), "{}", found.origin);
}

#[test]
fn cpu_numbers_match_linux() {
    let t = load("x6-2", &[]).unwrap().topology;
    assert_eq!(t.siblings(3), [3, 13]);
    assert_eq!(t.cpus[13].thread, 1);
    let t = load("numa32", &[]).unwrap().topology;
    assert_eq!(t.siblings(0), [0, 16]);
    assert_eq!(
        t.node_cpus(8),
        [8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31]
    );
    assert_eq!(t.node_distance(0, 8), 21);
    let t = load("epyc-2s", &[]).unwrap().topology;
    assert_eq!((t.cpus.len(), t.llcs.len(), t.nodes.len()), (256, 16, 2));
    assert_eq!(t.llc_cpus(0)[..9], [0, 1, 2, 3, 4, 5, 6, 7, 128]);
    assert_eq!(t.distance(0, 128), Distance::Core);
    assert_eq!(t.distance(0, 7), Distance::Llc);
    assert_eq!(t.distance(0, 8), Distance::Node);
    assert_eq!(t.distance(0, 64), Distance::Remote);
    assert_eq!(t.distance(5, 5), Distance::Same);
    let t = load("hybrid", &[]).unwrap().topology;
    assert_eq!(t.siblings(1), [0, 1]);
    assert_eq!((t.cpus[11].capacity, t.cpus[12].capacity), (1024, 600));
    let smp8 = load("smp8", &[]).unwrap();
    assert_eq!(
        (smp8.hz, smp8.topology.llcs.len(), smp8.topology.nodes.len()),
        (100, 8, 1)
    );
    assert_eq!(smp8.topology.distance(0, 1), Distance::Node);
}
