// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy shared_runq: which tasks are in the list of an LLC, and which CPUs take them
//! from there. A hog is a task that computes without pauses.

use crate::support::policy::*;
use workload::SchedPolicy;

/// Returns a run in which three hogs start on CPU 0. The CPU `idle` becomes idle after 10 ms, and
/// all other CPUs stay busy. CPUs take tasks only from lists.
fn crowd(cpus: u32, per_llc: u32, idle: u32) -> Run {
    let mut tasks = Tasks::default();
    for i in 0..3 {
        tasks = tasks
            .add(&format!("hog{i}"), hog())
            .with(|task| task.start_cpu = Some(0));
    }
    for cpu in 1..cpus {
        let program = if cpu == idle { vec![run(10 * MS)] } else { hog() };
        tasks = tasks.add("blocker", program).with(|task| task.cpus = Some(vec![cpu]));
    }
    Run::new("shared_runq")
        .machine(grouped(cpus, per_llc))
        .tasks(tasks)
        .set("scan", 0)
}

fn first_on(ran: &Observed, cpu: u32) -> Option<(String, u64)> {
    let stints = ran.stints();
    let first = stints.iter().find(|stint| stint.cpu == cpu && stint.comm != "blocker");
    first.map(|stint| (stint.comm.clone(), stint.from))
}

#[test]
fn a_cpu_without_work_takes_the_oldest_task_of_its_llc() {
    let ran = crowd(2, 2, 1).for_ms(50);
    // The ticks are every 4 ms and end the slices of 3 ms. At 10 ms hog2 runs, hog0 has waited
    // since 4 ms, and hog1 since 8 ms.
    let first = first_on(&ran, 1).map(|(hog, at)| (hog, at / MS));
    assert_eq!(first, Some(("hog0".into(), 10)));
    assert_eq!(ran.counter("nr_shared"), 1);
    assert_eq!(ran.counter("nr_pulled"), 0);
}

#[test]
fn without_the_lists_a_task_stays_on_its_cpu() {
    let ran = crowd(2, 2, 1).set("shared", 0).for_ms(50);
    assert_eq!((first_on(&ran, 1), ran.counter("nr_shared")), (None, 0));
    let ran = crowd(2, 2, 1).set("shared", 0).set("scan", 1).for_ms(50);
    assert!(first_on(&ran, 1).is_some() && ran.counter("nr_pulled") > 0);
}

#[test]
fn each_llc_has_a_list_of_its_own() {
    let ran = crowd(4, 2, 2).for_ms(50);
    assert_eq!((first_on(&ran, 2), ran.counter("nr_shared")), (None, 0));
    let ran = crowd(4, 2, 2).set("scan", 3).for_ms(50);
    assert_eq!(ran.counter("nr_shared"), 0);
    assert!(first_on(&ran, 2).is_some() && ran.counter("nr_pulled") > 0);
}

#[test]
fn a_task_that_may_not_run_on_the_cpu_is_passed_over() {
    let tasks = Tasks::default()
        .add("pinned", hog())
        .with(|task| task.cpus = Some(vec![0]))
        .add("narrow", hog())
        .with(|task| task.cpus = Some(vec![0, 2]))
        .add("free", hog())
        .with(|task| task.start_cpu = Some(0))
        .add("blocker", vec![run(10 * MS)])
        .with(|task| task.cpus = Some(vec![1]))
        .add("busy", hog())
        .with(|task| task.cpus = Some(vec![2]))
        .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 1 });
    let ran = Run::new("shared_runq").machine(free(3)).tasks(tasks).for_ms(100);
    assert_eq!(ran.cpus("pinned"), [0].into());
    assert!(!ran.cpus("narrow").contains(&1));
    assert!(ran.cpus("free").contains(&1));
}

#[test]
fn more_waiting_tasks_than_a_list_has_room_for_are_all_run() {
    let tasks = Tasks::default().add_many(1500, "short", &[run(20 * US), sleep(MS), run(20 * US)]);
    let ran = Run::new("shared_runq").machine(free(2)).tasks(tasks).for_ms(200);
    assert_eq!(ran.cpu_ns("short"), 1500 * 40 * US);
}
