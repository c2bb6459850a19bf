// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the workload of each generator ends, performs the expected number of operations, and
//! has a score.

use crate::support::{object, results, windtunnel};
use serde_json::Value;
use std::collections::BTreeMap;
use trace::{Event, Record, TaskState};

/// Runs a workload under eevdf (the kernel's fair class) and under the policy vtime.
fn results_under_two_policies(spec: &str, machine: &str) -> Vec<Value> {
    let vtime = object("policies/vtime.bpf.c").display().to_string();
    let found = results(&["eevdf", &vtime, "--workload", spec, "--machine", machine]);
    assert_eq!(found.len(), 2);
    for result in &found {
        assert!(result["exit"].is_null(), "{spec}: {}", result["exit"]);
    }
    found
}

fn operations(result: &Value) -> u64 {
    result["throughput"]["operations"]
        .as_u64()
        .expect("the value is a number")
}

fn score(result: &Value) -> f64 {
    result["score"].as_f64().unwrap_or_else(|| panic!("no score: {result}"))
}

/// Checks the number of operations, the unit of the score, and whether a higher or lower score is
/// better.
fn check(spec: &str, expected: u64, unit: &str, better: &str) {
    for result in results_under_two_policies(spec, "smp4") {
        let policy = &result["policy"];
        assert_eq!(operations(&result), expected, "{spec} under {policy}");
        assert_eq!(result["score_unit"], unit, "{spec}");
        assert_eq!(result["score_better"], better, "{spec}");
        assert!(score(&result) > 0.0, "{spec} under {policy}");
    }
}

#[test]
fn a_workload_that_was_written_as_an_rtapp_file_behaves_the_same() {
    let folder = tempfile::tempdir().expect("the directory can be created");
    for spec in ["mixed.json", "compat.json"] {
        let written = windtunnel(&["workload", "show", spec, "--rtapp"]);
        assert_eq!(written.status, 0, "{}", written.stderr);
        let path = folder.path().join("written.json");
        std::fs::write(&path, &written.stdout).expect("the file can be written");
        let path = path.display().to_string();
        let hash = |spec: &str| {
            let result = results(&["eevdf", "--workload", spec, "--machine", "smp8", "--for", "50ms"]);
            result[0]["trace_hash"].clone()
        };
        assert_eq!(hash(&path), hash(spec), "{spec}");
    }
    let refused = windtunnel(&["workload", "show", "hackbench", "--rtapp"]);
    assert!(
        refused
            .stderr
            .contains("it is forked, but several tasks have this name"),
        "{}",
        refused.stderr
    );
}

#[test]
fn every_generator_has_an_example_that_runs() {
    for generator in workload::generator::generators() {
        let spec = generator.example();
        for result in results_under_two_policies(&spec, "smp4") {
            assert!(operations(&result) > 0, "{spec}");
            assert!(score(&result) > 0.0, "{spec}");
        }
    }
}

#[test]
fn finite_workloads_do_all_their_operations() {
    for (spec, expected, unit, better) in [
        ("chat:rooms=1,messages=10", 20 * 10 * 19, "messages/s", "higher"),
        // Each buffer has room for one message, so all tasks wait for each other.
        (
            "chat:rooms=2,messages=5,users=4,bytes=1k,buffer=1k",
            2 * 4 * 5 * 3,
            "messages/s",
            "higher",
        ),
        (
            "mkbench:builds=2,jobs=3,files=20,compute=5ms,link=10ms",
            40,
            "s",
            "lower",
        ),
        ("hackbench:groups=1,fds=5,loops=10", 250, "s", "lower"),
        ("lat_proc:operation=fork,n=100", 100, "us/op", "lower"),
        ("lat_proc:operation=exec,n=100", 100, "us/op", "lower"),
        ("lat_proc:operation=shell,n=100", 100, "us/op", "lower"),
        ("lat_ctx:processes=8,size_kb=4,rounds=50", 400, "us/op", "lower"),
        ("boost:resource=none,requests=3", 3, "ms", "lower"),
        ("boost:resource=semaphore,requests=3", 3, "ms", "lower"),
        ("boost:resource=network,requests=3", 3, "ms", "lower"),
        ("open:number=100", 100, "ms", "lower"),
        (
            "sysbench_mutex:threads=3,mutexes=4,locks=70,work=1us",
            210,
            "s",
            "lower",
        ),
    ] {
        check(spec, expected, unit, better);
    }
}

#[test]
fn workloads_with_a_duration_have_a_rate_as_score() {
    for (spec, unit) in [
        ("schbench:message_threads=2,workers=8,duration=200ms", "requests/s"),
        ("loop_yield:n=8,duration=20ms", "switches/s"),
        ("closed:placement=7/0,compute=2ms,duration=100ms", "rounds/s"),
        ("sleepers:n=50,duration=50ms", "rounds/s"),
        ("netperf:pairs=3,duration=20ms", "transactions/s"),
        ("netperf:test=TCP_RR,pairs=3,duration=20ms", "transactions/s"),
        ("taobench:fast=3,slow=3,duration=20ms", "requests/s"),
        ("sysbench_threads:threads=6,locks=2,yields=5,duration=20ms", "events/s"),
    ] {
        for result in results_under_two_policies(spec, "smp4") {
            assert!(operations(&result) > 20, "{spec}");
            assert!(score(&result) > 100.0, "{spec}");
            assert_eq!(result["score_unit"], unit, "{spec}");
        }
    }
}

/// Returns all records of a run under the fair class.
fn records(spec: &str) -> Vec<Record> {
    let name = spec.replace([':', '=', ','], "-") + ".wtt";
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let to = path.display().to_string();
    results(&["eevdf", "--workload", spec, "--machine", "smp4", "--trace", &to]);
    let reader = trace::Reader::new(std::fs::File::open(&path).expect("the trace exists"))
        .expect("the trace has a valid header");
    reader.collect::<Result<_, _>>().expect("no record is damaged")
}

#[test]
fn a_build_runs_at_most_its_number_of_jobs() {
    let (mut alive, mut most, mut full_ns, mut since, mut end) = (0i32, 0, 0, 0, 0);
    for record in records("mkbench:builds=1,jobs=3,files=30,link=0") {
        let change = match record.event {
            Event::TaskNew { .. } => 1,
            Event::TaskExit { .. } => -1,
            _ => continue,
        };
        // The fourth task is the one that represents make.
        if alive == 1 + 3 {
            full_ns += record.time - since;
        }
        alive += change;
        most = most.max(alive);
        (since, end) = (record.time, record.time);
    }
    assert_eq!(most, 1 + 3);
    assert!(full_ns * 10 > end * 7, "{full_ns} of {end} ns");
}

#[test]
fn writers_wait_for_room_in_small_buffers() {
    let waits = |spec: &str| {
        let mut names = BTreeMap::new();
        let mut waits = 0;
        for record in records(spec) {
            match record.event {
                Event::TaskNew { pid, comm, .. } => {
                    names.insert(pid, comm);
                }
                Event::Switch {
                    prev,
                    prev_state: TaskState::Interruptible,
                    ..
                } => {
                    waits += u32::from(names.get(&prev).is_some_and(|name| name == "client-send"));
                }
                _ => {}
            }
        }
        waits
    };
    // Each writer waits once, before the workload starts.
    assert!(waits("chat:rooms=1,messages=20") <= 20);
    assert!(waits("chat:rooms=1,messages=20,bytes=1k,buffer=2k") > 20 + 50);
}

#[test]
fn an_interrupted_workload_has_no_score() {
    let cut = results(&["eevdf", "--workload", "mkbench", "--for", "10ms"]);
    assert!(cut[0]["score"].is_null());
    assert_eq!(cut[0]["score_unit"], "s");
}

#[test]
fn scores_follow_the_machine_and_the_work() {
    let scores = |spec: &str, machine: &str| {
        results_under_two_policies(spec, machine)
            .iter()
            .map(score)
            .collect::<Vec<_>>()
    };
    let pairs = |less: Vec<f64>, more: Vec<f64>, factor: f64| {
        for (less, more) in less.iter().zip(&more) {
            assert!(less * factor < *more, "scores {less} and {more}");
        }
    };
    let build = "mkbench:builds=2,jobs=4,files=40,compute=10ms,link=0,footprint=0";
    pairs(scores(build, "smp4"), scores(build, "up"), 2.5);
    let serial = "mkbench:builds=1,jobs=1,files=40,compute=10ms,link=0,footprint=0";
    let parallel = "mkbench:builds=1,jobs=4,files=40,compute=10ms,link=0,footprint=0";
    pairs(scores(parallel, "smp4"), scores(serial, "smp4"), 2.0);
    let chat = "chat:rooms=1,messages=20";
    // The machine smp4 has four slow CPUs, and the machine up has one fast CPU.
    pairs(scores(chat, "up"), scores(chat, "smp4"), 1.2);
    let proc = |operation| scores(&format!("lat_proc:n=100,operation={operation}"), "smp4");
    pairs(proc("fork"), proc("exec"), 1.0);
    pairs(proc("exec"), proc("shell"), 1.5);
    // Each task computes on 64 KB, which takes 6.5 us at 10 GB/s. If the caches of the CPU do not
    // contain the data, the time to reload them at 0.25 GB/s is added.
    let ring = |size_kb| scores(&format!("lat_ctx:processes=4,rounds=100,size_kb={size_kb}"), "smp4");
    for (empty, full) in ring(0).iter().zip(&ring(64)) {
        assert!(
            (6.0..30.0).contains(&(full - empty)),
            "{empty} us without data, {full} us with data"
        );
    }
}

/// Tests that the arrival rate does not depend on how long a fork takes.
#[test]
fn open_arrivals_keep_their_rate() {
    for result in results_under_two_policies(
        "open:arrival=D,interarrival=1ms,service=D,work=100us,duration=1s",
        "smp4",
    ) {
        let done = operations(&result);
        assert!((998..=1000).contains(&done), "{done}");
    }
}
