// SPDX-License-Identifier: GPL-2.0-only
//! A program schedules the tasks of a workload in user space.

use super::support::{run, run_with};

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
