// SPDX-License-Identifier: GPL-2.0-only
//! Tests of nest: a light load stays on few CPUs, and a heavy one uses them all.

use crate::support::policy::*;

/// Eight tasks that each use a CPU for a sixteenth of the time, on 16 CPUs.
fn light(policy: &str) -> Observed {
    let task = |number: u64| forever(vec![run(500 * US), sleep(7500 * US + number * 130 * US)]);
    let tasks = (0..8).fold(Tasks::default(), |tasks, number| {
        tasks
            .add(&format!("light{number}"), task(number))
            .with(move |task| task.start_ns = number * MS)
    });
    Run::new(policy).machine(free(16)).tasks(tasks).for_ms(1000)
}

/// Returns the number of CPUs that tasks used in the second half of a run.
fn cpus_used(ran: &Observed) -> usize {
    let stints = ran.stints();
    let late = stints.iter().filter(|stint| stint.from > 500 * MS);
    late.map(|stint| stint.cpu)
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

#[test]
fn a_light_load_stays_on_few_cpus() {
    let (nest, fifo) = (light("nest"), light("fifo"));
    assert!(cpus_used(&nest) <= 5, "{}", cpus_used(&nest));
    assert!(cpus_used(&fifo) >= 8, "{}", cpus_used(&fifo));
    assert!(nest.counter("nr_promoted") > 0 && nest.counter("nr_demoted") > 0);
}

#[test]
fn all_cpus_are_used_if_there_is_enough_work() {
    let tasks = Tasks::default().add_many(16, "hog", &hog());
    let ran = Run::new("nest").machine(free(16)).tasks(tasks).for_ms(200);
    for number in 0..16 {
        let used = ran.cpu_ns(&format!("hog{number}"));
        assert!(used > 180 * MS, "hog{number}: {used}");
    }
    assert!(ran.counter("nr_outside") > 5);
}

#[test]
fn a_task_whose_cpu_is_busy_makes_the_nest_grow() {
    // Pairs of tasks that share a CPU at first, because the nest is small.
    let tasks = Tasks::default().add_many(6, "busy", &forever(vec![run(900 * US), sleep(100 * US)]));
    let ran = Run::new("nest").machine(free(16)).tasks(tasks).for_ms(500);
    let (_, mean) = ran.wakeup_latency_after("busy", 250 * MS);
    assert!(mean < 20 * US, "{mean}");
}

#[test]
fn a_cpu_without_work_takes_a_waiting_task() {
    let tasks = (0..3).fold(Tasks::default(), |tasks, _| {
        tasks.add("hog", hog()).with(|task| task.start_cpu = Some(0))
    });
    let ran = Run::new("nest").machine(grouped(4, 2)).tasks(tasks).for_ms(100);
    assert!(ran.cpu_ns("hog") > 280 * MS, "{}", ran.cpu_ns("hog"));
}
