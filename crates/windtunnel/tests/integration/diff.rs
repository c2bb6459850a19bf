// SPDX-License-Identifier: GPL-2.0-only
//! Tests `windtunnel diff`. It must find a single different decision, with its time, its CPU and
//! its source line.

use crate::support::{object, root, windtunnel};
use serde_json::Value;

const ODD: &str = "crates/windtunnel/tests/policies/odd.bpf.c";
const INPUTS: [&str; 6] = ["-m", "smp4", "-w", "closed:n=9,compute=2ms,think=1ms", "--for", "60ms"];

fn path(source: &str) -> String {
    object(source).display().to_string()
}

fn diff(a: &str, b: &str, more: &[&str]) -> (i32, Value) {
    let ran = windtunnel(&[&["diff", a, b, "--json"], &INPUTS[..], more].concat());
    assert!(ran.status < 2, "{}", ran.stderr);
    let json = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout));
    (ran.status, json)
}

/// Returns the position of the source line with this comment, for example `odd.bpf.c:27:`.
fn line(comment: &str) -> String {
    let text = std::fs::read_to_string(root().join(ODD)).expect("the source exists");
    let found = text.lines().position(|line| line.contains(&format!("/* {comment} */")));
    format!("odd.bpf.c:{}:", found.expect(comment) + 1)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Time in ns from which on odd.bpf.c makes one decision differently.
const FROM: u64 = 20_000_000;

#[test]
fn the_first_different_decision_is_found_with_time_cpu_and_source_line() {
    let odd = path(ODD);
    for engine in ["jit", "interpreter"] {
        for (kind, words_a, line_a, words_b, line_b) in [
            (
                "1",
                "stays on CPU",
                Some("odd_select_cpu"),
                "moves from CPU",
                Some("another CPU"),
            ),
            (
                "2",
                "slice 3ms",
                Some("as always"),
                "slice 1500us",
                Some("half a slice"),
            ),
            ("3", "slice 3ms", Some("as always"), "at the head", Some("at the head")),
            ("4", "", None, "kicks CPU 1 preempting", Some("a kick")),
        ] {
            // Side A also makes a different decision, but much later. Until then, both sides make
            // the same decisions at the same times.
            let settings = [format!("kind={kind}"), format!("B:from_ns={FROM}")];
            let mut more = vec!["--engine", engine, "--window", "0s", "--set", "A:from_ns=1000000000000"];
            more.extend(settings.iter().flat_map(|setting| ["--set", setting]));
            let (status, found) = diff(&odd, &odd, &more);
            assert_eq!(status, 1);
            let first = &found["first"];
            let [a, b] = ["a", "b"].map(|side| first[side]["decided"].clone());
            let time = first["time_ns"].as_u64().expect("the time is a number");
            assert!((FROM..FROM + 2_000_000).contains(&time), "{kind}: {time}");
            for (decided, words, position) in [(&a, words_a, line_a), (&b, words_b, line_b)] {
                assert!(text(&decided["decision"]).contains(words), "{kind}: {decided}");
                let position = match position {
                    None => continue,
                    Some("odd_select_cpu") => "odd_select_cpu (odd.bpf.c".to_owned(),
                    Some(comment) => line(comment),
                };
                assert!(
                    text(&decided["place"]).contains(&position),
                    "{kind}: {decided} is not at {position}"
                );
            }
            // The two decisions have the same CPU and the same time, because nothing differed
            // before.
            if !a.is_null() {
                assert_eq!((&a["time_ns"], &a["cpu"]), (&b["time_ns"], &b["cpu"]));
                assert_eq!(first["a"]["tasks"], first["b"]["tasks"]);
                assert_eq!(first["a"]["queues"], first["b"]["queues"]);
            }
            assert_eq!(found["lag_ns"], 0);
            assert!(found["same"].as_u64() > Some(50));
        }
    }
}

#[test]
fn only_run_finds_the_effect_of_a_decision_instead_of_the_decision() {
    let odd = path(ODD);
    let set = ["--set", "B:kind=3", "--set", "from_ns=20000000", "--window", "4ms"];
    // Each CPU always has two or three runnable tasks.
    let hogs = [
        "diff",
        &odd,
        &odd,
        "-m",
        "smp4",
        "-w",
        "closed:n=10,compute=50ms",
        "--for",
        "60ms",
        // The two sides execute different numbers of instructions in callbacks. Without this
        // option, these instructions would take time of the slices, so later switches would differ,
        // too.
        "--no-costs",
    ];
    let diff = |more: &[&str]| {
        let ran = windtunnel(&[&hogs[..], &set[..], &["--json"], more].concat());
        (
            ran.status,
            serde_json::from_str::<Value>(&ran.stdout).expect("the text is valid JSON"),
        )
    };
    let (_, all) = diff(&[]);
    let (status, run) = diff(&["--only", "run"]);
    assert_eq!(status, 1);
    // The task that was inserted at the head of the queue runs earlier than in the other run.
    let (insertion, effect) = (all["first"]["time_ns"].as_u64(), run["first"]["time_ns"].as_u64());
    assert!(insertion < effect, "{insertion:?} {effect:?}");
    assert_eq!(all["effect"], run["first"]);
    assert!(
        text(&run["first"]["b"]["came"]["decision"]).contains("at the head"),
        "{run}"
    );
    // The text output contains drawings of both runs.
    let ran = windtunnel(&[&hogs[..], &set[..]].concat());
    for part in [
        "ops.enqueue() in odd_enqueue (odd.bpf.c:",
        "State that both policies saw:",
        "The first effect on where or when tasks run is at",
        "candidates: closed:",
        "one column = ",
    ] {
        assert!(ran.stdout.contains(part), "no '{part}' in\n{}", ran.stdout);
    }
    assert!(
        ran.stdout.starts_with("odd and odd kind=3 differ from 2"),
        "{}",
        ran.stdout
    );
}

#[test]
fn runs_with_other_costs_but_equal_decisions_do_not_differ() {
    // Both sides make the same decisions, but side B executes more instructions for them.
    let (odd, fifo) = (path(ODD), path("policies/fifo.bpf.c"));
    let (status, found) = diff(&odd, &odd, &["--set", "B:kind=1", "--set", "B:from_ns=1000000000000"]);
    assert_eq!((status, &found["first"]), (0, &Value::Null));
    assert!(
        found["lag_ns"].as_u64() > Some(0),
        "B's additional instructions take no time: {found}"
    );
    let (status, found) = diff(&fifo, &fifo, &["--no-costs"]);
    assert_eq!((status, found["lag_ns"].as_u64()), (0, Some(0)));
    let ran = windtunnel(&[&["diff", &fifo, &fifo], &INPUTS[..]].concat());
    assert!(
        ran.status == 0 && ran.stdout.contains("make the same decisions"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_fair_class_can_be_compared_with_a_policy() {
    let (status, found) = diff("eevdf", &path("policies/fifo.bpf.c"), &["--window", "0s"]);
    assert_eq!(status, 1);
    assert!(found["first"]["a"]["decided"]["callback"].is_null());
    let ran = windtunnel(&["diff", "eevdf", "eevdf", "--seed", "1", "--seed", "2"]);
    assert_eq!(ran.status, 2, "diff accepts two seeds");
}
