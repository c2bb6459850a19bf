// SPDX-License-Identifier: GPL-2.0-only
//! steal: the bitmap of overloaded CPUs, whom an idle CPU steals from, and the balancing it stands beside.
mod support;

use std::collections::BTreeSet;
use support::policy::*;
use workload::Policy;

const NEVER: u64 = 10_000_000_000;

/// Hogs called after the CPU they start on, `crowd` of them each; CPU `idle` is busy for 10 ms, then goes idle; the other
/// CPUs stay busy. Nothing balances but stealing.
fn crowd(machine: machine::MachineSpec, crowd: &[(u32, u32)], idle: u32) -> Run {
    let mut tasks = Tasks::default();
    for cpu in 0..machine.topology.nr_cpus() {
        let n = crowd.iter().find(|(on, _)| *on == cpu).map_or(0, |(_, n)| *n);
        for i in 0..n {
            let name = format!("hog{cpu}.{i}");
            tasks = tasks.add(&name, hog()).with(|task| task.start_cpu = Some(cpu));
        }
        if n == 0 {
            let program = if cpu == idle { vec![run(10 * MS)] } else { hog() };
            tasks = tasks.add("blocker", program).with(|task| task.cpus = Some(vec![cpu]));
        }
    }
    let run = Run::new("steal").machine(machine).tasks(tasks);
    run.set("idle_balance", 0).set("balance_ns", NEVER)
}

/// The first hog that ran on a CPU, and when.
fn first_on(ran: &Observed, cpu: u32) -> Option<(String, u64)> {
    let stints = ran.stints();
    let first = stints.iter().find(|stint| stint.cpu == cpu && stint.comm != "blocker");
    first.map(|stint| (stint.comm.clone(), stint.from))
}

#[test]
fn a_cpu_that_goes_idle_steals_what_runs_next() {
    let ran = crowd(free(2), &[(0, 3)], 1).for_ms(50);
    // At 10 ms the third runs, and the first has waited longest.
    assert_eq!(first_on(&ran, 1), Some(("hog0.0".into(), 10 * MS)));
    assert!(ran.counter("nr_stolen") >= 1);
    let ran = crowd(free(2), &[(0, 3)], 1).set("steal", 0).for_ms(50);
    assert_eq!((first_on(&ran, 1), ran.counter("nr_stolen")), (None, 0));
}

#[test]
fn stealing_can_be_switched_on_while_running() {
    let run = crowd(free(2), &[(0, 3)], 1).set("steal", 0);
    let ran = run.change(5 * MS, "steal", 1).for_ms(50);
    assert!(ran.counter("nr_stolen") >= 1);
}

#[test]
fn only_within_the_llc_unless_told_otherwise() {
    let ran = crowd(grouped(4, 2), &[(0, 3)], 2).for_ms(50);
    assert_eq!(ran.counter("nr_stolen"), 0);
    let ran = crowd(grouped(4, 2), &[(0, 3)], 2).set("steal_beyond", 1).for_ms(50);
    assert!(first_on(&ran, 2).is_some());
}

#[test]
fn not_on_machines_with_many_nodes() {
    let run = || crowd(grouped(4, 2), &[(0, 3)], 1);
    assert!(run().for_ms(50).counter("nr_stolen") > 0);
    assert_eq!(run().set("steal_node_limit", 1).for_ms(50).counter("nr_stolen"), 0);
}

#[test]
fn from_the_own_position_on() {
    let ran = crowd(free(4), &[(0, 2), (3, 2)], 1).for_ms(50);
    assert!(first_on(&ran, 1).expect("it stole").0.starts_with("hog3"));
    let ran = crowd(free(4), &[(0, 2), (2, 2)], 3).for_ms(50);
    assert!(first_on(&ran, 3).expect("it stole").0.starts_with("hog0"));
}

#[test]
fn from_siblings_of_the_core_first() {
    let run = crowd(free(4), &[(0, 2), (2, 2)], 3);
    let ran = run.set("core_of[3]", 2).for_ms(50);
    assert!(first_on(&ran, 3).expect("it stole").0.starts_with("hog2"));
}

#[test]
fn what_may_not_run_here_is_left() {
    let tasks = Tasks::default()
        .add_many(3, "hog", &hog())
        .with_all(|task| task.cpus = Some(vec![0]))
        .add("blocker", vec![run(10 * MS)])
        .with(|task| task.cpus = Some(vec![1]));
    let ran = Run::new("steal").machine(free(2)).tasks(tasks).for_ms(100);
    assert_eq!(ran.cpus("hog"), BTreeSet::from([0]));
    assert_eq!(ran.counter("nr_stolen") + ran.counter("nr_pulled"), 0);
}

#[test]
fn the_bitmap_follows_the_overloaded_state() {
    let nap = forever(vec![run(300 * US), sleep(150 * US)]);
    let ran = Run::new("steal")
        .machine(free(4))
        .tasks(Tasks::default().add_many(7, "nap", &nap))
        .for_ns(100 * MS + 37 * US);
    let runnable = |cpu| {
        ran.machine
            .tasks
            .iter()
            .filter(|task| task.on_rq && task.cpu == cpu)
            .count()
    };
    let overloaded = (0..4).filter(|&cpu| runnable(cpu) > 1).count() as u64;
    assert_eq!(ran.counter("nr_set") - ran.counter("nr_cleared"), overloaded);
    assert!(ran.counter("nr_set") > 100);
    assert!(ran.counter("nr_stolen") + ran.counter("nr_pulled") > 20);
}

#[test]
fn idle_balance_pulls_and_comes_before_stealing() {
    let ran = crowd(free(2), &[(0, 3)], 1).set("idle_balance", 2).for_ms(15);
    assert_eq!((ran.counter("nr_pulled"), ran.counter("nr_stolen")), (1, 0));
    assert_eq!(first_on(&ran, 1).expect("one was pulled").1, 10 * MS);
    // Across LLCs, too.
    let ran = crowd(grouped(4, 2), &[(0, 3)], 2).set("idle_balance", 1).for_ms(50);
    assert!(ran.counter("nr_pulled") >= 1);
}

#[test]
fn idle_balance_declines_when_idle_times_are_short() {
    let nap = forever(vec![run(20 * US), sleep(2 * US)]);
    let ran = Run::new("steal")
        .machine(costly(32))
        .tasks(Tasks::default().add_many(32, "nap", &nap))
        .for_ms(20);
    assert!(ran.counter("nr_declined") > 1000, "{}", ran.counter("nr_declined"));
}

#[test]
fn balancing_goes_on_periodically() {
    let tasks = Tasks::default()
        .add_many(4, "hog", &hog())
        .with_all(|task| task.start_cpu = Some(0));
    let ran = Run::new("steal")
        .set("steal", 0)
        .set("idle_balance", 0)
        .machine(free(2))
        .tasks(tasks)
        .for_ms(100);
    assert_eq!(ran.counter("nr_balanced"), 2);
    assert!(first_on(&ran, 1).expect("one was moved").1 <= 16 * MS + US);
}

#[test]
fn a_wake_up_finds_an_idle_cpu_of_the_llc() {
    for bitmap in [0, 1] {
        let tasks = Tasks::default()
            .add("hog", hog())
            .with(|task| task.start_cpu = Some(0))
            .add("nap", forever(vec![run(MS), sleep(MS)]))
            .with(|task| task.start_cpu = Some(0));
        let run = Run::new("steal")
            .set("idle_cores", bitmap)
            .machine(free(4))
            .tasks(tasks);
        let ran = run
            .set("steal", 0)
            .set("idle_balance", 0)
            .set("balance_ns", NEVER)
            .for_ms(100);
        assert!(ran.wakeup_latency_after("nap", 20 * MS).0 < 10 * US);
    }
}

#[test]
fn shares_follow_weights() {
    let tasks = Tasks::default()
        .add("heavy", hog())
        .add("light", hog())
        .with(|task| task.policy = Policy::Normal { nice: 5 });
    let ran = Run::new("steal").tasks(tasks).for_ms(2000);
    let permille = ran.cpu_ns("light") / (2 * MS);
    // Weights 1024 and 335.
    assert!(permille.abs_diff(247) < 20, "{permille}");
}

#[test]
fn a_woken_task_preempts_with_a_lead_above_the_granularity() {
    let tasks = || {
        let tasks = Tasks::default().add("hog", hog());
        tasks.add("nap", forever(vec![run(100 * US), sleep(30 * MS + 300 * US)]))
    };
    let latency = |granularity| {
        let run = Run::new("steal")
            .set("slice_ns", 20 * MS)
            .set("wakeup_granularity_ns", granularity);
        run.tasks(tasks()).for_ms(1000).wakeup_latency_after("nap", 100 * MS).1
    };
    assert!(latency(15 * MS) < 10 * US);
    assert!(latency(30 * MS) > MS);
}
