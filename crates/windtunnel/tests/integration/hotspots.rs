// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `run --hotspots`: the costs of a policy by source line, field and lock.

use crate::support::{object, results, root, windtunnel};
use serde_json::Value;
use std::path::{Path, PathBuf};

const HOT: &str = "crates/windtunnel/tests/policies/hot.bpf.c";
const RUN: [&str; 6] = [
    "-m",
    "smp4",
    "-w",
    "closed:n=9,compute=700us,think=300us",
    "--for",
    "100ms",
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a policy and returns its result and its folded stacks.
fn measured(policy: &str, name: &str) -> (Value, String) {
    let folded = file(&format!("hotspots-{name}.folded"));
    let folded_text = folded.to_string_lossy().into_owned();
    let mut results = results(&[&[policy, "--folded", &folded_text], &RUN[..]].concat());
    (
        results.remove(0),
        std::fs::read_to_string(folded).expect("the stacks are written"),
    )
}

fn sum(list: &Value, key: &str) -> u64 {
    let numbers = list.as_array().expect("a list").iter().map(|one| one[key].as_u64());
    numbers.map(|number| number.expect("a number")).sum()
}

#[test]
fn the_parts_of_all_costs_add_up_and_the_run_is_the_same() {
    let path = object(HOT);
    for (policy, name) in [(path.to_str().expect("UTF-8"), "hot"), ("mqs", "mqs"), ("ule", "ule")] {
        let (result, folded) = measured(policy, name);
        let costs = &result["hotspots"];
        let insns = costs["insns"].as_u64().expect("a number");
        assert!(insns > 1000, "{name}: {insns}");
        assert_eq!(insns, sum(&costs["lines"], "insns"), "{name}: lines");
        for callback in result["callbacks"].as_array().expect("a list") {
            let lines = costs["lines"].as_array().expect("a list").iter();
            let own = lines.filter(|line| line["callback"] == callback["callback"]);
            let own: u64 = own.filter_map(|line| line["insns"].as_u64()).sum();
            assert_eq!(callback["insns"], own, "{name}: {}", callback["callback"]);
        }
        let counts = folded.lines().map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        assert_eq!(
            insns,
            counts.map(|count| count.expect("a number")).sum::<u64>(),
            "{name}: stacks"
        );
        let fields = &costs["fields"];
        assert_eq!(
            result["line_transfers"],
            sum(fields, "loads") + sum(fields, "stores"),
            "{name}: transfers"
        );
        assert_eq!(
            result["line_transfer_ns"],
            sum(fields, "ns"),
            "{name}: time of transfers"
        );
        let (pairs, locks) = (&costs["lock_pairs"], &result["locks"]);
        assert_eq!(sum(locks, "waits"), sum(pairs, "waits"), "{name}: waits");
        assert_eq!(sum(locks, "wait_ns"), sum(pairs, "wait_ns"), "{name}: time of waits");
        let plain = results(&[&[policy], &RUN[..]].concat()).remove(0);
        assert_eq!(plain["trace_hash"], result["trace_hash"], "{name}");
        assert_eq!(
            plain["hotspots"],
            Value::Null,
            "{name}: nothing is recorded without the option"
        );
    }
}

#[test]
fn engines_attribute_the_same_costs() {
    let hot = object(HOT);
    for policy in [hot.to_str().expect("UTF-8"), "mqs", "ule", "edf", "nest"] {
        let costs = ["interpreter", "jit"].map(|engine| {
            let args = ["run", policy, "--hotspots", "-", "--engine", engine];
            let ran = windtunnel(&[&args[..], &["-m", "numa16"], &RUN[2..]].concat());
            assert_eq!(ran.status, 0, "{policy}, {engine}: {}", ran.stderr);
            ran.stdout.replace(&format!(" --engine {engine}"), "")
        });
        assert!(costs[0] == costs[1], "{policy}:\n{}\n{}", costs[0], costs[1]);
    }
}

#[test]
fn costs_have_the_names_of_the_source() {
    let path = object(HOT);
    let (result, folded) = measured(path.to_str().expect("UTF-8"), "names");
    let costs = &result["hotspots"];
    let source = std::fs::read_to_string(root().join(HOT)).expect("the source exists");
    let at = source
        .lines()
        .position(|line| line.contains("totals[1].calls++"))
        .expect("the line exists")
        + 1;
    // The function that two callbacks call counts for both.
    for callback in ["enqueue", "dispatch"] {
        let stack = format!("{callback};hot_{callback};work;hot.bpf.c:{at} ");
        assert!(folded.contains(&stack), "no {stack} in:\n{folded}");
    }
    let lines = costs["lines"].as_array().expect("lines");
    let hottest = lines
        .iter()
        .find(|line| line["line"] == at)
        .expect("the line is listed");
    assert_eq!(hottest["text"], "totals[1].calls++;");
    let fields = costs["fields"].as_array().expect("fields");
    let calls = fields.iter().find(|field| field["field"] == "totals[].calls");
    let moved = calls.map(|field| field["loads"].as_u64().unwrap_or(0) + field["stores"].as_u64().unwrap_or(0));
    assert!(moved.is_some_and(|moved| moved > 10), "{fields:?}");
    let pairs = costs["lock_pairs"].as_array().expect("pairs");
    let pair = pairs.iter().find(|pair| pair["lock"] == "dsq 0x7");
    let pair = pair.unwrap_or_else(|| panic!("no wait for the queue in {pairs:?}"));
    for code in [&pair["holder"], &pair["waiter"]] {
        assert!(code == "enqueue" || code == "dispatch", "{pair}");
    }
}

#[test]
fn the_text_and_the_page_show_the_costs() {
    let (text, page) = (file("hotspots.txt"), file("hotspots.html"));
    let (text_name, page_name) = (text.to_string_lossy(), page.to_string_lossy());
    let more = ["--hotspots", &text_name, "--html", &page_name, "--explain", "0"];
    let ran = windtunnel(&[&["run", "vtime", "eevdf"], &RUN[..], &more].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains(&format!("hot spots: {text_name}")),
        "{}",
        ran.stdout
    );
    let text = std::fs::read_to_string(text).expect("the text is written");
    for part in [" instructions\n", "vtime.bpf.c:", "task_struct", "waits for"] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    assert!(text.contains("eevdf: no instructions were counted"), "{text}");
    let page = std::fs::read_to_string(page).expect("the page is written");
    for part in [
        "Hot spots",
        "instructions by callback, function and source line",
        "vtime_enqueue",
    ] {
        assert!(page.contains(part), "no '{part}' on the page");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let ran = windtunnel(&[&["run", "vtime", "--folded", "-", "--sanitize"], &RUN[..]].concat());
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("--sanitize"), "{}", ran.stderr);
}
