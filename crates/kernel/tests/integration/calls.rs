// SPDX-License-Identifier: GPL-2.0-only
//! Checks that each function that a policy can call is either modelled or listed in
//! docs/surface.md, and that a test calls each modelled kfunc.

use kernel::kfuncs;
use machine::Costs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).expect(file)
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
    let missing: BTreeSet<&String> = helpers
        .union(&kfuncs)
        .filter(|name| !modelled.contains(*name))
        .collect();
    let modelled_after_all: Vec<&String> = kfuncs.intersection(&modelled).collect();
    let undocumented: Vec<&&String> = missing.iter().filter(|name| !absent.contains(**name)).collect();
    let stale: Vec<&String> = absent.iter().filter(|name| !missing.contains(name)).collect();
    let faults = [
        (
            "these functions are modelled; remove them from crates/kernel/src/layout/release/not_modelled.txt",
            format!("{modelled_after_all:?}"),
        ),
        (
            "these functions are neither modelled nor in docs/surface.md; add a reason there",
            format!("{undocumented:?}"),
        ),
        (
            "these functions are modelled or in no list; remove them from \"Deliberately absent\" in docs/surface.md",
            format!("{stale:?}"),
        ),
    ];
    let faults = faults.iter().filter(|(_, names)| names != "[]");
    let faults: Vec<String> = faults.map(|(fault, names)| format!("{fault}: {names}")).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Adds the words of all files below a directory, except those in declarations of kfuncs. A word
/// such as `scx_bpf_consume___old` also adds the name of the kfunc, `scx_bpf_consume`.
fn add_words(folder: &Path, words: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the directory exists").flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_words(&path, words);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("the file is UTF-8");
        for statement in text.split(';').filter(|statement| !statement.contains("__ksym")) {
            for word in statement.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                words.insert(word.to_owned());
                words.insert(word.split("___").next().unwrap_or(word).to_owned());
            }
        }
    }
}

#[test]
fn every_kfunc_is_called_by_a_test() {
    let mut words = BTreeSet::new();
    for folder in ["tests/policies", "../bpf/tests"] {
        add_words(&path(folder), &mut words);
    }
    let table = kfuncs::table(&Costs::default());
    let kfuncs = table.iter().filter(|func| func.helper.is_none());
    let not_called: BTreeSet<String> = kfuncs
        .map(|func| func.name.to_owned())
        .filter(|name| !words.contains(name))
        .collect();
    let listed = names("not_called.txt");
    let new: Vec<&String> = not_called.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "no test calls these kfuncs: {new:?}\n\
         call them in crates/kernel/tests/policies, or, if they need no scheduler, in crates/bpf/tests/corpus"
    );
    let stale: Vec<&String> = listed.difference(&not_called).collect();
    assert!(
        stale.is_empty(),
        "these kfuncs are called, or they are not modelled; remove them from \
         crates/kernel/tests/surface/not_called.txt: {stale:?}"
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
