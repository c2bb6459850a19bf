// SPDX-License-Identifier: GPL-2.0-only
//! Checks that each function that a policy can call is either modelled or listed in
//! `release/absent.rs`, and that a test calls each modelled kfunc.

use kernel::kfuncs;
use kernel::release::RELEASES;
use kernel::release::absent::ABSENT;
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
    let text = read(&format!("tests/surface/{file}"));
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn every_missing_function_has_a_documented_reason() {
    let table = kfuncs::table(&Costs::default());
    let modelled: BTreeSet<String> = table.iter().map(|func| func.name.to_owned()).collect();
    let groups = ABSENT.iter().flat_map(|group| group.names);
    let absent: BTreeSet<String> = groups.map(|name| (*name).to_owned()).collect();
    let helpers = names("helpers.txt");
    assert!(
        helpers.len() >= 80 && absent.len() > 50,
        "{} {}",
        helpers.len(),
        absent.len()
    );
    let both: Vec<&String> = absent.intersection(&modelled).collect();
    assert!(
        both.is_empty(),
        "these functions are modelled; remove them from release/absent.rs: {both:?}"
    );
    let missing = helpers
        .iter()
        .filter(|name| !modelled.contains(*name) && !absent.contains(*name));
    let missing: Vec<&String> = missing.collect();
    assert!(
        missing.is_empty(),
        "these functions are not modelled; add a reason to release/absent.rs: {missing:?}"
    );
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
fn function_names_are_unique_in_each_release() {
    for release in RELEASES {
        let table = kfuncs::table_of(&Costs::default(), release);
        let mut names: Vec<&str> = table.iter().map(|func| func.name).collect();
        names.sort_unstable();
        let duplicates: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(duplicates.is_empty(), "Linux {release}: {duplicates:?}");
    }
}
