// SPDX-License-Identifier: GPL-2.0-only
//! Executes experiments on the host, for a time that is too short for meaningful figures. The tests
//! check only that measured, published and simulated figures are present.

use crate::alone::{alone, command, status_and_text};
use serde_json::Value;

/// Runs `live study` and returns the results.
fn study(args: &[&str]) -> Vec<Value> {
    let _alone = alone();
    let output = command(&["study"]).args(args).args(["--json", "-"]).output();
    let output = output.expect("windtunnel-live can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// Returns the cell `column` of the row with these keys.
fn cell<'a>(result: &'a Value, keys: &[(&str, &str)], column: &str) -> &'a Value {
    let mut rows = result["rows"].as_array().expect("the result has rows").iter();
    let row = rows.find(|row| keys.iter().all(|(key, value)| row["keys"][key] == *value));
    let row = row.unwrap_or_else(|| panic!("no row {keys:?} in {result}"));
    &row["values"][column]
}

#[test]
fn seven_tasks_are_counted_on_two_cpus() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        golden::skip!("the host has only one CPU");
        return;
    }
    let short = ["--with=seconds=2", "--with=settled_s=1.5", "--with=warmup_s=0"];
    let results = study(&[&["smp/heavy", "--simulate"][..], &short].concat());
    let [live, simulated] = results.as_slice() else {
        panic!("a result of each side: {results:?}");
    };
    let value = |result, os, metric| cell(result, &[("os", os), ("metric", metric)], "value");
    let loads = ["load_cpu0", "load_cpu1"].map(|metric| value(live, "linux", metric)["measured"].as_f64());
    // All seven tasks compute without pauses.
    assert_eq!(loads[0].zip(loads[1]).map(|(a, b)| a + b), Some(7.0), "{loads:?}");
    assert_eq!(value(live, "linux", "load_cpu0")["published"], 4.0);
    assert_eq!(value(live, "windows", "load_cpu0")["published"], 6.0);
    let mut sum = 0.0;
    for (metric, load) in ["load_cpu0", "load_cpu1"].into_iter().zip(loads) {
        let simulated = value(simulated, "linux", metric);
        assert_eq!(
            simulated["published"].as_f64(),
            load,
            "{metric}: the simulation's reference is the figure measured on this machine"
        );
        sum += simulated["measured"].as_f64().expect("the load is a number");
    }
    assert_eq!(sum, 7.0);
    let mean = &value(simulated, "linux", "mean_response_ms")["measured"];
    assert!(mean.as_f64().is_some_and(|mean| mean > 250.0), "{mean}");
    let notes = [live, simulated].map(|result| result["notes"].to_string());
    assert!(
        notes[0].contains("this machine") && notes[1].contains("policy eevdf"),
        "{notes:?}"
    );
}

#[test]
fn priorities_and_arrivals_need_one_cpu() {
    let short = ["--with", "minutes=0.003", "--cpus", "0"];
    let priorities = &study(&[&["smp/priorities"][..], &short].concat())[0];
    // There is one run for each nice value that the cases of the two systems, Linux and Windows,
    // use. Both use nice value 0, so they share this run.
    assert_eq!(priorities["runs"], 9);
    let low = cell(
        priorities,
        &[("os", "windows"), ("priority_difference", "1"), ("task", "low")],
        "requests_per_minute",
    );
    assert_eq!(low["published"], 1.8);
    assert!(low["measured"].is_number(), "{low}");
    let server = &study(&["smp/single-server", "--with", "jobs=7", "--cpus", "0"])[0];
    // The disciplines FCFS and PS share one run, because this machine has only one scheduler.
    assert_eq!(server["runs"], 1);
    for policy in ["FCFS", "PS"] {
        let mean = cell(server, &[("policy", policy)], "mean_response_ms");
        assert!(mean["published"].is_number() && mean["measured"].is_number(), "{mean}");
    }
}

#[test]
fn too_few_cpus_and_unknown_experiments_are_refused() {
    let (status, text) = status_and_text(&["study", "smp/heavy", "--cpus", "0"]);
    assert_eq!(status, 2);
    assert!(
        text.contains("'smp/heavy' needs 2 CPUs, but only 1 can be used"),
        "{text}"
    );
    let (status, text) = status_and_text(&["study", "smp/heavi"]);
    assert_eq!(status, 2);
    assert!(text.contains("smp/heavy"), "{text}");
}
