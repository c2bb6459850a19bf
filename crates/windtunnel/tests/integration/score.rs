// SPDX-License-Identifier: GPL-2.0-only
//! Tests `windtunnel score`: the number, its parts, and policies that get no score.

use crate::support::{object, windtunnel};
use std::path::PathBuf;
use tempfile::TempDir;

const SUITE: &str = "seeds = 2
[[case]]
machine = 'smp4'
workload = 'hackbench:groups=1,loops=20'
for = '10s'
[[case]]
machine = 'core:4 pu:2'
workload = 'closed:n=9,compute=1ms,think=1ms'
for = '700ms'
weight = 2.0
";

fn suite(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("the directory can be created");
    let path = folder.path().join("suite.toml");
    std::fs::write(&path, text).expect("the file can be written");
    (folder, path)
}

fn score(policy: &str, text: &str, more: &[&str]) -> (i32, String, String) {
    let (_folder, path) = suite(text);
    let path = path.display().to_string();
    let ran = windtunnel(&[&["score", policy, "--suite", &path], more].concat());
    (ran.status, ran.stdout.replace(&path, "SUITE"), ran.stderr)
}

#[test]
fn eevdf_has_the_score_one_and_a_policy_has_a_ratio_for_each_case() {
    let (status, printed, _) = score("eevdf", SUITE, &[]);
    assert_eq!(status, 0);
    assert!(
        printed.contains("score 1.0000 (95 % CI 1.0000 to 1.0000; eevdf is 1)"),
        "{printed}"
    );

    let fifo = object("policies/fifo.bpf.c").display().to_string();
    let (status, printed, errors) = score(&fifo, SUITE, &["--json"]);
    assert_eq!(status, 0, "{errors}");
    let json: serde_json::Value = serde_json::from_str(&printed).expect("valid JSON");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let ratios: Vec<f64> = (0..2).map(|case| number(&json["cases"][case]["ratio"])).collect();
    let expected = (ratios[0] * ratios[1] * ratios[1]).cbrt();
    assert!((number(&json["score"]) - expected).abs() < 1e-9, "{json}");
    // The figure of the first case is a time, so the baseline's time is the numerator.
    let time = |side: &str, seed: usize| number(&json["cases"][0][side][seed]);
    let first = (time("baseline", 0) / time("policy", 0) * time("baseline", 1) / time("policy", 1)).sqrt();
    assert!((ratios[0] - first).abs() < 1e-9, "{json}");
    assert!(number(&json["score_low"]) <= expected && expected <= number(&json["score_high"]));
    assert_eq!(number(&json["by_machine"]["smp4"]), ratios[0]);

    // The score depends neither on the number of threads nor on the run.
    assert_eq!(score(&fifo, SUITE, &["--json", "--threads", "1"]).1, printed);
    // A setting changes the score and is part of the command that repeats it.
    let (_, other, _) = score(&fifo, SUITE, &["--json", "--set", "slice_ns=100000"]);
    assert!(other.contains("--set slice_ns=100000") && other != printed, "{other}");
}

#[test]
fn policies_that_fail_or_lose_tasks_or_do_not_end_have_no_score() {
    let slow = SUITE.replace("10s", "1ms");
    for (source, text, reason) in [
        (
            "crates/windtunnel/tests/negative/missing_dsq.bpf.c",
            SUITE,
            "non-existent DSQ",
        ),
        (
            "crates/windtunnel/tests/negative/loses_task.bpf.c",
            SUITE,
            "runnable task stall",
        ),
        ("crates/windtunnel/tests/policies/endless.bpf.c", SUITE, "failed"),
    ] {
        let object = object(source).display().to_string();
        let (status, printed, errors) = score(&object, text, &[]);
        assert_eq!(status, 1, "{source}: {printed}{errors}");
        assert!(
            printed.contains("no score") && printed.contains(reason),
            "{source}: {printed}"
        );
        let (status, printed, _) = score(&object, text, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&printed).expect("valid JSON");
        assert!(
            status == 1 && json["score"].is_null() && json["score_low"].is_null(),
            "{json}"
        );
        assert!(
            json["failures"][0].as_str().is_some_and(|text| text.contains("on ")),
            "{json}"
        );
    }
    let (status, _, errors) = score("eevdf", &slow, &[]);
    assert_eq!(status, 2);
    assert!(errors.contains("the workload did not end within 1ms"), "{errors}");
}

#[test]
fn wrong_suites_are_refused_with_a_hint() {
    let ran = windtunnel(&["score", "eevdf", "--suite", "nonsense"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("there is no score suite 'nonsense'"),
        "{}",
        ran.stderr
    );
    let (status, _, errors) = score("eevdf", &SUITE.replace("smp4", "smp44"), &[]);
    assert!(status == 2 && errors.contains("did you mean"), "{errors}");
}

#[test]
fn the_shipped_suite_works() {
    let ran = windtunnel(&["score", "eevdf", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!(json["score"], 1.0);
    let machines = json["by_machine"].as_object().expect("an object").len();
    assert!(
        machines >= 4 && json["cases"].as_array().expect("a list").len() >= 8,
        "{json}"
    );
}
