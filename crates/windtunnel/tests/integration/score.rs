// SPDX-License-Identifier: GPL-2.0-only
//! Tests `windtunnel score`: the number, its parts, and policies that get no score.

use crate::support::{object, variant, windtunnel};
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
fn a_policy_that_the_verifier_would_reject_has_no_score() {
    // These policies run to the end without the sanitizer.
    for (name, reason) in [
        ("null_load", "null-dereference: load of 8 bytes"),
        ("leaks_task", "leak: "),
        ("use_after_release", "use-after-release: load of 4 bytes"),
    ] {
        let object = object(&format!("crates/windtunnel/tests/negative/{name}.bpf.c"));
        let object = object.display().to_string();
        let (status, printed, errors) = score(&object, SUITE, &[]);
        assert_eq!(status, 1, "{name}: {printed}{errors}");
        let run = format!("{name}: hackbench:groups=1,loops=20 on smp4, seed 1 (and in 3 more runs): failed at ");
        let line = printed.lines().find(|line| line.starts_with(&run));
        let line = line.filter(|line| line.contains("sanitizer: ") && line.contains(reason));
        assert!(
            line.is_some_and(|line| line.contains(&format!("{name}.bpf.c:"))),
            "{name}: {printed}"
        );
        assert!(printed.contains("\nno score\n"), "{name}: {printed}");

        let (status, printed, errors) = score(&object, SUITE, &["--no-sanitize"]);
        assert_eq!(status, 0, "{name}: {printed}{errors}");
        assert!(printed.contains("\nscore "), "{name}: {printed}");
        assert!(printed.contains("--no-sanitize\n"), "{name}: {printed}");
    }
}

#[test]
fn the_sanitizer_changes_neither_the_score_nor_the_figures() {
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    let parts = |more: &[&str]| -> serde_json::Value {
        let (status, printed, errors) = score(&fifo, SUITE, &[&["--json"], more].concat());
        assert_eq!(status, 0, "{errors}");
        serde_json::from_str(&printed).expect("valid JSON")
    };
    let (with, without) = (parts(&[]), parts(&["--no-sanitize"]));
    assert_eq!((&with["score"], &with["cases"]), (&without["score"], &without["cases"]));
    assert!(with["checked"]["calls"].as_u64() > Some(1000), "{with}");
    assert!(without["checked"].is_null(), "{without}");
}

#[test]
fn a_probe_calls_callbacks_that_the_cases_do_not_call() {
    let object = object("crates/windtunnel/tests/policies/wrong_set_cpumask.bpf.c");
    let object = object.display().to_string();
    let (status, printed, errors) = score(&object, SUITE, &[]);
    assert_eq!(status, 0, "{printed}{errors}");
    assert!(
        printed.contains("\nnever called, so not tested: ops.set_cpumask\n"),
        "{printed}"
    );
    let probe = format!("{SUITE}\n[[probe]]\nmachine = 'smp8'\nworkload = 'compat.json'\nfor = '100ms'\n");
    let (status, printed, errors) = score(&object, &probe, &[]);
    assert_eq!(status, 1, "{printed}{errors}");
    assert!(
        printed.contains("wrong_set_cpumask: compat.json on smp8, seed 1: failed at "),
        "{printed}"
    );
    assert!(
        printed.contains("ops.set_cpumask(): leak: ") && printed.contains("\nno score\n"),
        "{printed}"
    );
    assert!(!printed.contains("never called"), "{printed}");
}

#[test]
fn a_policy_that_ignores_weights_loses_the_fairness_cases() {
    let text = |workload: &str| {
        format!(
            "[[case]]\naspect = 'fairness'\nname = 'share'\nmachine = 'x6-2'\nworkload = '{workload}'\nfor = '500ms'\n"
        )
    };
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    for (workload, ratios) in [("background.json", 0.37..0.5), ("tenants.json", 0.55..0.65)] {
        let (status, printed, errors) = score(&fifo, &text(workload), &["--json"]);
        assert_eq!(status, 0, "{errors}");
        let json: serde_json::Value = serde_json::from_str(&printed).expect("valid JSON");
        // fifo gives the 10 tasks that count a fifth of the 20 CPUs. eevdf gives them half of the
        // CPUs by their nice values, and a third by their cgroup: the shares of a cgroup count once
        // for each of its tasks, up to the number of CPUs.
        let ratio = json["by_aspect"]["fairness"].as_f64().expect("a partial score");
        assert!(ratios.contains(&ratio), "{workload}: {ratio}");
        assert_eq!(json["cases"][0]["name"], "share");
    }
}

#[test]
fn warnings_of_the_policy_are_printed_once() {
    let object = variant("crates/windtunnel/tests/broken/broken.bpf.c", "sound", &[]);
    let (status, printed, errors) = score(&object.display().to_string(), SUITE, &["--json"]);
    assert_eq!(status, 0, "{errors}");
    let json: serde_json::Value = serde_json::from_str(&printed).expect("valid JSON");
    // The constant nr_cpu_ids does not match the machines.
    for (cpus, place) in [(4, 0), (8, 1)] {
        let warning = format!("nr_cpu_ids = 1, but the machine has {cpus} CPUs");
        assert_eq!(errors.matches(&warning).count(), 1, "{errors}");
        assert!(
            json["warnings"][place]
                .as_str()
                .is_some_and(|text| text.contains(&warning)),
            "{json}"
        );
    }
}

#[test]
fn a_policy_that_the_kernel_refuses_has_no_score() {
    let object = variant(
        "crates/windtunnel/tests/broken/broken.bpf.c",
        "flags",
        &["FLAGS=(1ULL<<40)"],
    );
    let (status, printed, errors) = score(&object.display().to_string(), SUITE, &[]);
    assert_eq!(status, 1, "{printed}{errors}");
    let reason = "broken-flags: hackbench:groups=1,loops=20 on smp4, seed 1 (and in 3 more runs): refused: \
                  ops.flags has bits";
    assert!(
        printed.contains(reason) && printed.contains("\nno score\n"),
        "{printed}"
    );
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
    assert!(machines >= 4, "{json}");
    let mut weights = std::collections::BTreeMap::new();
    for case in json["cases"].as_array().expect("a list") {
        let aspect = case["aspect"].as_str().expect("each case has an aspect");
        *weights.entry(aspect).or_insert(0.0) += case["weight"].as_f64().expect("a weight");
        // A ratio of wake-up latencies overstates what a user notices.
        let metric = case["metric"].as_str().expect("a metric");
        assert!(["score", "p99_response"].contains(&metric), "{case}");
    }
    let expected = ["fairness", "latency", "placement", "throughput"].map(|aspect| (aspect, 3.0));
    assert_eq!(weights.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn an_error_in_code_that_never_runs_is_found_by_the_analysis() {
    let object = object("crates/windtunnel/tests/policies/unseen.bpf.c")
        .display()
        .to_string();
    let (status, printed, errors) = score(&object, SUITE, &[]);
    assert_eq!(status, 1, "{printed}{errors}");
    assert!(
        printed.contains("unseen: code that did not run: untested: a pointer that may be NULL"),
        "{printed}"
    );
    assert!(printed.contains("\nno score\n"), "{printed}");
    let (status, printed, errors) = score(&object, SUITE, &["--no-sanitize"]);
    assert_eq!(status, 0, "{printed}{errors}");
}
