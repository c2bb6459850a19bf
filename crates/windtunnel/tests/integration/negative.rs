// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the sanitizer catches each deliberately broken policy of `negative/` with the check
//! that the policy's header names.
//!
//! The header also says how the policy ends without the sanitizer, which shows what only `--check`
//! finds. With `--check`, the exit record names the source line marked `here`, and both engines
//! give the same record.

use crate::support;
use crate::support::{object, results, root};
use serde_json::Value;
use std::path::Path;

const FOLDER: &str = "crates/windtunnel/tests/negative";

/// Expectations in a policy's header comment.
struct Header {
    source: String,
    check: String,
    without: String,
    kind: String,
    /// Number of the source line marked `here`.
    line: Option<usize>,
}

fn header(name: &str) -> Header {
    let source = std::fs::read_to_string(root().join(FOLDER).join(name)).expect("a source");
    let field = |field: &str| {
        let prefix = format!(" * {field}: ");
        let line = source.lines().find_map(|line| line.strip_prefix(&prefix));
        line.map(str::to_owned)
    };
    Header {
        check: field("with --check").unwrap_or_else(|| panic!("{name}: its header says no check")),
        without: field("without").unwrap_or_else(|| panic!("{name}: its header says nothing of without")),
        kind: field("kind").unwrap_or_else(|| "SCX_EXIT_ERROR_CHECK".to_owned()),
        line: source
            .lines()
            .position(|line| line.contains("/* here */"))
            .map(|at| at + 1),
        source: name.to_owned(),
    }
}

fn run(name: &str, more: &[&str]) -> Value {
    let object = object(&format!("{FOLDER}/{name}"));
    let object = object.to_str().expect("a path");
    let mut results = results(&[&[object, "--for", "600ms"], more].concat());
    results.remove(0)
}

fn caught(header: &Header) -> Result<(), String> {
    let name = &header.source;
    let records: Vec<Value> = ["jit", "interpreter"]
        .iter()
        .map(|engine| run(name, &["--check", "--engine", engine])["exit"].take())
        .collect();
    let message_has = |exit: &Value, part: &str| exit["message"].as_str().is_some_and(|message| message.contains(part));
    let exit = &records[0];
    if exit["kind"] != header.kind.as_str() || !message_has(exit, &header.check) {
        return Err(format!("{name}: not caught by \"{}\": {exit:#}", header.check));
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
        "nothing" => without.is_null(),
        part => message_has(&without, part),
    };
    match as_promised {
        true => Ok(()),
        false => Err(format!(
            "{name}: without --check not \"{}\": {without:#}",
            header.without
        )),
    }
}

#[test]
fn each_broken_policy_is_caught_by_the_check_in_its_header() {
    let entries = std::fs::read_dir(root().join(FOLDER)).expect("the folder").flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("a name"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".bpf.c")).collect();
    names.sort();
    assert!(names.len() >= 30, "{} policies", names.len());
    let failed: Vec<String> = names.iter().filter_map(|name| caught(&header(name)).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn a_finding_ends_the_run_with_status_1_and_a_sanitizer_report() {
    let object = object(&format!("{FOLDER}/use_after_release.bpf.c"));
    let ran = support::windtunnel(&["run", object.to_str().expect("a path"), "--for", "600ms", "--check"]);
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
fn the_sanitizer_does_not_change_the_schedules_of_the_policies() {
    for policy in support::policies() {
        let object = object(&format!("policies/{policy}.bpf.c"));
        let run = |more: &[&str]| {
            let args = [&[object.to_str().expect("a path"), "--for", "60ms"], more].concat();
            results(&args).remove(0)
        };
        let plain = run(&[]);
        assert!(
            plain["exit"].is_null() && plain["checked"].is_null(),
            "{policy}: {plain:#}"
        );
        for engine in ["jit", "interpreter"] {
            let checked = run(&["--check", "--engine", engine]);
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
