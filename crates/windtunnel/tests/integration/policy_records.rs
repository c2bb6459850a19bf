// SPDX-License-Identifier: GPL-2.0-only
//! Tests that every policy is complete. Its header must say for which workloads it is good and bad,
//! policies/policies.toml must say how it is tested, a test must name it, and the table in
//! policies/README.md must list it. `UPDATE_GOLDEN=1 cargo test -p windtunnel policy_records` writes the tables.

use crate::support::records::{FILE, PROMISES, Record, records};
use crate::support::{self, policy::free};
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use runner::{policy, profiles};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use workload::Workload;

#[test]
fn policy_records_are_complete() {
    std::env::set_current_dir(support::root()).expect("the repository's directory exists");
    let mut missing = Vec::new();
    let (names, records) = (support::policies(), records());
    for name in records.keys().filter(|name| !names.contains(name)) {
        missing.push(format!(
            "{FILE}: [{name}] is a record, but there is no policies/{name}.bpf.c"
        ));
    }
    for name in &names {
        let object = read(name);
        missing.extend(header_lacks(name));
        missing.extend(ops_lack(name, &object));
        missing.extend(match records.get(name) {
            Some(record) => record_lacks(name, record, &object),
            None => vec![no_record(name, &object)],
        });
    }
    missing.extend(tests_lack(&names));
    assert!(missing.is_empty(), "\n\n{}\n", missing.join("\n\n"));
    golden::check_section!("../../policies/README.md", "policies", &policy_table(&names));
    golden::check_section!("../../policies/README.md", "headers", &header_table(&names));
}

fn read(name: &str) -> Object {
    let bytes = std::fs::read(support::object(&source(name))).expect("the object file exists");
    Object::parse(&bytes, name).expect("the object can be parsed")
}

fn source(name: &str) -> String {
    format!("policies/{name}.bpf.c")
}

/// Returns the names of a policy's counters. A counter is a global whose name begins with nr_.
fn counters(object: &Object) -> Vec<&str> {
    let names = object.variables().iter().filter(|variable| variable.live);
    let names = names.map(|variable| variable.name.as_str());
    names
        .filter(|name| name.starts_with("nr_") && *name != "nr_cpus")
        .collect()
}

fn header_lacks(name: &str) -> Vec<String> {
    let header = policy::header(name).unwrap_or_default();
    let mut missing = Vec::new();
    if !header.starts_with(&format!("{name}: ")) || policy::idea(&header).is_none() {
        missing.push(format!(
            "{}: the header comment must begin with \" * {name}: \" and the idea in a sentence",
            source(name)
        ));
    }
    for title in ["Good for", "Bad for", "Source"] {
        if policy::remark(&header, title).is_none() {
            missing.push(format!(
                "{}: the header comment needs a line \" * {title}: ...\"",
                source(name)
            ));
        }
    }
    missing
}

/// Returns a message if the policy has no hotplug callbacks. Without them, the kernel ends the
/// policy at each hotplug event.
fn ops_lack(name: &str, object: &Object) -> Option<String> {
    let machine = Machine::new(free(1), Workload::default(), 1).expect("the machine can run the workload");
    let mut object = object.clone();
    let profile = profiles::find(name, &support::object(&source(name))).expect("the profile can be read");
    let applied = profile.apply(
        &mut object,
        profile::Properties::new(machine.spec(), &machine.options().release),
    );
    applied.expect("the profile matches the object");
    let (image, _) =
        kernel::load::open(&machine, &object, &profile, Engine::default()).expect("the object can be linked");
    let defined = |callback: &str| image.struct_ops.iter().any(|ops| ops.programs.contains_key(callback));
    (!defined("cpu_online") || !defined("cpu_offline")).then(|| {
        format!(
            "{}: the kernel ends a policy without ops.cpu_online() and ops.cpu_offline() when a CPU comes or goes:\n    \
             add #include \"include/hotplug.h\" (pass_on.h if CPUs have queues), and HOTPLUG_CALLBACKS to SCX_OPS()",
            source(name)
        )
    })
}

fn no_record(name: &str, object: &Object) -> String {
    format!(
        "{FILE}: there is no record of {}. Add\n    [{name}]\n    promise = \"nothing\"\n    live = [{{ moves = \"{}\" }}]\nand \
         see `Promise` in {PROMISES} for better promises",
        source(name),
        counters(object).join(" ")
    )
}

/// Returns a message for each policy that no test of a policy names. scripts/check/policy.sh searches the
/// same files.
fn tests_lack(names: &[String]) -> Vec<String> {
    let folder = "crates/windtunnel/tests/integration";
    let is_test = |file: &str| {
        file == "schedules.rs"
            || file.starts_with("policy_") && !file.contains("records") && !file.contains("properties")
    };
    let files = stems(Path::new(folder)).into_iter().map(|stem| stem + ".rs");
    let texts = files.filter(|file| is_test(file)).map(|file| {
        let path = Path::new(folder).join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    let tests = texts.collect::<String>();
    let untested = names.iter().filter(|name| !tests.contains(&format!("\"{name}\"")));
    untested
        .map(|name| {
            format!(
                "{}: no test names this policy. Write {folder}/policy_{name}.rs (policy_rr.rs is an example), and add \
                 `mod policy_{name};` to main.rs",
                source(name)
            )
        })
        .collect()
}

/// Returns the names of the Rust files in a directory, without `.rs`.
fn stems(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .collect()
}

/// Without its `mod` line, a test file is not compiled, and cargo says nothing about it.
#[test]
fn every_test_file_of_all_crates_has_a_mod_line() {
    let mut missing = Vec::new();
    for package in std::fs::read_dir(support::root().join("crates"))
        .expect("the directory of crates exists")
        .flatten()
    {
        let programs = std::fs::read_dir(package.path().join("tests")).into_iter().flatten();
        for program in programs.flatten().map(|program| program.path()) {
            let main = program.join("main.rs");
            let Ok(text) = std::fs::read_to_string(&main) else {
                continue;
            };
            for stem in stems(&program).into_iter().filter(|stem| stem != "main") {
                let line = format!("mod {stem};");
                if !text.lines().any(|found| found.ends_with(&line)) {
                    let main = main.strip_prefix(support::root()).unwrap_or(&main).display();
                    missing.push(format!("{main}: add `{line}`, or {stem}.rs is not compiled"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

/// Returns a message for each parameter or counter that the record names but the policy does not
/// have.
fn record_lacks(name: &str, record: &Record, object: &Object) -> Vec<String> {
    let known: BTreeSet<&str> = object
        .variables()
        .iter()
        .map(|variable| variable.name.as_str())
        .collect();
    let settings = record.live.iter().flat_map(|live| live.set.split_whitespace());
    let settings = settings.map(|setting| setting.split('=').next().unwrap_or(setting));
    let moved = record.live.iter().flat_map(|live| live.moves.split_whitespace());
    let used = settings.chain(moved).chain(record.still.split_whitespace());
    let unknown = used.filter(|used| !known.contains(used));
    unknown
        .map(|unknown| format!("{FILE}: [{name}] names {unknown}, which {} does not have", source(name)))
        .collect()
}

fn policy_table(names: &[String]) -> String {
    let mut table = "| policy | idea | good for | bad for | source |\n|---|---|---|---|---|\n".to_owned();
    for name in names {
        let header = policy::header(name).unwrap_or_default();
        let idea = policy::idea(&header).unwrap_or_default();
        let remarks = ["Good for", "Bad for", "Source"].map(|title| {
            let remark = policy::remark(&header, title).unwrap_or_default();
            remark.trim_end_matches('.').to_owned()
        });
        let _ = writeln!(table, "| `{name}` | {idea} | {} |", remarks.join(" | "));
    }
    table
}

/// Formats the table of the headers in policies/include. For each header, it contains the first
/// sentence of the header's comment, and the policies that include the header.
fn header_table(names: &[String]) -> String {
    let mut users: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in std::fs::read_dir("policies/include")
        .expect("policies/include exists")
        .flatten()
    {
        users.insert(
            entry.file_name().into_string().expect("the file name is UTF-8"),
            Vec::new(),
        );
    }
    for name in names {
        let mut included = BTreeSet::new();
        include(Path::new(&source(name)), &mut included);
        for header in included {
            users
                .get_mut(&header)
                .expect("the header is in policies/include")
                .push(name);
        }
    }
    let mut table = "| header | what | used by |\n|---|---|---|\n".to_owned();
    for (header, users) in users {
        let text = std::fs::read_to_string(Path::new("policies/include").join(&header)).expect("the header exists");
        let comment = text.split("/*\n").nth(1).unwrap_or_default();
        let comment = comment.lines().map(|line| line.trim_start_matches([' ', '*']));
        let comment = comment.take_while(|line| !line.is_empty() && *line != "/");
        let comment = comment.collect::<Vec<_>>().join(" ");
        let summary = comment.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let users = if users.len() == names.len() {
            "all".to_owned()
        } else {
            users.join(", ")
        };
        let _ = writeln!(table, "| `{header}` | {summary} | {users} |");
    }
    table
}

/// Adds the headers that a file includes directly, and those that they include.
fn include(file: &Path, included: &mut BTreeSet<String>) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    for line in text.lines() {
        let quoted = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        let Some(header) = quoted.and_then(|path| path.rsplit('/').next()) else {
            continue;
        };
        if included.insert(header.to_owned()) {
            include(&Path::new("policies/include").join(header), included);
        }
    }
}
