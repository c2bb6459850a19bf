// SPDX-License-Identifier: GPL-2.0-only
//! Checks that each function that a policy (BPF scheduler) can call is either modelled or listed in
//! docs/surface.md.

use kernel::kfuncs;
use machine::Costs;
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// Returns the names in a file with one name on each line.
fn names(file: &str) -> BTreeSet<String> {
    let text = match file {
        "not_modelled.txt" => read("src/layout/release/not_modelled.txt"),
        file => read(&format!("tests/surface/{file}")),
    };
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Returns the names in the first column of the table under a heading of docs/surface.md.
fn listed(heading: &str) -> BTreeSet<String> {
    let text = read("../../docs/surface.md");
    let (_, rest) = text.split_once(heading).expect("the document has this heading");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split(['`', ',', ' ']));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_missing_function_has_a_documented_reason() {
    let table = kfuncs::table(&Costs::default());
    let absent = listed("## Deliberately absent");
    let modelled: BTreeSet<String> = table.iter().map(|func| func.name.to_owned()).collect();
    let (helpers, kfuncs) = (names("helpers.txt"), names("not_modelled.txt"));
    assert!(
        helpers.len() >= 80 && kfuncs.len() > 40,
        "{} {}",
        helpers.len(),
        kfuncs.len()
    );
    let modelled_after_all: Vec<&String> = kfuncs.intersection(&modelled).collect();
    assert!(
        modelled_after_all.is_empty(),
        "these functions are modelled; remove them from release/not_modelled.txt: {modelled_after_all:?}"
    );
    let missing: BTreeSet<&String> = helpers.difference(&modelled).chain(&kfuncs).collect();
    let undocumented: Vec<&&String> = missing.iter().filter(|name| !absent.contains(**name)).collect();
    assert!(
        undocumented.is_empty(),
        "these functions are neither modelled nor in docs/surface.md: {undocumented:?}"
    );
    let stale: Vec<&String> = absent.iter().filter(|name| !missing.contains(name)).collect();
    assert!(
        stale.is_empty(),
        "docs/surface.md lists these functions as absent, but they are modelled or in no list: {stale:?}"
    );
}

#[test]
fn function_names_are_unique() {
    let table = kfuncs::table(&Costs::default());
    let mut names: Vec<&str> = table.iter().map(|func| func.name).collect();
    names.sort_unstable();
    let duplicates: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(duplicates.is_empty(), "{duplicates:?}");
}
