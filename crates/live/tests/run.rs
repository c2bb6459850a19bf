// SPDX-License-Identifier: GPL-2.0-only
//! Workloads executed for real on whatever machine runs the tests: what was done is counted exactly, times are only bounded
//! from below, because others may use the machine.

use report::RunResult;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One workload at a time: some have realtime tasks, which leave others nothing.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(args: &[&str]) -> RunResult {
    let _alone = alone();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel-live"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = command
        .arg("run")
        .args(args)
        .args(["--json", "-"])
        .output()
        .expect("windtunnel-live runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    let mut results: Vec<RunResult> = serde_json::from_slice(&output.stdout).expect("the simulator's JSON");
    results.remove(0)
}

#[test]
fn messages_all_arrive_between_threads_and_between_processes() {
    for mode in ["as=thread", "as=process", "via=pipe"] {
        let messages = 10 * 10 * 20;
        let r = run(&[&format!("hackbench:groups=1,fds=10,loops=20,{mode}")]);
        assert_eq!(r.throughput.operations, messages, "{mode}");
        assert!(r.score.is_some_and(|seconds| seconds > 0.0), "{mode}: {:?}", r.score);
        assert!(r.context_switches > 0);
    }
}

#[test]
fn computing_takes_the_time_it_says() {
    // 20 ms of work each round: never faster, and slower if the machine has other things to do.
    let r = run(&["closed:n=1,compute=20ms,rounds=5,duration=30s"]);
    assert!(r.response_ns.p50 > 15_000_000, "{:?}", r.response_ns);
    assert_eq!(r.throughput.operations, 5);
    assert_eq!(r.workload, "closed:n=1,compute=20ms,rounds=5,duration=30s");
}

#[test]
fn processes_are_made_and_waited_for() {
    let r = run(&["lat_proc:n=50"]);
    assert_eq!(r.throughput.operations, 50);
    assert_eq!(r.response_ns.count, 50);
}

#[test]
fn a_workload_without_an_end_is_ended_with_all_its_processes() {
    let r = run(&["mixed.json", "--for", "1500ms"]);
    assert!(r.simulated_ns >= 1_500_000_000);
    assert!(r.throughput.operations > 0);
    assert!(!r.tasks.is_empty());
    let listed = Command::new("ps").args(["-eLo", "comm"]).output().expect("ps");
    let alive = String::from_utf8_lossy(&listed.stdout).into_owned();
    for task in &r.tasks {
        assert!(!alive.lines().any(|comm| comm == task.comm), "{} is alive", task.comm);
    }
}

#[test]
fn a_workload_that_is_none_is_refused_with_a_hint() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel-live"));
    let output = command
        .args(["run", "hackbensh"])
        .output()
        .expect("windtunnel-live runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hackbench"));
}

#[test]
fn simulation_and_machine_are_set_side_by_side() {
    let _alone = alone();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windtunnel-live"));
    let output = command
        .args(["compare", "eevdf", "closed:n=2,compute=5ms,rounds=20,duration=30s"])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    for word in [
        "simulated",
        "live",
        "error",
        "rounds/s",
        "response p99",
        "context switches/s",
    ] {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }
}
