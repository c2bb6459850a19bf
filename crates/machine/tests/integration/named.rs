// SPDX-License-Identifier: GPL-2.0-only
//! Compares the output of `machine list` and `machine show` for the named machines, and
//! docs/costs.md, with committed files.

use machine::costs::CONSTANTS;
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
            assert!(
                definition.cost_sources.contains_key(constant.name),
                "{}: {}",
                machine.name,
                constant.name
            );
        }
    }
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
