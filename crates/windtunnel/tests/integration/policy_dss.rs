// SPDX-License-Identifier: GPL-2.0-only
//! Tests of dss and dss25, the default schedulers of Linux 2.4 and 2.5.2-pre. Each task has a
//! number of ticks (its quantum). When all runnable tasks have spent their ticks, the quanta are
//! recalculated. The scheduler compares tasks by a figure called goodness. The tests also check on
//! which CPU a woken task is placed. A hog is a task that computes without pauses.

use crate::support::policy::*;
use workload::{Action, Disturbance, Op, SchedPolicy};

fn nice(nice: i32) -> SchedPolicy {
    SchedPolicy::Normal { nice }
}

fn near(measured: u64, expected: u64, within: u64) {
    assert!(
        measured.abs_diff(expected) <= within,
        "{measured} is not within {within} of {expected}"
    );
}

fn length(stint: &Stint) -> u64 {
    stint.to - stint.from
}

#[test]
fn a_quantum_is_six_ticks() {
    for tick in [10, 20] {
        let run = Run::new("dss").set("tick_ns", tick * MS);
        let ran = run.tasks(Tasks::default().add_many(2, "hog", &hog())).for_ms(3000);
        let stints = ran.stints();
        near(length(&stints[0]), 6 * tick * MS, MS);
        // After a recalculation, the hog that ran last continues, so it runs for two quanta. Its
        // goodness is higher than that of the other hog, because it ran last on this CPU and its
        // memory map is in use.
        for stint in &stints[2..stints.len() - 1] {
            near(length(stint), 2 * 6 * tick * MS, 2 * MS);
        }
    }
}

#[test]
fn counters_are_recalculated_when_all_are_spent() {
    for hogs in [1, 2, 5] {
        let tasks = Tasks::default().add_many(hogs, "hog", &hog());
        let ran = Run::new("dss").tasks(tasks).for_ms(6000);
        near(ran.counter("nr_recalculations"), 6000 / (60 * u64::from(hogs)), 1);
    }
}

#[test]
fn a_late_tick_does_not_shorten_other_ticks() {
    // An interrupt delays the timer tick until shortly before the following tick.
    let late = Disturbance {
        at_ns: 59 * MS,
        action: Action::Irq {
            cpu: 0,
            ns: 9900 * US,
            period_ns: MS,
            count: Some(1),
        },
    };
    let mut workload = Tasks::default().add_many(2, "hog", &hog()).workload;
    workload.disturbances = vec![late];
    let mut machine = free(1);
    machine.hz = 100;
    for policy in ["dss", "pls"] {
        let run = Run::new(policy).machine(machine.clone()).workload(workload.clone());
        near(run.for_ms(6000).counter("nr_recalculations"), 6000 / 120, 2);
    }
}

#[test]
fn a_tick_is_charged_to_the_task_that_runs_at_that_moment() {
    // This task computes for 6 ms of every 10 ms, but never at the time of a tick.
    let between = forever(vec![
        Op::Timer {
            timer: 0,
            period: 10 * MS,
            absolute: true,
        },
        run(6 * MS),
    ]);
    let mut machine = free(1);
    machine.hz = 100;
    let tasks = Tasks::default().add("between", between).with(|task| task.start_ns = MS);
    let ran = Run::new("dss")
        .machine(machine)
        .tasks(tasks.add("hog", hog()))
        .for_ms(6000);
    near(ran.cpu_ns("between"), 3600 * MS, 60 * MS);
    // All ticks are charged to the hog, six for each recalculation.
    near(ran.counter("nr_recalculations"), 100, 3);
}

#[test]
fn the_nice_value_determines_the_share_of_ticks() {
    let tasks = Tasks::default()
        .add("a", hog())
        .add("b", hog())
        .with(|task| task.policy = nice(19))
        .add("c", hog())
        .with(|task| task.policy = nice(-20));
    let ran = Run::new("dss").tasks(tasks).for_ms(18_000);
    near(ran.cpu_ns("a"), 6000 * MS, 120 * MS);
    near(ran.cpu_ns("b"), 1000 * MS, 120 * MS);
    near(ran.cpu_ns("c"), 11_000 * MS, 120 * MS);
}

#[test]
fn a_sleeper_gathers_almost_twice_its_ticks() {
    let tasks = Tasks::default()
        .add("sleeper", vec![run(MS), sleep(3000 * MS), run(500 * MS)])
        .add_many(2, "hog", &hog());
    let ran = Run::new("dss").tasks(tasks).for_ms(3500);
    let after = ran
        .stints()
        .into_iter()
        .find(|s| s.comm == "sleeper" && s.from > 2000 * MS);
    let after = after.expect("the sleeper runs after its sleep");
    // The sleeper preempts the hog at once, and has 11 ticks.
    near(after.from, 3001 * MS, MS);
    near(length(&after), 110 * MS, 6 * MS);
}

#[test]
fn with_equal_goodness_the_first_task_in_the_queue_runs() {
    // Woken and new tasks enter the queue at the front. Tasks that have spent their quanta enter it
    // at the back.
    let tasks = Tasks::default().add("a", hog()).add("b", hog()).add("c", hog());
    let ran = Run::new("dss").tasks(tasks).for_ms(1000);
    let order: String = ran.stints().iter().map(|stint| stint.comm.as_str()).collect();
    assert!(order.starts_with("acbacbacb"), "{order}");
}

#[test]
fn a_task_with_the_same_memory_map_is_preferred() {
    let tasks = Tasks::default()
        .add("a", hog())
        .add("b", hog())
        .with(|task| task.process = 0)
        .add("c", hog());
    let ran = Run::new("dss").tasks(tasks).for_ms(1000);
    let order: String = ran.stints().iter().map(|stint| stint.comm.as_str()).collect();
    assert!(order.starts_with("abc"), "{order}");
}

#[test]
fn tasks_stay_where_they_ran_last() {
    let tasks = Tasks::default().add_many(8, "hog", &hog());
    let ran = Run::new("dss").machine(free(2)).tasks(tasks).for_ms(5000);
    let settled: Vec<Stint> = ran.stints().into_iter().filter(|s| s.from > 1000 * MS).collect();
    for pid in 1..=8 {
        let cpus: std::collections::BTreeSet<u32> = settled.iter().filter(|s| s.pid == pid).map(|s| s.cpu).collect();
        assert_eq!(cpus.len(), 1, "task {pid} ran on {cpus:?}");
    }
}

#[test]
fn fork_halves_the_remaining_ticks_and_exit_returns_them() {
    let fork = Op::Fork { task: 0, thread: false };
    let child = |ops| Tasks::default().add("child", ops).with(|task| task.spawn = false);
    let first = |tasks: Tasks, comm: &str| {
        let ran = Run::new("dss").tasks(tasks).for_ms(1000);
        ran.stints()
            .into_iter()
            .find(|s| s.comm == comm && length(s) > 5 * MS)
            .expect("the task has run")
    };
    let parent = first(child(hog()).add("parent", vec![fork.clone(), run(500 * MS)]), "parent");
    near(length(&parent), 30 * MS, 6 * MS);
    let parent_and_child = || child(hog()).add("parent", vec![fork.clone(), run(500 * MS)]);
    // The child is the last to spend its three ticks, so it continues with six new ones.
    near(length(&first(parent_and_child(), "child")), 90 * MS, 6 * MS);
    let waits = vec![fork.clone(), Op::WaitChildren, run(500 * MS)];
    let tasks = child(vec![run(MS)]).add("parent", waits).add("hog", hog());
    // The parent keeps all its six ticks. It is the last to spend them, so it continues with six
    // new ones.
    near(length(&first(tasks, "parent")), 120 * MS, 6 * MS);
}

#[test]
fn a_woken_task_takes_its_last_cpu_if_that_is_idle() {
    let tasks = (0..3).fold(Tasks::default(), |tasks, i| {
        tasks.add(&format!("t{i}"), forever(vec![run(MS), sleep((3 + i) * MS)]))
    });
    let ran = Run::new("dss").machine(free(8)).tasks(tasks).for_ms(200);
    // No other CPU is interrupted because of the wake-up.
    let ipi = |record: &&trace::Record| record.time > 20 * MS && matches!(record.event, trace::Event::Ipi { .. });
    assert_eq!(ran.records.iter().find(ipi), None);
    for task in ["t0", "t1", "t2"] {
        assert_eq!(ran.cpus(task).len(), 1, "{task}");
    }
}

#[test]
fn a_woken_task_takes_the_cpu_idle_longest_if_its_last_cpu_is_busy() {
    let pinned = |tasks: Tasks, comm: &str, cpu, ops| tasks.add(comm, ops).with(|task| task.cpus = Some(vec![cpu]));
    let tasks = Tasks::default()
        .add("woken", vec![run(MS), sleep(20 * MS), run(MS)])
        .with(|task| task.start_cpu = Some(0));
    let tasks = pinned(tasks, "hog", 0, hog()).with(|task| task.start_ns = 2 * MS);
    let tasks = pinned(tasks, "x", 1, vec![run(10 * MS)]);
    let tasks = pinned(tasks, "y", 2, vec![run(3 * MS)]);
    let tasks = pinned(tasks, "z", 3, vec![run(7 * MS)]);
    let ran = Run::new("dss").machine(free(4)).tasks(tasks).for_ms(30);
    let cpus: Vec<u32> = ran
        .stints()
        .iter()
        .filter(|s| s.comm == "woken")
        .map(|s| s.cpu)
        .collect();
    assert_eq!(cpus, [0, 2]);
}

#[test]
fn without_an_idle_cpu_a_woken_task_preempts_the_task_it_exceeds_most() {
    let tasks = Tasks::default()
        .add("woken", vec![run(MS), sleep(500 * MS), run(MS)])
        .with(|task| task.start_cpu = Some(0))
        .add("low", hog())
        .with(|task| (task.policy, task.cpus) = (nice(16), Some(vec![1])))
        .add("lowest", hog())
        .with(|task| (task.policy, task.cpus) = (nice(19), Some(vec![2])))
        .add("normal", hog())
        .with(|task| task.cpus = Some(vec![0]));
    let ran = Run::new("dss").machine(free(3)).tasks(tasks).for_ms(600);
    let stints = ran.stints();
    let woken: Vec<&Stint> = stints.iter().filter(|s| s.comm == "woken").collect();
    assert_eq!(woken[1].cpu, 2);
    near(woken[1].from, 501 * MS, MS);
    assert!(ran.counter("nr_preempted") >= 1);
}

#[test]
fn a_woken_task_does_not_preempt_a_task_of_equal_goodness() {
    let tasks = Tasks::default()
        .add("hog", hog())
        .add("late", hog())
        .with(|task| task.start_ns = 5 * MS);
    let ran = Run::new("dss").tasks(tasks).for_ms(100);
    near(ran.stints()[0].to, 60 * MS, MS);
}

#[test]
fn a_task_that_yields_runs_last() {
    let yields = forever(vec![run(100 * US), Op::Yield]);
    let tasks = Tasks::default().add_many(2, "y", &yields);
    let ran = Run::new("dss").tasks(tasks).for_ms(20);
    let stints = ran.stints();
    near(stints.len() as u64, 200, 4);
    assert!(stints.windows(2).all(|pair| pair[0].pid != pair[1].pid));
    // If there is no other task, a task that yields continues to run.
    let ran = Run::new("dss").tasks(Tasks::default().add("y", yields)).for_ms(20);
    assert_eq!(ran.stints().len(), 1);
}

#[test]
fn a_dispatch_examines_every_task_in_the_queue() {
    let examined = |hogs| {
        let tasks = Tasks::default().add_many(hogs, "hog", &forever(vec![run(MS), Op::Yield]));
        let ran = Run::new("dss").tasks(tasks).for_ms(1000);
        ran.counter("nr_examined") / ran.stints().len() as u64
    };
    let (few, many) = (examined(10), examined(100));
    assert!((9..=10).contains(&few) && (98..=101).contains(&many), "{few} {many}");
}

#[test]
fn a_task_behind_a_real_time_task_moves_to_another_cpu() {
    let tasks = Tasks::default().add("hog", hog()).with(|task| task.start_cpu = Some(0));
    let tasks = tasks.add("rt", vec![run(50 * MS)]).with(|task| {
        task.policy = SchedPolicy::Fifo { rt_priority: 5 };
        (task.cpus, task.start_ns) = (Some(vec![0]), 10 * MS);
    });
    let ran = Run::new("dss").machine(free(2)).tasks(tasks).for_ms(100);
    near(ran.cpu_ns("hog"), 100 * MS, MS);
}

#[test]
fn dss25_a_yield_uses_up_the_ticks() {
    let recalculations = |policy| {
        let tasks = Tasks::default().add_many(3, "y", &forever(vec![run(MS), Op::Yield]));
        Run::new(policy).tasks(tasks).for_ms(1000).counter("nr_recalculations")
    };
    // In dss25, the counters are recalculated when each of the three tasks has yielded, which is
    // after 3 ms. In dss, a yield uses up no ticks. A recalculation follows when all three quanta
    // of 60 ms are used up.
    near(recalculations("dss25"), 333, 3);
    near(recalculations("dss"), 5, 1);
}

#[test]
fn dss25_examining_a_task_reads_two_cache_lines() {
    // The data of 400 tasks do not fit in the L2 cache. The test counts the transferred cache lines
    // and the examined tasks between 1 s and 2 s.
    let lines_percent = |policy| {
        let run = |ms| {
            let run = Run::new(policy).on("smp1");
            let ran = run.tasks(Tasks::default().add_many(400, "hog", &hog())).for_ms(ms);
            (ran.machine.line_transfers().count, ran.counter("nr_examined"))
        };
        let (one_second, two_seconds) = (run(1000), run(2000));
        (two_seconds.0 - one_second.0) * 100 / (two_seconds.1 - one_second.1)
    };
    let (one, two) = (lines_percent("dss"), lines_percent("dss25"));
    assert!(one > 50, "only {one} % of the reads miss the cache");
    near(two, 2 * one, one / 4);
}

#[test]
fn dss25_a_quantum_is_four_ticks() {
    let ran = Run::new("dss25")
        .tasks(Tasks::default().add_many(2, "hog", &hog()))
        .for_ms(1000);
    near(length(&ran.stints()[0]), 40 * MS, MS);
}

#[test]
fn dss25_sleep_outweighs_nice() {
    // The sleeper gets a CPU and begins to sleep only after the hog's first quantum, which is 40 ms
    // long in dss25 and 60 ms in dss. After its sleep, the sleeper preempts the hog at once in
    // dss25. In dss, it waits for another 50 ms.
    let waited = |policy| {
        let tasks = Tasks::default()
            .add("sleeper", vec![sleep(3010 * MS), run(MS)])
            .with(|task| task.policy = nice(15))
            .add("hog", hog());
        let ran = Run::new(policy).tasks(tasks).for_ms(4000);
        let stints = ran.stints();
        let woken = stints
            .iter()
            .rev()
            .find(|stint| stint.comm == "sleeper")
            .expect("the task has run");
        woken.from - 3010 * MS
    };
    near(waited("dss25"), 40 * MS, MS);
    near(waited("dss"), (60 + 50) * MS, MS);
}
