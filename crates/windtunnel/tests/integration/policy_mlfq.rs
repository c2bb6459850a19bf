// SPDX-License-Identifier: GPL-2.0-only
//! Tests of mlfq: the levels of tasks that compute, sleep and wait. A hog is a task that computes
//! without pauses.

use crate::support::policy::*;
use workload::SchedPolicy;

#[test]
fn quanta_grow_while_a_task_moves_down() {
    let ran = Run::new("mlfq")
        .set("period_ns", 100_000 * MS)
        .tasks(Tasks::default().add_many(2, "hog", &hog()))
        .for_ms(2000);
    let lengths: Vec<u64> = ran.stints().iter().map(|stint| (stint.to - stint.from) / MS).collect();
    // Tasks start at level 29. They move to 19, to 9, and to 0.
    assert_eq!(lengths[..8], [120, 120, 160, 160, 200, 200, 200, 200]);
}

#[test]
fn a_task_that_sleeps_preempts_tasks_that_compute() {
    let nap = forever(vec![run(MS), sleep(20 * MS)]);
    let tasks = Tasks::default().add_many(3, "hog", &hog()).add("nap", nap);
    let ran = Run::new("mlfq").tasks(tasks).for_ms(4000);
    let (longest, mean) = ran.wakeup_latency_after("nap", 2000 * MS);
    assert!(mean < MS && longest < 45 * MS, "{mean} {longest}");
    assert!(ran.counter("nr_slept") > 1 && ran.counter("nr_preempted") > 50);
}

/// Tasks that use little of each quantum keep the CPU busy at high levels.
#[test]
fn a_waiting_task_is_raised_each_period() {
    let nap = forever(vec![run(MS), sleep(20 * MS)]);
    let starved = |period: u64| {
        let tasks = Tasks::default().add("hog", hog()).add_many(30, "nap", &nap);
        let ran = Run::new("mlfq").set("period_ns", period * MS).tasks(tasks).for_ms(4000);
        (
            ran.cpu_ns_between("hog", 1000 * MS, 4000 * MS),
            ran.counter("nr_waited"),
        )
    };
    let (with, raised) = starved(200);
    assert!(with > 40 * MS && raised > 5, "{with} {raised}");
    let (_, raised) = starved(1_000_000);
    assert_eq!(raised, 0);
}

#[test]
fn a_nice_value_moves_a_task_by_three_levels() {
    let nice = |nice| move |task: &mut workload::TaskSpec| task.policy = SchedPolicy::Normal { nice };
    let tasks = Tasks::default().add("low", hog()).with(nice(5)).add("high", hog());
    let ran = Run::new("mlfq")
        .set("period_ns", 100_000 * MS)
        .tasks(tasks)
        .for_ms(2000);
    let order: Vec<String> = ran.stints().into_iter().map(|stint| stint.comm).take(3).collect();
    // `low` arrives first and uses up a quantum. It then runs at level 19 - 15. `high` runs as long as
    // its level is higher: at 29, 19 and 9.
    assert_eq!(order, ["low", "high", "low"]);
    let high = &ran.stints()[1];
    assert_eq!((high.to - high.from) / MS, 120 + 160 + 200);
}
