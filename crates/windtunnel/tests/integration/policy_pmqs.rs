// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policies mqs and pmqs.
//!
//! Both have a queue for each CPU, and choose tasks by their goodness. Goodness is a figure of
//! Linux 2.4 that grows with a task's priority and with its counter of remaining ticks (its
//! quantum). When all runnable tasks of a queue have used up their ticks, all counters are
//! recalculated. In mqs, a CPU may take a better task from any other queue. In pmqs, it may do so
//! only within its pool, a group of neighbouring CPUs. A task that has waited for max_wait_ms is
//! overdue and runs next.
//!
//! The tests also check where pmqs places tasks at wake-up and exec, and its two load balancers.
//! LBC evens out all queues. LBP moves tasks between pools if a queue differs from the average by
//! more than a tolerance. A hog is a task that computes without pauses.

use crate::support::policy::*;
use std::collections::BTreeSet;
use workload::{Op, Resource, SchedPolicy};

fn nice(nice: i32) -> SchedPolicy {
    SchedPolicy::Normal { nice }
}

fn near(measured: u64, expected: u64, within: u64) {
    assert!(
        measured.abs_diff(expected) <= within,
        "{measured} is not within {within} of {expected}"
    );
}

/// Adds a task that may run only on one CPU.
fn pinned(tasks: Tasks, comm: &str, cpu: u32, ops: Vec<Op>) -> Tasks {
    tasks.add(comm, ops).with(|task| task.cpus = Some(vec![cpu]))
}

/// Adds `n` hogs, which start on `cpu` a millisecond after the pinned tasks.
fn hogs_on(tasks: Tasks, n: u32, cpu: u32) -> Tasks {
    (0..n).fold(tasks, |tasks, i| {
        tasks.add(&format!("hog{i}"), hog()).with(|task| {
            task.start_cpu = Some(cpu);
            task.start_ns = MS;
        })
    })
}

/// Adds a pinned hog of nice 19 on each CPU. No CPU idles, and any other task is preferred to the
/// hogs.
fn low_hogs(cpus: u32) -> Tasks {
    (0..cpus).fold(Tasks::default(), |tasks, cpu| {
        pinned(tasks, "low", cpu, hog()).with(|task| task.policy = nice(19))
    })
}

fn cpus_after(ran: &Observed, comm: &str, from: u64) -> BTreeSet<u32> {
    let stints = ran.stints();
    let matching = stints.iter().filter(|s| s.comm.starts_with(comm) && s.from >= from);
    matching.map(|stint| stint.cpu).collect()
}

#[test]
fn each_queue_is_scheduled_as_by_dss() {
    for policy in ["mqs", "pmqs"] {
        let tasks = Tasks::default()
            .add("sleeper", vec![run(MS), sleep(3000 * MS), run(500 * MS)])
            .add("a", hog())
            .add("b", hog())
            .with(|task| task.policy = nice(19));
        let ran = Run::new(policy).tasks(tasks).for_ms(3500);
        near(ran.cpu_ns_between("a", 0, 3000 * MS), 3000 * MS * 6 / 7, 120 * MS);
        // A recalculation also gives ticks to sleeping tasks. When this task wakes up, it has 11
        // ticks.
        let after = ran
            .stints()
            .into_iter()
            .find(|s| s.comm == "sleeper" && s.from > 2000 * MS);
        let after = after.expect("the sleeper runs after its sleep");
        near(after.from, 3001 * MS, MS);
        assert!(after.to - after.from >= 104 * MS, "{after:?}");
    }
}

#[test]
fn better_tasks_of_other_queues_are_taken() {
    let tasks = || hogs_on(low_hogs(2), 4, 0);
    let ran = Run::new("mqs").machine(free(2)).tasks(tasks()).for_ms(3000);
    assert!(ran.counter("nr_remote") > 0);
    // The decisions are almost the same as those of dss.
    let dss = Run::new("dss").machine(free(2)).tasks(tasks()).for_ms(3000);
    near(ran.cpu_ns("low"), dss.cpu_ns("low"), 100 * MS);
    near(ran.cpu_ns("hog0"), dss.cpu_ns("hog0"), 150 * MS);
    let alone = Run::new("pmqs").set("poolsize", 1).machine(free(2));
    let ran = alone.tasks(tasks()).for_ms(3000);
    assert_eq!(ran.counter("nr_remote"), 0);
}

#[test]
fn a_queue_whose_best_task_cannot_move_is_skipped_for_the_next_best() {
    // The best task waits on CPU 1 and may not leave this CPU.
    let tasks = pinned(Tasks::default(), "low", 0, hog()).with(|task| task.policy = nice(19));
    let best = |task: &mut workload::TaskSpec| task.policy = nice(-20);
    let tasks = pinned(tasks, "best", 1, hog()).with(best);
    let tasks = pinned(tasks, "best", 1, hog()).with(best);
    let tasks = hogs_on(pinned(tasks, "first", 2, hog()), 3, 2);
    let ran = Run::new("mqs").machine(free(3)).tasks(tasks).for_ms(1000);
    assert!(ran.counter("nr_changed") > 0 && ran.counter("nr_next_best") > 0);
    assert!(ran.cpus("hog").contains(&0), "{:?}", ran.cpus("hog"));
    assert_eq!(ran.cpus("best"), BTreeSet::from([1]));
}

#[test]
fn a_locked_queue_is_skipped() {
    let busy = |on: Run| {
        let tasks = Tasks::default().add_many(40, "t", &forever(vec![run(150 * US), Op::Yield]));
        let ran = on.tasks(tasks).for_ms(300);
        assert!(ran.counter("nr_remote") > 0);
        ran.counter("nr_busy")
    };
    // If the search of queues takes no time, no CPU finds a queue locked.
    assert_eq!(busy(Run::new("mqs").machine(free(16))), 0);
    assert!(busy(Run::new("mqs").on("numa16")) > 0);
}

#[test]
fn tasks_leave_a_pool_only_for_an_idle_cpu() {
    let run = || Run::new("pmqs").set("poolsize", 2).machine(free(4));
    let ran = run().tasks(hogs_on(low_hogs(4), 6, 0)).for_ms(2000);
    assert_eq!(ran.cpus("hog"), BTreeSet::from([0, 1]));
    assert_eq!(ran.counter("nr_idle_outside"), 0);
    let ran = run().tasks(hogs_on(Tasks::default(), 6, 0)).for_ms(2000);
    assert_eq!(ran.cpus("hog"), BTreeSet::from([0, 1, 2, 3]));
    assert_eq!(ran.counter("nr_idle_outside"), 2);
}

#[test]
fn poolsize_can_change_while_it_runs() {
    let run = Run::new("pmqs").set("poolsize", 2).machine(free(4));
    let run = run.change(1000 * MS, "poolsize", 4).change(3000 * MS, "poolsize", 1);
    let ran = run.tasks(hogs_on(low_hogs(4), 6, 0)).for_ms(4000);
    let before: Vec<Stint> = ran.stints().into_iter().filter(|s| s.from < 1000 * MS).collect();
    assert!(before.iter().all(|s| !s.comm.starts_with("hog") || s.cpu < 2));
    assert_eq!(cpus_after(&ran, "hog", 1000 * MS), BTreeSet::from([0, 1, 2, 3]));
    for i in 0..6 {
        assert_eq!(cpus_after(&ran, &format!("hog{i}"), 3000 * MS).len(), 1);
    }
}

#[test]
fn wake_ups_look_for_idle_cpus_in_their_pool_first() {
    let second_cpu = |policy: &str, poolsize: Option<u32>, extra: Option<u32>| {
        let tasks = Tasks::default()
            .add("woken", vec![run(MS), sleep(20 * MS), run(MS)])
            .with(|task| task.start_cpu = Some(0));
        let tasks = pinned(tasks, "busy", 0, hog()).with(|task| task.start_ns = 2 * MS);
        let tasks = pinned(tasks, "x", 1, vec![run(10 * MS)]);
        let tasks = pinned(tasks, "y", 2, vec![run(7 * MS)]);
        let mut tasks = pinned(tasks, "z", 3, vec![run(3 * MS)]);
        if let Some(cpu) = extra {
            tasks = pinned(tasks, "busy", cpu, hog()).with(|task| task.start_ns = 12 * MS);
        }
        let mut run = Run::new(policy).machine(free(4));
        if let Some(size) = poolsize {
            run = run.set("poolsize", size);
        }
        let ran = run.tasks(tasks).for_ms(30);
        let cpus: Vec<u32> = ran
            .stints()
            .iter()
            .filter(|s| s.comm == "woken")
            .map(|s| s.cpu)
            .collect();
        assert_eq!((cpus.len(), cpus[0]), (2, 0));
        cpus[1]
    };
    // mqs chooses the CPU that has been idle longest. pmqs chooses any idle CPU of the task's pool.
    // If there is none, it chooses any other idle CPU.
    assert_eq!(second_cpu("mqs", None, None), 3);
    assert_eq!(second_cpu("pmqs", Some(4), None), 1);
    assert_eq!(second_cpu("pmqs", Some(2), None), 1);
    assert_eq!(second_cpu("pmqs", Some(2), Some(1)), 2);
}

#[test]
fn a_woken_task_takes_its_last_cpu_if_that_is_idle() {
    for policy in ["mqs", "pmqs"] {
        let tasks = (0..3).fold(Tasks::default(), |tasks, i| {
            tasks.add(&format!("t{i}"), forever(vec![run(MS), sleep((3 + i) * MS)]))
        });
        let ran = Run::new(policy).machine(free(8)).tasks(tasks).for_ms(200);
        assert!((0..3).all(|i| ran.cpus(&format!("t{i}")).len() == 1));
        // The task ran on this CPU because of its placement at wake-up. No CPU took it from another
        // queue.
        assert_eq!(ran.counter("nr_remote"), 0);
    }
}

#[test]
fn without_an_idle_cpu_the_lowest_task_of_the_pool_is_preempted() {
    let second_cpu = |policy: &str, poolsize: Option<u32>| {
        let tasks = Tasks::default()
            .add("woken", vec![run(MS), sleep(500 * MS), run(MS)])
            .with(|task| task.start_cpu = Some(0));
        let hogs = [(0, 0), (1, 15), (2, 0), (3, 19)];
        let tasks = hogs.into_iter().fold(tasks, |tasks, (cpu, value)| {
            pinned(tasks, "busy", cpu, hog()).with(|task| task.policy = nice(value))
        });
        let mut run = Run::new(policy).machine(free(4));
        if let Some(size) = poolsize {
            run = run.set("poolsize", size);
        }
        let ran = run.tasks(tasks).for_ms(600);
        assert!(ran.counter("nr_preempted") > 0);
        let stints = ran.stints();
        let woken = stints.iter().rfind(|s| s.comm == "woken").expect("the task has run");
        near(woken.from, 501 * MS, MS);
        woken.cpu
    };
    assert_eq!(second_cpu("mqs", None), 3);
    assert_eq!(second_cpu("pmqs", Some(2)), 1);
}

#[test]
fn a_dispatch_examines_its_own_queue_and_one_number_of_each_other_queue() {
    let examined = |policy| {
        let tasks = Tasks::default().add_many(80, "t", &forever(vec![run(MS), Op::Yield]));
        let ran = Run::new(policy).machine(free(8)).tasks(tasks).for_ms(300);
        ran.counter("nr_examined") / ran.stints().len() as u64
    };
    let (dss, mqs) = (examined("dss"), examined("mqs"));
    assert!(dss >= 70 && mqs <= 30, "examined tasks: dss {dss}, mqs {mqs}");
}

#[test]
fn exec_moves_a_task_to_the_shortest_queue() {
    let placed = |balancer: u32| {
        let tasks = (0..6).fold(low_hogs(3), |tasks, i| {
            let exec = Op::Exec {
                comm: format!("new{i}"),
            };
            let ops = vec![run(MS), exec, run(5 * MS)];
            tasks.add(&format!("old{i}"), ops).with(|task| task.start_cpu = Some(0))
        });
        let run = Run::new("pmqs").set("poolsize", 1).set("balancer", balancer);
        let ran = run.machine(free(3)).tasks(tasks).for_ms(100);
        let stints = ran.stints();
        let last = (0..6).map(|i| {
            let comm = format!("old{i}");
            stints.iter().rfind(|s| s.comm == comm).map(|s| s.cpu)
        });
        let mut on = [0; 3];
        last.for_each(|cpu| on[cpu.expect("the task has run") as usize] += 1);
        (ran.counter("nr_placed"), on)
    };
    assert_eq!(placed(0), (0, [6, 0, 0]));
    assert_eq!(placed(1), (4, [2, 2, 2]));
}

/// Runs a balancer at 20 ms and 40 ms, before any quantum ends. `free_tasks` and `fixed` contain
/// the number of unpinned and pinned tasks on each CPU. Returns the number of moved tasks, and how
/// many of these moved to another pool.
fn balanced(settings: &[(&str, u32)], free_tasks: &[u32], fixed: &[u32]) -> (u64, u64) {
    let mut tasks = Tasks::default();
    for (cpu, &n) in fixed.iter().enumerate() {
        tasks = (0..n).fold(tasks, |tasks, _| pinned(tasks, "fixed", cpu as u32, hog()));
    }
    for (cpu, &n) in free_tasks.iter().enumerate() {
        tasks = hogs_on(tasks, n, cpu as u32);
    }
    let mut run = Run::new("pmqs")
        .set("interval_ms", 20)
        .machine(free(fixed.len() as u32));
    for (name, value) in settings {
        run = run.set(name, value);
    }
    let ran = run.tasks(tasks).for_ms(50);
    assert_eq!(ran.counter("nr_balancings"), 2);
    // The trace and the balancer's own counters must have the same number of moved tasks.
    let moved_in_trace = ran.records.iter().map(|record| match record.event {
        trace::Event::Balance { moved } => u64::from(moved),
        _ => 0,
    });
    assert_eq!(moved_in_trace.sum::<u64>(), ran.counter("nr_balanced"));
    (ran.counter("nr_balanced"), ran.counter("nr_balanced_pools"))
}

#[test]
fn lbc_balances_all_queues_inside_pools_first() {
    let lbc = ("balancer", 2);
    // Queues with 7 and 1 tasks become queues with 4 and 4 tasks, whether the two CPUs are in
    // different pools or in the same pool.
    assert_eq!(balanced(&[lbc, ("poolsize", 1)], &[6, 0], &[1, 1]), (3, 3));
    assert_eq!(balanced(&[lbc, ("poolsize", 2)], &[6, 0], &[1, 1]), (3, 0));
    // The queue lengths 6 2 | 6 2 (pools separated by `|`) are balanced without moves between
    // pools. The lengths 8 3 | 2 3 need one move inside a pool and three moves between pools.
    assert_eq!(balanced(&[lbc, ("poolsize", 2)], &[5, 0, 5, 0], &[1, 2, 1, 2]), (4, 0));
    assert_eq!(balanced(&[lbc, ("poolsize", 2)], &[7, 0, 0, 0], &[1, 3, 2, 3]), (4, 3));
    // Lengths that differ by one cannot be balanced better.
    assert_eq!(balanced(&[lbc, ("poolsize", 1)], &[3, 0], &[1, 3]), (0, 0));
}

#[test]
fn queues_of_offline_cpus_are_left_out_and_others_balanced() {
    let ran = |ms| {
        let tasks = [0, 2, 3]
            .into_iter()
            .fold(Tasks::default(), |tasks, cpu| pinned(tasks, "fixed", cpu, hog()));
        let tasks = hogs_on(tasks, 5, 0).with_all(|task| task.start_ns = task.start_ns.max(3 * MS));
        let run = Run::new("pmqs")
            .set("poolsize", 1)
            .set("balancer", 2)
            .set("interval_ms", 20);
        let run = run.machine(free(4)).hotplug(MS, 1, false).tasks(tasks);
        run.for_ms(ms)
    };
    // The queues with 6, 1 and 1 tasks have 4, 2 and 2 tasks afterwards. No further move would make
    // them more equal.
    assert_eq!(ran(50).counter("nr_balanced"), 3);
    assert_eq!(ran(1000).cpus("hog"), BTreeSet::from([0, 2, 3]));
}

#[test]
fn lbp_leaves_differences_within_its_tolerance_and_within_a_pool() {
    let lbp = |x, poolsize| [("balancer", 3), ("tolerance", x), ("poolsize", poolsize)];
    // The lengths 6 and 4 differ from the average by 20 %. LBP moves a task only if the tolerance
    // is less.
    assert_eq!(balanced(&lbp(10, 1), &[5, 0], &[1, 4]), (1, 1));
    assert_eq!(balanced(&lbp(19, 1), &[5, 0], &[1, 4]), (1, 1));
    assert_eq!(balanced(&lbp(20, 1), &[5, 0], &[1, 4]), (0, 0));
    // The lengths 9 and 1 become 7 and 3, which differ from the average by 40 %. This is within the
    // tolerance of 45 %.
    assert_eq!(balanced(&lbp(45, 1), &[8, 0], &[1, 1]), (2, 2));
    // Both CPUs are in one pool. LBP moves no task, but LBC does.
    assert_eq!(balanced(&lbp(10, 2), &[5, 0], &[1, 4]), (0, 0));
    assert_eq!(balanced(&[("balancer", 2), ("poolsize", 2)], &[5, 0], &[1, 4]), (1, 0));
}

#[test]
fn the_load_can_be_goodness_instead_of_length() {
    let moved = |by_goodness: u32| {
        let high = |tasks: Tasks| tasks.with_all(|task| task.policy = nice(-20));
        let mut tasks = high(hogs_on(Tasks::default(), 3, 0));
        for _ in 0..4 {
            tasks = pinned(tasks, "fixed", 1, hog()).with(|task| task.policy = nice(19));
        }
        tasks = pinned(tasks, "fixed", 0, hog()).with(|task| task.policy = nice(-20));
        let run = Run::new("pmqs")
            .set("poolsize", 1)
            .set("balancer", 2)
            .set("interval_ms", 20);
        let run = run.set("use_na_goodness", by_goodness).machine(free(2));
        run.tasks(tasks).for_ms(30).counter("nr_balanced")
    };
    assert_eq!((moved(0), moved(1)), (0, 2));
}

#[test]
fn interval_and_tolerance_can_change_while_it_runs() {
    let mut tasks = Tasks::default();
    for cpu in [0, 1, 1, 1, 1] {
        tasks = pinned(tasks, "fixed", cpu, hog());
    }
    let run = Run::new("pmqs")
        .set("poolsize", 1)
        .set("balancer", 3)
        .set("tolerance", 45);
    let run = run
        .change(1150 * MS, "interval_ms", 100)
        .change(1900 * MS, "tolerance", 10);
    let ran = run.machine(free(2)).tasks(hogs_on(tasks, 5, 0)).for_ms(2450);
    // The balancer runs at 600 ms and 1200 ms, then every 100 ms.
    assert_eq!(ran.counter("nr_balancings"), 14);
    assert_eq!(ran.counter("nr_balanced"), 1);
    assert!(
        ran.stints()
            .iter()
            .all(|s| s.cpu == 0 || !s.comm.starts_with("hog") || s.from > 1900 * MS)
    );
}

#[test]
fn a_recalculation_updates_the_goodness_that_other_cpus_see() {
    let later = |task: &mut workload::TaskSpec| task.start_ns = MS;
    let tasks = pinned(Tasks::default(), "first", 0, vec![run(57 * MS)]).with(|task| task.policy = nice(-20));
    let tasks = tasks.add("spent", hog()).with(|task| task.start_cpu = Some(1));
    let tasks = pinned(tasks, "other", 1, hog()).with(later);
    let tasks = pinned(tasks, "low", 0, hog())
        .with(later)
        .with(|task| task.policy = nice(19));
    let ran = Run::new("mqs").machine(free(2)).tasks(tasks).for_ms(120);
    // When "low" has used up its single tick, the counters are recalculated, also that of "spent",
    // which waits on CPU 1. CPU 0 notices this at once and takes "spent".
    let taken = ran.stints().into_iter().find(|s| s.comm == "spent" && s.cpu == 0);
    assert!(taken.as_ref().is_some_and(|s| s.from < 70 * MS), "{taken:?}");
}

#[test]
fn a_pool_with_few_tasks_does_not_starve_the_others() {
    // The hog of CPU 0 has a high nice value, so its quantum is a single tick. It is alone, so all
    // counters are recalculated after each of its ticks, also those of CPU 1. No task of CPU 1 ever
    // uses up its counter. Without a limit on waits, the task that runs on CPU 1 would therefore
    // never lose the CPU.
    let run = |max_wait_ms: u32| {
        let tasks = pinned(Tasks::default(), "alone", 0, hog()).with(|task| task.policy = nice(19));
        let tasks = (0..4).fold(tasks, |tasks, i| pinned(tasks, &format!("hog{i}"), 1, hog()));
        let run = Run::new("pmqs").set("poolsize", 1).set("max_wait_ms", max_wait_ms);
        run.machine(free(2)).tasks(tasks).for_ms(10_000)
    };
    let least = |ran: &Observed| (0..4).map(|i| ran.cpu_ns(&format!("hog{i}"))).min();
    let starved = run(0);
    assert_eq!((least(&starved), starved.counter("nr_overdue")), (Some(0), 0));
    let ran = run(1000);
    assert!(ran.counter("nr_overdue") > 0);
    let (longest, _) = ran.wakeup_latency("hog");
    assert!(
        longest < 2500 * MS && least(&ran) > Some(500 * MS),
        "{longest} {:?}",
        least(&ran)
    );
    // A task that has the CPU keeps it for the quantum of its nice value, although other tasks are
    // overdue.
    let turns = ran
        .stints()
        .into_iter()
        .filter(|s| s.cpu == 1 && s.from > 2000 * MS && s.to < 10_000 * MS);
    assert!(turns.map(|s| s.to - s.from).min() >= Some(59 * MS));
}

#[test]
fn the_overdue_task_that_waited_longest_runs_first() {
    // Woken tasks enter the queue of CPU 1 at the front, and each task waits for longer than
    // max_wait_ms. Because of the hog of CPU 0, all counters are recalculated at each tick. No task
    // of CPU 1 uses up its counter, so a task there loses the CPU only if another task is overdue.
    // "kthread" represents a kernel thread, which is bound to its CPU.
    let task = |tasks: Tasks, comm: String, ops: Vec<Op>| pinned(tasks, &comm, 1, ops);
    let tasks = pinned(Tasks::default(), "alone", 0, hog()).with(|task| task.policy = nice(19));
    let tasks = (0..3).fold(tasks, |tasks, i| task(tasks, format!("hog{i}"), hog()));
    let busy = forever(vec![run(8 * MS), sleep(MS)]);
    let tasks = (0..6).fold(tasks, |tasks, i| task(tasks, format!("busy{i}"), busy.clone()));
    let tasks = task(tasks, "kthread".into(), forever(vec![run(50 * US), sleep(10 * MS)]));
    let ran = Run::new("pmqs").set("poolsize", 1).set("max_wait_ms", 20);
    let ran = ran.machine(free(2)).tasks(tasks).for_ms(10_000);
    assert!(ran.counter("nr_overdue") > 100);
    // A task is overdue after 20 ms. It then waits at most until each of the nine other tasks has
    // run once: a hog for its quantum of 60 ms, a sleeper for 8 ms. The tick that ends this time
    // may be up to 1 ms late.
    let bound = 20 * MS + 3 * 61 * MS + 6 * 9 * MS;
    for comm in ["hog", "busy", "kthread"] {
        let (longest, _) = ran.wakeup_latency(comm);
        assert!(longest < bound, "{comm} waited {longest} ns");
    }
    let shares = [("hog", 3, 2000 * MS), ("busy", 6, 200 * MS)];
    for (comm, tasks, least) in shares {
        for i in 0..tasks {
            let share = ran.cpu_ns(&format!("{comm}{i}"));
            assert!(share > least, "{comm}{i} ran for {share} ns");
        }
    }
}

#[test]
fn a_moved_task_has_the_affinity_bonus_of_its_new_cpu() {
    // A task has more goodness on the CPU on which it ran last: the affinity bonus. Before any
    // quantum ends, the balancer moves a task to another queue. With the bonus of its new CPU, the
    // task is not worse than the tasks that wait there, so it runs before them.
    let mut tasks = Tasks::default();
    for cpu in [0, 1, 1, 1] {
        tasks = pinned(tasks, "fixed", cpu, hog());
    }
    let lbc = Run::new("pmqs")
        .set("poolsize", 1)
        .set("balancer", 2)
        .set("interval_ms", 20);
    let ran = lbc.machine(free(2)).tasks(hogs_on(tasks, 4, 0)).for_ms(140);
    assert_eq!(ran.counter("nr_balanced"), 1);
    let order: Vec<String> = ran
        .stints()
        .into_iter()
        .filter(|s| s.cpu == 1)
        .map(|s| s.comm)
        .collect();
    assert!(order[1].starts_with("hog"), "{order:?}");
}

#[test]
fn a_cpu_looks_again_at_a_locked_queue_before_it_idles() {
    // CPUs 1 to 7 become idle at the same time. Seven tasks wait on CPU 0. Some CPUs find the queue
    // of CPU 0 locked.
    let tasks = pinned(Tasks::default(), "hog", 0, hog());
    let tasks = (1..8).fold(tasks, |tasks, cpu| pinned(tasks, "short", cpu, vec![run(20 * MS)]));
    let ran = Run::new("mqs")
        .machine(costly(8))
        .tasks(hogs_on(tasks, 7, 0))
        .for_ms(25);
    assert!(ran.counter("nr_busy") > 0);
    assert_eq!(ran.cpus("hog").len(), 8);
}

#[test]
fn a_wake_up_that_finds_the_queue_of_the_lowest_task_locked_preempts_the_next_lowest() {
    let tasks = [(0, 0), (1, 0), (2, 19), (3, 18)]
        .into_iter()
        .fold(Tasks::default(), |tasks, (cpu, value)| {
            pinned(tasks, "hog", cpu, hog()).with(|task| task.policy = nice(value))
        });
    // Two tasks wake up on CPUs 0 and 1 almost at the same time. One of them finds the queue of the
    // lowest task locked.
    let waking_after = |ns: u64| {
        let mut all = Tasks {
            workload: tasks.workload.clone(),
        };
        for (cpu, ns) in [(0, 2 * US), (1, ns)] {
            let woken = vec![run(MS), sleep(500 * MS + ns), run(MS)];
            all = all.add("woken", woken).with(|task| task.start_cpu = Some(cpu));
        }
        Run::new("mqs").machine(costly(4)).tasks(all).for_ms(600)
    };
    let ran = (0..40)
        .map(|i| waking_after(i * 100))
        .find(|ran| ran.counter("nr_busy") > 0);
    let ran = ran.expect("two CPUs examine a queue at the same time in one of the runs");
    let stints = ran.stints().into_iter();
    let woken = stints.filter(|s| s.comm == "woken" && s.from > 400 * MS);
    let woken: BTreeSet<u32> = woken.inspect(|s| near(s.from, 501 * MS, MS)).map(|s| s.cpu).collect();
    assert_eq!(woken, BTreeSet::from([2, 3]));
}

#[test]
fn wake_ups_in_quick_succession_choose_the_same_idle_cpu() {
    // A CPU counts as idle until the first task has arrived there, as in Linux 2.4.
    let semaphore = |name: &str| Resource::Semaphore {
        name: name.into(),
        value: 0,
    };
    for policy in ["dss", "mqs", "pmqs"] {
        let wakes = vec![run(5 * MS), Op::SemPost(0), Op::SemPost(1), run(5 * MS)];
        let tasks = Tasks::default().resources(vec![semaphore("a"), semaphore("b")]);
        let tasks = (0..2).fold(tasks, |tasks, i| {
            tasks
                .add(&format!("woken{i}"), vec![Op::SemWait(i), run(MS)])
                .with(|task| task.start_cpu = Some(0))
        });
        let tasks = pinned(tasks, "waker", 0, wakes).with(|task| task.start_ns = MS);
        let mut machine = free(4);
        machine.costs.ipi_latency.llc = 2_000;
        let ran = Run::new(policy).machine(machine).tasks(tasks).for_ms(20);
        let woken: Vec<Stint> = ran
            .stints()
            .into_iter()
            .filter(|s| s.comm.starts_with("woken") && s.from > 2 * MS)
            .collect();
        assert_eq!(woken.len(), 2, "{policy}");
        assert_eq!(woken[0].cpu, woken[1].cpu, "{policy}: {woken:?}");
    }
}
