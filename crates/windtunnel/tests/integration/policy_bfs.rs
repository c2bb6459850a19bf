// SPDX-License-Identifier: GPL-2.0-only
//! Tests of bfs: the order of virtual deadlines, and the preference for tasks of the same CPU.

use crate::support::policy::*;
use workload::SchedPolicy;

fn nice(nice: i32) -> impl Fn(&mut workload::TaskSpec) {
    move |task| task.policy = SchedPolicy::Normal { nice }
}

#[test]
fn equal_tasks_take_turns_of_a_slice() {
    let ran = Run::new("bfs")
        .tasks(Tasks::default().add_many(3, "hog", &hog()))
        .for_ms(302);
    let stints = ran.stints();
    for turn in stints[..stints.len() - 1].windows(4) {
        assert_eq!(turn[0].to - turn[0].from, 6 * MS);
        assert!(turn[0].pid == turn[3].pid && turn[0].pid != turn[1].pid && turn[1].pid != turn[2].pid);
    }
}

#[test]
fn a_task_that_sleeps_much_preempts_a_task_with_a_later_deadline() {
    let nap = forever(vec![run(500 * US), sleep(20 * MS)]);
    let tasks = Tasks::default().add_many(3, "hog", &hog()).add("nap", nap);
    let ran = Run::new("bfs").tasks(tasks).for_ms(2000);
    let (longest, mean) = ran.wakeup_latency_after("nap", 100 * MS);
    assert!(mean < MS && longest < 19 * MS, "{mean} {longest}");
    assert!(ran.counter("nr_preempted") > 50);
}

/// The deadline of nice 10 is 1.1^10 = 2.59 times as far away as that of nice 0. The shares differ by
/// the square of this or more.
#[test]
fn a_nice_value_makes_the_deadline_later() {
    let tasks = Tasks::default().add("better", hog()).add("worse", hog()).with(nice(10));
    let ran = Run::new("bfs").tasks(tasks).for_ms(6000);
    let percent = ran.cpu_ns("better") * 100 / ran.cpu_ns("worse");
    assert!((500..1500).contains(&percent), "{percent}");
}

#[test]
fn a_cpu_prefers_the_tasks_that_it_ran_last() {
    let moves = |distance: u64| {
        let nap = forever(vec![run(3 * MS), sleep(MS)]);
        let ran = Run::new("bfs")
            .machine(free(2))
            .set("distance_ns", distance)
            .tasks(Tasks::default().add_many(6, "nap", &nap))
            .for_ms(1000);
        let stints = ran.stints();
        let mut last = std::collections::BTreeMap::new();
        let changed = stints
            .iter()
            .filter(|stint| last.insert(stint.pid, stint.cpu).is_some_and(|cpu| cpu != stint.cpu));
        (changed.count(), ran.counter("nr_local"))
    };
    let ((near, local), (any, _)) = (moves(40 * MS), moves(0));
    assert!(near < any && local > 10, "{near} {any} {local}");
}

#[test]
fn no_task_is_lost_if_the_first_ones_may_not_run_on_the_cpu() {
    let mut tasks = Tasks::default();
    for _ in 0..12 {
        tasks = tasks.add("pinned", hog()).with(|task| task.cpus = Some(vec![0]));
    }
    tasks = tasks.add("free", forever(vec![run(MS), sleep(MS)]));
    let ran = Run::new("bfs").machine(free(2)).tasks(tasks).for_ms(500);
    let (longest, _) = ran.wakeup_latency("free");
    assert!(longest < MS, "{longest}");
}
