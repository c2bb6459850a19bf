// SPDX-License-Identifier: GPL-2.0-only
//! Tests of shinjuku: short requests do not wait behind long ones, and one CPU only dispatches.

use crate::support::policy::*;

/// Short requests beside long ones, on three workers and a dispatcher.
fn requests() -> Tasks {
    let short = forever(vec![run(10 * US), sleep(490 * US)]);
    let long = forever(vec![run(5 * MS), sleep(MS)]);
    Tasks::default()
        .add_many(10, "short", &short)
        .add_many(4, "long", &long)
}

#[test]
fn short_requests_wait_for_some_quanta_instead_of_a_long_request() {
    let run = |policy: &str| Run::new(policy).machine(free(4)).tasks(requests()).for_ms(300);
    let (ours, fifo) = (run("shinjuku"), run("fifo"));
    let (longest, mean) = ours.wakeup_latency("short");
    assert!(longest < 300 * US, "{longest} {mean}");
    // With first come, first served, they wait for whole requests, although there is one CPU more.
    let (longest, _) = fifo.wakeup_latency("short");
    assert!(longest > 1000 * US, "{longest}");
    assert!(ours.counter("nr_preempted") > 1000);
}

#[test]
fn the_dispatcher_runs_no_task_that_may_run_elsewhere() {
    let tasks = requests()
        .add("pinned", forever(vec![run(MS), sleep(MS)]))
        .with(|task| task.cpus = Some(vec![0]));
    let ran = Run::new("shinjuku").machine(free(4)).tasks(tasks).for_ms(200);
    assert!(!ran.cpus("short").contains(&0) && !ran.cpus("long").contains(&0));
    assert_eq!(ran.cpus("pinned"), [0].into());
    assert!(ran.cpu_ns("pinned") > 80 * MS, "{}", ran.cpu_ns("pinned"));
}

#[test]
fn a_long_request_runs_on_if_nothing_waits() {
    let ran = Run::new("shinjuku")
        .machine(free(4))
        .tasks(Tasks::default().add_many(3, "hog", &hog()))
        .for_ms(50);
    assert_eq!((ran.stints().len(), ran.counter("nr_preempted")), (3, 0));
}

#[test]
fn the_next_cpu_dispatches_when_the_dispatcher_goes_offline() {
    let tasks = Tasks::default().add_many(6, "hog", &hog());
    let ran = Run::new("shinjuku")
        .machine(costly(4))
        .tasks(tasks)
        .hotplug(50 * MS, 0, false)
        .hotplug(150 * MS, 0, true)
        .for_ms(300);
    let stints = ran.stints();
    let between = |from: u64, to: u64| {
        let stints = stints
            .iter()
            .filter(|stint| stint.from > from * MS && stint.to < to * MS);
        stints.map(|stint| stint.cpu).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(between(10, 45), [1, 2, 3].into());
    assert_eq!(between(80, 145), [2, 3].into());
    assert_eq!(between(200, 290), [1, 2, 3].into());
}

#[test]
fn a_machine_with_one_cpu_has_no_dispatcher() {
    let ran = Run::new("shinjuku")
        .tasks(Tasks::default().add_many(2, "hog", &hog()))
        .for_ms(50);
    assert!(ran.cpu_ns("hog0") > 20 * MS && ran.cpu_ns("hog1") > 20 * MS);
}
