// SPDX-License-Identifier: GPL-2.0-only
//! Tests of lottery: shares of the CPU follow the tickets, as far as chance allows.

use crate::support::policy::*;
use workload::SchedPolicy;

fn nice(nice: i32) -> impl Fn(&mut workload::TaskSpec) {
    move |task| task.policy = SchedPolicy::Normal { nice }
}

/// The paper's experiment with the ratio 2 : 1 measures 2.01 : 1. Here, nice 0 has 100 tickets and
/// nice 3 has 51.
#[test]
fn two_tasks_share_the_cpu_by_their_tickets() {
    let tasks = Tasks::default().add("more", hog()).add("less", hog()).with(nice(3));
    let ran = Run::new("lottery").tasks(tasks).for_ms(60_000);
    let (more, less) = (ran.cpu_ns("more"), ran.cpu_ns("less"));
    let percent = more * 100 / less;
    // 6000 lotteries have a standard deviation of 37 wins, which is 2.7 % of the ratio.
    assert!((182..=211).contains(&percent), "{percent}");
    assert!(ran.counter("nr_lotteries") >= 5990, "{}", ran.counter("nr_lotteries"));
}

#[test]
fn a_turn_is_a_slice_and_the_order_is_random() {
    let ran = Run::new("lottery")
        .tasks(Tasks::default().add_many(3, "hog", &hog()))
        .for_ms(3000);
    let stints = ran.stints();
    let whole = &stints[..stints.len() - 1];
    assert!(
        whole
            .iter()
            .all(|stint| (stint.to - stint.from).is_multiple_of(10 * MS))
    );
    // With chance, a task sometimes wins again at once. Round robin never lets it.
    assert!(whole.iter().any(|stint| stint.to - stint.from >= 20 * MS));
    let again = |seed| {
        let run = Run::new("lottery")
            .seed(seed)
            .tasks(Tasks::default().add_many(3, "hog", &hog()));
        run.for_ms(300).stints()
    };
    assert_eq!(again(1), again(1));
    assert_ne!(again(1), again(2));
}

#[test]
fn compensation_tickets_help_tasks_that_use_a_part_of_a_slice() {
    let share = |compensate: u32| {
        let part = forever(vec![run(2 * MS), sleep(US)]);
        let tasks = Tasks::default().add_many(3, "hog", &hog()).add("part", part);
        let ran = Run::new("lottery")
            .set("compensate", compensate)
            .tasks(tasks)
            .for_ms(20_000);
        (ran.cpu_ns("part"), ran.counter("nr_compensated"))
    };
    let ((with, compensated), (without, none)) = (share(1), share(0));
    assert!(
        with > 18 * without / 10 && compensated > 500,
        "{with} {without} {compensated}"
    );
    assert_eq!(none, 0);
}
