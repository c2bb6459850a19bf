// SPDX-License-Identifier: GPL-2.0-only
//! Tests of edf: periodic tasks within their share meet their deadlines, whatever others do.

use crate::support::policy::*;
use workload::SchedPolicy;

/// Four tasks that need 3.5 ms every 20 ms, with a share of 4 ms every 20 ms each.
fn periodic(others: u32) -> Tasks {
    let task = forever(vec![run(3500 * US), sleep(16_500 * US)]);
    Tasks::default()
        .add_many(4, "periodic", &task)
        .add_many(others, "hog", &hog())
}

#[test]
fn tasks_within_their_share_meet_their_deadlines_beside_a_hog() {
    let ran = Run::new("edf").tasks(periodic(1)).for_ms(5000);
    // A deadline is 20 ms after the wake-up, and the work takes 3.5 ms.
    let (longest, _) = ran.wakeup_latency("periodic");
    assert!(longest <= 16_500 * US, "{longest}");
    let used = ran.cpu_ns("periodic");
    assert!(used > 4 * 3400 * MS / 4, "{used}");
    assert!(ran.counter("nr_postponed") > 200 && ran.counter("nr_preempted") > 0);
}

#[test]
fn a_task_that_needs_more_than_its_share_delays_only_itself() {
    // The hog gets what the periodic tasks leave: a share of at least 4 ms every 20 ms.
    let ran = Run::new("edf").tasks(periodic(1)).for_ms(5000);
    assert!(ran.cpu_ns("hog") >= 950 * MS, "{}", ran.cpu_ns("hog"));
    // First come, first served makes periodic tasks late as soon as several hogs compute.
    let longest = |policy: &str| {
        Run::new(policy)
            .tasks(periodic(4))
            .for_ms(3000)
            .wakeup_latency("periodic")
            .0
    };
    assert!(
        longest("edf") < longest("fifo"),
        "{} {}",
        longest("edf"),
        longest("fifo")
    );
}

#[test]
fn hogs_share_the_cpu_by_their_periods() {
    let nice = |nice| move |task: &mut workload::TaskSpec| task.policy = SchedPolicy::Normal { nice };
    let tasks = Tasks::default().add("more", hog()).add("less", hog()).with(nice(3));
    let ran = Run::new("edf").tasks(tasks).for_ms(10_000);
    let percent = ran.cpu_ns("more") * 100 / ran.cpu_ns("less");
    // The weights are 100 and 51.
    assert!((190..=202).contains(&percent), "{percent}");
}

#[test]
fn a_task_that_wakes_up_often_keeps_its_deadline() {
    let often = forever(vec![run(500 * US), sleep(100 * US)]);
    let tasks = Tasks::default().add("often", often).add("hog", hog());
    let ran = Run::new("edf").tasks(tasks).for_ms(5000);
    // Otherwise each wake-up would give the task an earlier deadline than the hog's.
    let (often, hog) = (ran.cpu_ns("often"), ran.cpu_ns("hog"));
    assert!(hog * 100 / often > 80, "{often} {hog}");
}
