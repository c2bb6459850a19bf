// SPDX-License-Identifier: GPL-2.0-only
//! The SMP study on whatever machine runs the tests, shortened until its figures mean nothing: what is measured is there, and what is
//! known of it stands beside it.

use crate::alone::{alone, command, told};
use serde_json::Value;

fn study(args: &[&str]) -> Value {
    let _alone = alone();
    let output = command(&["study"]).args(args).args(["--json", "-"]).output();
    let output = output.expect("windtunnel-live runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn figure<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let figures = answer["figures"].as_array().expect("figures");
    let found = figures.iter().find(|figure| figure["figure"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

#[test]
fn seven_tasks_are_seen_on_two_cpus() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let study = study(&["heavy", "--for", "1500ms", "--simulate"]);
    let heavy = &study["answers"][0];
    assert_eq!(heavy["question"], "heavy");
    let load = |cpu: u32| &figure(heavy, &format!("load_cpu{cpu}"))["measured"];
    let loads = [load(0), load(1)].map(|load| load.as_f64().expect("a load"));
    // All compute all the time.
    assert_eq!(loads[0] + loads[1], 7.0, "{loads:?}");
    let first = figure(heavy, "load_cpu0");
    assert_eq!(first["references"]["linux published"], 4.0, "{first}");
    assert_eq!(first["references"]["windows published"], 6.0, "{first}");
    assert_eq!(first["simulated"], 4.0, "{first}");
    assert_eq!(figure(heavy, "mean_response_ms")["theory"], 875.0);
}

#[test]
fn priorities_and_arrivals_need_one_cpu() {
    let study = study(&["priorities", "open", "--for", "150ms", "--cpus", "0"]);
    let [priorities, open] = study["answers"].as_array().expect("answers").as_slice() else {
        panic!("two answers: {study}");
    };
    assert_eq!(priorities["workloads"].as_array().expect("workloads").len(), 7);
    assert_eq!(figure(priorities, "19 low")["references"]["linux simulated"], 5.7);
    assert_eq!(figure(open, "jobs")["measured"], 7.0);
    let of = |name: &str| figure(open, name)["measured"].as_f64().expect("a number");
    // Who comes after others have begun waits in either discipline.
    assert!(of("fcfs_of_these_ms") > 0.0 && of("ps_of_these_ms") > 0.0);
    assert!(of("mean_response_ms") > 0.0);
}

#[test]
fn too_few_cpus_are_a_reason() {
    let (status, text) = told(&["study", "heavy", "--cpus", "0"]);
    assert_eq!(status, 2);
    assert!(text.contains("'heavy' needs 2 CPUs, there are 1"), "{text}");
    let (status, text) = told(&["study", "heavi"]);
    assert_eq!(status, 2);
    assert!(text.contains("heavy"), "{text}");
}
