// SPDX-License-Identifier: GPL-2.0-only
//! A program schedules the tasks of a workload in user space.

use super::support::{run, run_bare, run_with, run_workload};

#[test]
fn a_program_schedules_tasks_through_ring_buffers() {
    let outcome = run("run");
    assert_eq!(outcome.failure, None, "{}", outcome.output);
    assert_eq!(outcome.output, "attached\n");
    let [sent, returned, _] = outcome.globals;
    assert!(sent > 100, "the tasks were enqueued {sent} times");
    assert!(sent - returned <= 6, "{sent} pids were sent, {returned} returned");
}

#[test]
fn threads_sleep_in_simulated_time() {
    let outcome = run("run");
    let [_, _, heartbeats] = outcome.globals;
    // A sleep of 10 ms takes a little longer, because the thread must get a CPU.
    assert!((17..=20).contains(&heartbeats), "{heartbeats} heartbeats in 200 ms");
}

#[test]
fn a_run_can_be_repeated() {
    let first = run("run");
    for _ in 0..9 {
        let next = run("run");
        assert_eq!((next.hash, next.globals), (first.hash, first.globals));
    }
    assert_ne!(run_with("run", "sleepers:n=6", 2).hash, 0);
}

#[test]
fn a_program_loads_its_scheduler_again_after_hotplug() {
    let workload = r#"{
        "tasks" : { "a" : { "instance" : 6, "loop" : -1, "run" : 500, "sleep" : 500 } },
        "disturbances" : [ { "at" : 50000, "offline" : 2 }, { "at" : 120000, "online" : 2 } ]
    }"#;
    let workload = workload::rtapp::read(workload, "w.json").expect("the workload is correct");
    let outcome = run_workload("restart", workload, 1);
    assert_eq!(outcome.failure, None, "{}", outcome.output);
    // The program sees the CPUs that are online, and the number of hotplug events.
    let expected = "attached\n7 tasks with this one\n0-1,3\n1\nattached again\n\
                    7 tasks with this one\n0-3\n2\nattached again\n";
    assert_eq!(outcome.output, expected);
    let [sent, returned, _] = outcome.globals;
    assert!(
        sent > 50,
        "after the last restart, the tasks were enqueued {sent} times"
    );
    assert!(sent - returned <= 6, "{sent} pids were sent, {returned} returned");
}

#[test]
fn an_iterator_lists_the_tasks() {
    let outcome = run("iterate");
    assert_eq!(outcome.failure, None, "{}", outcome.output);
    // Six of the workload, and two threads.
    assert_eq!(outcome.output, "attached\n8 tasks with this one\n");
}

#[test]
fn a_program_limits_the_latency_of_idle_states() {
    let outcome = run("latency");
    assert_eq!(outcome.failure, None, "{}", outcome.output);
    let expected = "attached\nlimit 32\n-1: Invalid argument\nlimit 32\nlimit n/a\n";
    assert_eq!(outcome.output, expected);
}

#[test]
fn the_command_line_can_name_the_object() {
    let outcome = run_bare(true);
    assert_eq!(outcome.failure, None, "{}", outcome.output);
    assert_eq!(outcome.hash, run("run").hash);
    let failure = run_bare(false).failure.unwrap_or_default();
    assert!(failure.contains("its command line names none"), "{failure}");
}
