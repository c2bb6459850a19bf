// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy torus. The CPUs form a torus, in which each CPU has neighbours. At periodic
//! checks, a CPU pushes tasks to its neighbours. A new task starts on the CPU of its creator or on
//! one of the neighbours. In the torus of 4 CPUs, CPU 0 has the neighbours 1 and 2. A hog is a task
//! that computes without pauses.

use crate::support::policy::*;
use std::collections::BTreeSet;
use workload::Op;

/// Returns a run with the hogs "x1" and "x2" on CPU 0. `busy` contains the times until which CPUs 1
/// to 3 are kept busy. A time of 0 means always.
fn two_on_one_cpu(busy: [u64; 3]) -> Run {
    let mut tasks = Tasks::default();
    for (cpu, until) in (1..).zip(busy) {
        let program = if until == 0 { hog() } else { vec![run(until)] };
        tasks = tasks.add("blocker", program).with(|task| task.cpus = Some(vec![cpu]));
    }
    for name in ["x1", "x2"] {
        tasks = tasks.add(name, hog()).with(|task| {
            task.start_cpu = Some(0);
            task.start_ns = MS;
        });
    }
    Run::new("torus").machine(free(4)).set("margin", 100).tasks(tasks)
}

#[test]
fn a_task_is_pushed_to_an_idle_neighbour_at_the_next_check() {
    let ran = two_on_one_cpu([10 * MS, 0, 0]).for_ms(50);
    let pushed = ran
        .stints()
        .into_iter()
        .find(|stint| stint.cpu == 1 && stint.comm != "blocker");
    let from = pushed.expect("a hog has run on CPU 1").from;
    assert!((10 * MS..=10_500 * US).contains(&from), "{from}");
    assert_eq!(ran.counter("nr_pushed_idle"), 1);
    assert_eq!(ran.counter("nr_pushed_load"), 0);
}

#[test]
fn the_period_of_checks_can_change() {
    let run = two_on_one_cpu([26 * MS, 0, 0]).change(5 * MS, "check_period_ns", 20 * MS);
    let ran = run.for_ms(90);
    let pushed = ran
        .stints()
        .into_iter()
        .find(|stint| stint.cpu == 1 && stint.comm != "blocker");
    let from = pushed.expect("a hog has run on CPU 1").from;
    assert!((45 * MS..=46 * MS).contains(&from), "{from}");
}

#[test]
fn nothing_is_pushed_beyond_neighbours() {
    let ran = two_on_one_cpu([0, 0, 10 * MS]).for_ms(300);
    assert_eq!(ran.counter("nr_pushed_idle"), 0);
    for name in ["x1", "x2"] {
        assert_eq!(ran.cpus(name), BTreeSet::from([0]));
    }
    // If each CPU has three neighbours, CPU 3 is also a neighbour of CPU 0.
    let ran = two_on_one_cpu([0, 0, 10 * MS]).set("neighbours", 3).for_ms(300);
    assert_eq!(ran.counter("nr_pushed_idle"), 1);
}

#[test]
fn the_torus_is_as_square_as_possible_or_has_the_given_rows() {
    let neighbours = |rows: u32| {
        let mut program = vec![Op::Fork { task: 1, thread: false }; 20];
        program.push(run(500 * MS));
        let tasks = Tasks::default()
            .add("t", program)
            .with(|task| task.start_cpu = Some(0))
            .add("t", hog())
            .with(|task| task.spawn = false);
        let run = Run::new("torus")
            .machine(free(12))
            .set("margin", 100)
            .set("torus_rows", rows);
        run.set("check_period_ns", 1_000_000_000_u64)
            .tasks(tasks)
            .for_ms(500)
            .cpus("t")
    };
    // The torus has 3 rows of 4 CPUs. In its row, CPU 0 has the neighbours 1 and 3. In its column,
    // it has the neighbours 4 and 8.
    assert_eq!(neighbours(0), BTreeSet::from([0, 1, 3, 4, 8]));
    assert_eq!(neighbours(2), BTreeSet::from([0, 1, 5, 6]));
    assert_eq!(neighbours(1), BTreeSet::from([0, 1, 11]));
}

#[test]
fn a_new_process_starts_on_the_least_loaded_of_creator_and_neighbours() {
    let fork = Op::Fork { task: 1, thread: false };
    let tasks = Tasks::default()
        .add("parent", vec![fork.clone(), fork.clone(), fork, run(500 * MS)])
        .with(|task| task.start_cpu = Some(0))
        .add("child", hog())
        .with(|task| task.spawn = false);
    let run = Run::new("torus").machine(free(4)).set("margin", 100);
    let ran = run.set("check_period_ns", 1_000_000_000_u64).tasks(tasks).for_ms(400);
    assert_eq!(ran.counter("nr_forks_moved"), 2);
    assert_eq!(ran.cpus("child"), BTreeSet::from([0, 1, 2]));
}

#[test]
fn a_new_process_does_not_start_on_an_offline_neighbour() {
    // CPU 2 is as busy as the creator's CPU. CPU 1 has no process, but is offline.
    let fork = Op::Fork { task: 2, thread: false };
    let tasks = Tasks::default()
        .add("parent", vec![run(5 * MS), fork, run(500 * MS)])
        .with(|task| task.start_cpu = Some(0))
        .add("busy", hog())
        .with(|task| task.cpus = Some(vec![2]))
        .add("child", hog())
        .with(|task| task.spawn = false);
    let run = Run::new("torus").machine(free(4)).set("margin", 100);
    let run = run.set("check_period_ns", 1_000_000_000_u64).hotplug(MS, 1, false);
    let ran = run.tasks(tasks).for_ms(400);
    assert_eq!(ran.counter("nr_forks_moved"), 0);
    assert_eq!(ran.cpus("child"), BTreeSet::from([0]));
}

#[test]
fn pinned_processes_never_migrate() {
    let tasks = (0..3).fold(Tasks::default(), |tasks, i| {
        let tasks = tasks.add(&format!("wired{i}"), hog());
        tasks.with(|task| task.cpus = Some(vec![0]))
    });
    let ran = Run::new("torus").machine(free(4)).tasks(tasks).for_ms(500);
    assert_eq!(ran.cpus("wired"), BTreeSet::from([0]));
    assert_eq!(ran.counter("nr_pushed_idle") + ran.counter("nr_pushed_load"), 0);
}

/// Returns the CPU times of three hogs that run on two CPUs, and the number of pushes.
fn three_on_two(margin: u32) -> (Vec<u64>, u64) {
    let tasks = Tasks::default().add_many(3, "hog", &hog());
    let run = Run::new("torus").machine(free(2)).set("margin", margin);
    let ran = run.set("load_window_ns", 100 * MS).tasks(tasks).for_ms(3000);
    let mut shares: Vec<u64> = (0..3).map(|i| ran.cpu_ns(&format!("hog{i}"))).collect();
    shares.sort_unstable();
    (shares, ran.counter("nr_pushed_load"))
}

#[test]
fn a_task_is_pushed_to_a_neighbour_with_lower_load() {
    let (even, pushed) = three_on_two(25);
    assert!(pushed > 5, "{pushed}");
    assert!(even[2] - even[0] < 300 * MS, "{even:?}");
    let (uneven, pushed) = three_on_two(100);
    assert_eq!(pushed, 0);
    assert!(uneven[2] > 2900 * MS, "{uneven:?}");
}

#[test]
fn an_idle_cpu_never_takes_tasks_from_others() {
    // Two hogs are on CPU 0. Tasks are pushed only at checks. No check happens during the run, so
    // the other CPUs stay idle.
    let run = two_on_one_cpu([10 * MS, 10 * MS, 10 * MS]).set("check_period_ns", 1_000_000_000_u64);
    let ran = run.for_ms(300);
    assert!(ran.machine.rqs()[1].time.idle_ns > 280 * MS);
}

#[test]
fn a_task_that_uses_little_does_not_wait_for_hogs() {
    let tasks = Tasks::default().add_many(2, "hog", &hog());
    let tasks = tasks.add("nap", forever(vec![run(500 * US), sleep(20 * MS)]));
    let ran = Run::new("torus").set("gain_ns", 1000 * MS).tasks(tasks).for_ms(2000);
    let (_, mean) = ran.wakeup_latency("nap");
    assert!(mean < 4 * MS, "{mean}");
}

#[test]
fn the_end_of_a_quantum_does_not_let_a_lower_level_run() {
    // With gain_ns = 1000 s, CPU use does not change levels.
    let tasks = Tasks::default().add("low", hog()).add("high", hog()).with(|task| {
        task.policy = workload::SchedPolicy::Normal { nice: -10 };
    });
    let run = Run::new("torus").set("gain_ns", 1_000_000_000_000_u64);
    let ran = run.tasks(tasks).for_ms(1000);
    assert!(ran.cpu_ns_between("low", 10 * MS, 1000 * MS) < 100 * US);
}
