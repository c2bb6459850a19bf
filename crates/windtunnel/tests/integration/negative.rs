// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the sanitizer (`--sanitize`) finds the violation in each policy of `negative/`. Each
//! of these policies breaks one rule deliberately.
//!
//! The header comment of a policy says how its run must end with the sanitizer and without it. The
//! difference shows what only `--sanitize` finds. With `--sanitize`, the exit record must name the
//! source line that is marked `violation`, and both engines must give the same record.

use crate::support;
use crate::support::{object, results, root};
use serde_json::Value;
use std::path::Path;

const FOLDER: &str = "crates/windtunnel/tests/negative";

/// Expectations, from the header comment of a policy.
struct Header {
    source: String,
    check: String,
    without: String,
    kind: String,
    /// Number of the source line that is marked `violation`.
    line: Option<usize>,
}

fn header(name: &str) -> Header {
    let source = std::fs::read_to_string(root().join(FOLDER).join(name)).expect("the source exists");
    let field = |field: &str| {
        let prefix = format!(" * {field}: ");
        let line = source.lines().find_map(|line| line.strip_prefix(&prefix));
        line.map(str::to_owned)
    };
    Header {
        check: field("expected message with --sanitize")
            .unwrap_or_else(|| panic!("{name}: no 'expected message with --sanitize' in the header")),
        without: field("expected message without --sanitize")
            .unwrap_or_else(|| panic!("{name}: no 'expected message without --sanitize' in the header")),
        kind: field("expected exit kind").unwrap_or_else(|| "SCX_EXIT_ERROR_CHECK".to_owned()),
        line: source
            .lines()
            .position(|line| line.contains("/* violation */"))
            .map(|at| at + 1),
        source: name.to_owned(),
    }
}

fn run(name: &str, more: &[&str]) -> Value {
    let object = object(&format!("{FOLDER}/{name}"));
    let object = object.to_str().expect("the path is UTF-8");
    let mut results = results(&[&[object, "--for", "600ms"], more].concat());
    results.remove(0)
}

fn caught(header: &Header) -> Result<(), String> {
    let name = &header.source;
    let records: Vec<Value> = ["jit", "interpreter"]
        .iter()
        .map(|engine| run(name, &["--sanitize", "--engine", engine])["exit"].take())
        .collect();
    let message_has = |exit: &Value, part: &str| exit["message"].as_str().is_some_and(|message| message.contains(part));
    let exit = &records[0];
    if exit["kind"] != header.kind.as_str() || !message_has(exit, &header.check) {
        return Err(format!(
            "{name}: expected \"{}\" with --sanitize, found: {exit:#}",
            header.check
        ));
    }
    if records[0] != records[1] {
        return Err(format!("{name}: the engines differ: {:#} {:#}", records[0], records[1]));
    }
    if let Some(line) = header.line {
        let position = format!("{name}:{line}:");
        if !exit["source"].as_str().is_some_and(|source| source.contains(&position)) {
            return Err(format!("{name}: the record does not name source line {line}: {exit:#}"));
        }
    }
    let without = run(name, &[])["exit"].take();
    let as_promised = match header.without.as_str() {
        "none" => without.is_null(),
        part => message_has(&without, part),
    };
    match as_promised {
        true => Ok(()),
        false => Err(format!(
            "{name}: expected \"{}\" without --sanitize, found: {without:#}",
            header.without
        )),
    }
}

#[test]
fn each_broken_policy_is_caught_by_the_check_in_its_header() {
    let entries = std::fs::read_dir(root().join(FOLDER))
        .expect("the directory exists")
        .flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("the file name is UTF-8"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".bpf.c")).collect();
    names.sort();
    assert!(names.len() >= 30, "there are only {} policies", names.len());
    let failed: Vec<String> = names.iter().filter_map(|name| caught(&header(name)).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn a_finding_ends_the_run_with_status_1_and_a_sanitizer_report() {
    let object = object(&format!("{FOLDER}/use_after_release.bpf.c"));
    let ran = support::windtunnel(&[
        "run",
        object.to_str().expect("the path is UTF-8"),
        "--for",
        "600ms",
        "--sanitize",
    ]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    for part in [
        "sanitizer: ops.running(): use-after-release: load of 4 bytes at 0x",
        "use_after_release.bpf.c:",
        "a reference to a task_struct was acquired in bad_running (",
        "and released in bad_running (",
        " of the task_struct of ",
    ] {
        assert!(ran.stderr.contains(part), "no {part:?} in: {}", ran.stderr);
    }
    assert!(Path::new(&object).exists());
}

#[test]
fn without_the_sanitizer_an_unallocated_page_of_the_arena_causes_a_warning() {
    let name = "arena_unallocated.bpf.c";
    let object = object(&format!("{FOLDER}/{name}"));
    let object = object.to_str().expect("the path is UTF-8");
    let line = header(name).line.expect("the source has a marked line");
    let found: Vec<Value> = ["jit", "interpreter"]
        .iter()
        .map(|engine| run(name, &["--engine", engine])["arena_faults"].take())
        .collect();
    assert_eq!(found[0], found[1], "the engines differ");
    let fault = &found[0][0];
    assert_eq!(
        (fault["access"].as_str(), fault["address"].as_str()),
        (Some("WRITE"), Some("0x200800005000"))
    );
    assert!(fault["count"].as_u64() > Some(10), "{fault}");
    let position = format!("{name}:{line}:");
    assert!(
        fault["source"]
            .as_str()
            .is_some_and(|source| source.contains(&position)),
        "{fault}"
    );
    let ran = support::windtunnel(&["run", object, "--for", "20ms"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for part in [
        " stores had no effect",
        "\"ERROR: Arena WRITE access at unmapped address 0x200800005000\"",
        &position,
    ] {
        assert!(ran.stderr.contains(part), "no {part:?} in: {}", ran.stderr);
    }
}

#[test]
fn the_sanitizer_does_not_change_the_schedules_of_the_policies() {
    for policy in support::policies() {
        let object = object(&format!("policies/{policy}.bpf.c"));
        let run = |more: &[&str]| {
            let args = [&[object.to_str().expect("the path is UTF-8"), "--for", "60ms"], more].concat();
            results(&args).remove(0)
        };
        let plain = run(&[]);
        assert!(
            plain["exit"].is_null() && plain["checked"].is_null(),
            "{policy}: {plain:#}"
        );
        for engine in ["jit", "interpreter"] {
            let checked = run(&["--sanitize", "--engine", engine]);
            assert!(checked["exit"].is_null(), "{policy}, {engine}: {:#}", checked["exit"]);
            assert!(
                checked["checked"]["accesses"].as_u64() > Some(1000),
                "{policy}: {:#}",
                checked["checked"]
            );
            assert_eq!(checked["trace_hash"], plain["trace_hash"], "{policy}, {engine}");
        }
    }
}
