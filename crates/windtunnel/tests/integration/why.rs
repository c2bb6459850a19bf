// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `windtunnel why`.

use crate::support::{object, windtunnel};

const LOAD: [&str; 6] = ["-m", "smp4", "-w", "mixed.json", "--for", "30ms"];

fn why(args: &[&str]) -> String {
    let ran = windtunnel(&[&["why"], args].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout
}

#[test]
fn a_wait_of_a_run_is_explained_with_the_decisions_of_the_policy() {
    let fifo = object("policies/fifo.bpf.c").display().to_string();
    let text = why(&[&[&fifo, "--longest", "2"][..], &LOAD].concat());
    assert_eq!(text.matches("for a CPU, from ").count(), 2, "{text}");
    for part in [
        "\nbegin  ",
        "\nqueued  ",
        "\ndecided  ",
        "(fifo.bpf.c:",
        "\nplace  ",
        "\nran instead",
        "\nend  ",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
}

#[test]
fn decisions_after_the_wait_are_left_out() {
    let load = ["-m", "smp4", "-w", "closed:n=9,compute=7ms,think=1ms", "--for", "100ms"];
    let text = why(&[&["vtime", "--longest", "3", "--json"][..], &load].concat());
    let waits: serde_json::Value = serde_json::from_str(&text).expect("the output is JSON");
    for wait in waits.as_array().expect("a list") {
        let end = wait["end_ns"].as_u64().expect("the wait ends");
        let decisions = wait["decisions"].as_array().expect("a list");
        let times = decisions.iter().map(|decision| decision["time_ns"].as_u64());
        let times: Vec<u64> = times.map(|time| time.expect("a time")).collect();
        assert!(
            !times.is_empty() && times.iter().all(|&time| time <= end),
            "{end}: {times:?}"
        );
    }
}

/// A trace of a run contains the same wait as the run.
#[test]
fn a_wait_is_the_same_in_a_run_and_in_its_trace() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("why.wtt");
    let path = path.display().to_string();
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&why(&[args, &["--json"]].concat())).expect("the output is JSON")
    };
    let run = json(&[&["eevdf"][..], &LOAD].concat());
    let ran = windtunnel(&[&["run", "eevdf", "--trace", &path][..], &LOAD].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let traced = json(&[&path]);
    for key in [
        "pid",
        "comm",
        "begin_ns",
        "end_ns",
        "cause",
        "queued_on",
        "ran_instead",
        "moves",
        "end",
    ] {
        assert_eq!(run[0][key], traced[0][key], "{key}");
    }
    let (pid, begin) = (&run[0]["pid"], &run[0]["begin_ns"]);
    let wait = format!("{pid}@{begin}ns");
    assert_eq!(json(&[&path, &wait])[0]["begin_ns"], *begin);
    assert!(run[0]["places"].as_array().is_some_and(|places| !places.is_empty()));
}

#[test]
fn a_wait_of_a_recording_is_explained() {
    let text = why(&["crates/windtunnel/tests/recordings/perf.txt"]);
    assert!(text.contains(" waited ") && text.contains("\nend  "), "{text}");
}

#[test]
fn a_task_without_a_wait_is_an_error() {
    for (wait, part) in [
        ("nobody@2ms", "there is no task 'nobody'; names of tasks: "),
        ("nobody", "'nobody' has no time, expected TASK@TIME"),
    ] {
        let ran = windtunnel(&[&["why", "eevdf", wait][..], &LOAD].concat());
        assert_eq!(ran.status, 2);
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}
