// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the mechanisms of o1, the O(1) scheduler of January 2002. Tasks that have used up their
//! timeslice wait in the expired array. When the active array is empty, the arrays swap. The level
//! of a task is its nice value, plus a penalty if the task demanded more than its fair share of the
//! last seconds. A hog is a task that computes without pauses.

use crate::support::policy::*;
use kernel::ext::Callback;
use trace::Event;
use workload::{Op, SchedPolicy, TaskSpec};

fn nice(nice: i32) -> impl Fn(&mut TaskSpec) {
    move |task| task.policy = SchedPolicy::Normal { nice }
}

fn on(cpus: &[u32]) -> impl Fn(&mut TaskSpec) {
    let cpus = cpus.to_vec();
    move |task| task.cpus = Some(cpus.clone())
}

#[test]
fn expired_tasks_wait_for_the_arrays_to_swap() {
    // Timeslices are 10 + 290 * (19 - nice) / 39 ms, rounded up to a tick.
    let tasks = Tasks::default()
        .add("a", hog())
        .with(nice(-5))
        .add("b", hog())
        .add("c", hog())
        .with(nice(10));
    let ran = Run::new("o1").tasks(tasks).for_ms(3000);
    let order: String = ran.stints().iter().map(|stint| stint.comm.clone()).collect();
    assert!(order.starts_with("abcabcabc"), "{order}");
    for (comm, ms) in [("a", 189), ("b", 152), ("c", 77)] {
        let stints = ran.stints();
        // The first stint (time on a CPU without a break) is shorter, because later tasks preempt a
        // new task.
        let stint = stints
            .iter()
            .filter(|stint| stint.comm == comm)
            .nth(1)
            .expect("the task has run twice");
        assert!((stint.to - stint.from).abs_diff(ms * MS) <= 2 * MS, "{stint:?}");
    }
    let (swaps, expired) = (ran.counter("nr_swaps"), ran.counter("nr_expired"));
    assert!(
        swaps.abs_diff(expired / 3) <= 1,
        "{swaps} swaps for {expired} timeslices"
    );
}

/// Returns the mean and the maximum number of instructions of a callback.
fn insns(ran: &Observed, callback: Callback) -> (u64, u64) {
    let called = &ran.machine.ext().called[callback as usize];
    (called.insns / called.count.max(1), called.insns_max)
}

#[test]
fn decisions_do_not_depend_on_the_number_of_tasks() {
    let run = |n: u32| {
        let ops = forever(vec![run(50 * US), sleep(1500 * US)]);
        // Half of the tasks compute, so that queues are long. Their nice values range from -20 to
        // at most 18.
        let mut tasks = Tasks::default();
        for i in 0..n {
            let ops = if i % 2 == 0 { ops.clone() } else { hog() };
            tasks = tasks.add("t", ops).with(nice((i % 39) as i32 - 20));
        }
        let run = Run::new("o1").tasks(tasks).machine(costly(1));
        run.set("slice_max_ns", 10 * MS).set("slice_min_ns", MS).for_ms(300)
    };
    let (few, many) = (run(10), run(1000));
    for callback in [
        Callback::SelectCpu,
        Callback::Enqueue,
        Callback::Dispatch,
        Callback::Tick,
    ] {
        let ((few_mean, few_max), (many_mean, many_max)) = (insns(&few, callback), insns(&many, callback));
        assert!(few.machine.ext().called[callback as usize].count > 20 || callback == Callback::SelectCpu);
        assert!(
            many_mean <= few_mean * 5 / 4 + 20 && many_max <= few_max * 2 + 20,
            "{callback:?}: instructions with few and with many tasks: mean {few_mean}, {many_mean}; maximum {few_max}, {many_max}"
        );
    }
}

/// Returns the maximum wait of a task that runs beside a hog. The task alternates between 1 ms of
/// computing and 20 ms of sleep.
fn wait_beside_hog(set: &[(&str, u64)], waker: i32) -> u64 {
    wait_beside_hogs(1, set, waker)
}

fn wait_beside_hogs(hogs: u32, set: &[(&str, u64)], waker: i32) -> u64 {
    let tasks = Tasks::default()
        .add_many(hogs, "hog", &hog())
        .add(
            "waker",
            vec![sleep(600 * MS)].into_iter().chain(forever_from(1, 20)).collect(),
        )
        .with(nice(waker));
    let mut run = Run::new("o1").tasks(tasks).set("ring_period_ns", 100 * MS);
    for (name, value) in set {
        run = run.set(name, value);
    }
    let ran = run.for_ms(2000);
    assert!(ran.cpu_ns("waker") > 0);
    let stints = ran.stints();
    let woken = ran.records.iter().filter_map(|record| match record.event {
        Event::Wakeup { pid, .. } if pid == hogs + 1 && record.time >= 600 * MS => Some(record.time),
        _ => None,
    });
    let waits = woken.filter_map(|at| {
        let stint = stints.iter().find(|stint| stint.pid == hogs + 1 && stint.to > at)?;
        Some(stint.from.saturating_sub(at))
    });
    waits.max().expect("the task has been woken")
}

/// Returns the operations 1 to 3 of a program, which run and sleep without end. The caller puts
/// operation 0 before them. It is not repeated, so the jump at the end leads to operation 1.
fn forever_from(run_ms: u64, sleep_ms: u64) -> Vec<Op> {
    vec![
        run(run_ms * MS),
        sleep(sleep_ms * MS),
        Op::LoopBack {
            counter: 0,
            times: None,
            target: 1,
        },
    ]
}

#[test]
fn a_hog_is_punished_within_a_limit() {
    // The tasks have equal nice values. Because of the hog's penalty, the other task runs at once
    // when it wakes up. Without the penalty, it waits until the hog's timeslice ends.
    assert!(wait_beside_hog(&[], 0) < MS);
    assert!(wait_beside_hog(&[("max_penalty", 0)], 0) > 50 * MS);
    // The penalty is at most a third of the levels. If the hog's penalty is nine levels, a task of
    // nice 5 preempts the hog, and a task of nice 12 does not.
    assert!(wait_beside_hog(&[], 12) < MS);
    assert!(wait_beside_hog(&[("max_penalty", 9)], 5) < MS);
    assert!(wait_beside_hog(&[("max_penalty", 9)], 12) > 50 * MS);
}

#[test]
fn waiting_counts_as_demand_for_the_cpu() {
    // Each of the nine hogs uses little more than its fair share. However, the time that a hog
    // waits for the CPU counts as demand, too. The hogs therefore have a penalty, and a task of
    // nice 5 preempts them.
    assert!(wait_beside_hogs(9, &[], 5) < MS);
}

#[test]
fn cpu_use_long_ago_is_forgotten() {
    let ran = |sleep_ms| {
        let tasks = Tasks::default().add("t", vec![run(400 * MS), sleep(sleep_ms * MS), run(MS)]);
        let ran = Run::new("o1").tasks(tasks).set("ring_period_ns", 100 * MS).for_ms(3000);
        ran.counter("nr_penalised")
    };
    // The policy remembers a task's CPU use in the last few periods of 100 ms (`ring_period_ns`).
    // After a sleep of 800 ms, it has forgotten all periods in which the task computed. After a
    // sleep of 100 ms, it still remembers them.
    assert!(ran(100) > ran(800), "{} {}", ran(100), ran(800));
}

#[test]
fn batch_tasks_have_the_lowest_level_and_long_turns() {
    let batch = |n| Tasks::default().add_many(n, "batch", &hog()).with_all(nice(19));
    let beside = batch(2).add("waker", forever(vec![run(MS), sleep(7 * MS)]));
    let ran = Run::new("o1").tasks(beside).for_ms(2000);
    assert!(
        ran.wakeup_latency("waker").0 < 10 * US,
        "{:?}",
        ran.wakeup_latency("waker")
    );
    let alone = Run::new("o1").tasks(batch(2)).for_ms(4000).stints();
    assert!(alone[2].to - alone[2].from >= 400 * MS, "{:?}", alone[2]);
    // If a batch task wakes up, it does not preempt another batch task, even if its level is
    // better.
    let ops = forever(vec![run(MS), sleep(7 * MS)]);
    let wakers = batch(1).add("waker", ops).with(nice(18));
    let ran = Run::new("o1").set("batch_nice", 15).tasks(wakers).for_ms(2000);
    assert_eq!(ran.counter("nr_preempted"), 0);
    assert!(ran.wakeup_latency("waker").0 > 100 * MS);
}

#[test]
fn a_child_runs_first_where_its_parent_runs() {
    let run = |child_first: u32| {
        let tasks = Tasks::default()
            .add(
                "parent",
                vec![run(5 * MS), Op::Fork { task: 1, thread: false }, run(5 * MS)],
            )
            .with(|task| task.start_cpu = Some(0))
            .add("child", vec![run(200 * US)])
            .with(|task| task.spawn = false);
        let ran = Run::new("o1")
            .set("child_first", child_first)
            .machine(free(2))
            .tasks(tasks);
        ran.for_ms(30)
    };
    let ran = run(1);
    let stints = ran.stints();
    let shape: Vec<(&str, u32)> = stints
        .iter()
        .map(|stint| (stint.comm.as_str(), stint.cpu))
        .take(2)
        .collect();
    assert_eq!(shape, [("parent", 0), ("child", 0)]);
    assert_eq!((stints[0].to, stints[1].from), (5 * MS, 5 * MS));
    assert_eq!(ran.counter("nr_child_first"), 1);
    // Without this setting, a child is placed like any other woken task: on the idle CPU instead of
    // the parent's.
    assert_eq!(run(0).cpus("child"), [1].into());
}

#[test]
fn real_time_tasks_precede_all_others() {
    for policy in [
        SchedPolicy::Fifo { rt_priority: 5 },
        SchedPolicy::RoundRobin { rt_priority: 5 },
    ] {
        let ops = forever(vec![run(3 * MS), sleep(7 * MS)]);
        let tasks = Tasks::default()
            .add_many(4, "hog", &hog())
            .add_many(2, "rt", &ops)
            .with_all(|task| {
                if task.comm.starts_with("rt") {
                    task.policy = policy;
                }
            });
        let ran = Run::new("o1").machine(free(2)).tasks(tasks).for_ms(500);
        assert!(ran.wakeup_latency("rt").0 < 10 * US);
        assert!(ran.cpu_ns("rt") > 290 * MS);
    }
}

#[test]
fn pinned_tasks_stay_on_their_cpu() {
    let tasks = Tasks::default()
        .add_many(3, "wired", &forever(vec![run(2 * MS), sleep(500 * US)]))
        .with_all(on(&[2]))
        .add_many(5, "free", &forever(vec![run(2 * MS), sleep(MS)]));
    let ran = Run::new("o1").machine(costly(4)).tasks(tasks).for_ms(500);
    assert_eq!(ran.cpus("wired"), [2].into());
    assert_eq!(ran.cpus("free"), [0, 1, 2, 3].into());
}

#[test]
fn idle_cpus_look_for_work_at_each_tick() {
    // When the tasks arrive on CPU 0, CPU 1 idles. Only the timer makes CPU 1 look for tasks.
    let late = |task: &mut TaskSpec| (task.start_cpu, task.start_ns) = (Some(0), 10 * MS + 100 * US);
    let tasks = Tasks::default().add_many(2, "hog", &hog()).with_all(late);
    let run = Run::new("o1").machine(free(2)).set("idle_interval_ns", MS);
    let ran = run.tasks(tasks).for_ms(20);
    assert_eq!(ran.cpu_ns("hog"), 18_900 * US);
}

#[test]
fn only_cpus_that_can_run_a_task_are_woken_to_look_for_work() {
    // CPU 1 runs a task of another class, and CPU 2 is offline. Neither runs a task of o1, but only
    // CPU 3 can take the waiting task.
    let late = |task: &mut TaskSpec| (task.start_cpu, task.start_ns) = (Some(0), 10 * MS + 100 * US);
    let tasks = Tasks::default()
        .add_many(2, "hog", &hog())
        .with_all(late)
        .add("fifo", hog())
        .with(|task| task.cpus = Some(vec![1]))
        .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 1 });
    let run = Run::new("o1").machine(free(4)).set("idle_interval_ns", MS);
    let ran = run.hotplug(5 * MS, 2, false).tasks(tasks).for_ms(20);
    assert_eq!(ran.cpu_ns("hog"), 18_900 * US);
}

#[test]
fn idle_cpus_pull_from_the_longest_queue() {
    let tasks = Tasks::default()
        .add_many(8, "hog", &hog())
        .with_all(|task| task.start_cpu = Some(0));
    let ran = Run::new("o1").machine(costly(4)).tasks(tasks).for_ms(100);
    assert_eq!(ran.counter("nr_idle_pulls"), 3);
    // After a few ticks, all CPUs have tasks.
    assert!(ran.machine.idle_while_waiting_ns() < 3 * 3 * MS);
    // If the last task of a CPU exits, the CPU pulls a task at once. It does not wait for the
    // timer.
    let tasks = Tasks::default()
        .add("short", vec![run(1300 * US)])
        .with(|task| task.start_cpu = Some(1))
        .add_many(2, "hog", &hog())
        .with_all(|task| task.start_cpu = task.start_cpu.or(Some(0)));
    let ran = Run::new("o1")
        .machine(free(2))
        .set("idle_interval_ns", 500 * MS)
        .tasks(tasks);
    let ran = ran.for_ms(20);
    assert_eq!(
        (ran.counter("nr_idle_pulls"), ran.cpu_ns("hog")),
        (1, 20 * MS + 18_700 * US)
    );
}

#[test]
fn busy_cpus_pull_when_a_queue_is_a_quarter_longer() {
    let run = |set: &[(&str, u64)]| {
        let tasks = Tasks::default()
            .add_many(7, "hog", &hog())
            .with_all(|task| task.start_cpu = Some(0))
            .add("other", hog())
            .with(|task| task.start_cpu = Some(1));
        let mut run = Run::new("o1").machine(free(2)).tasks(tasks);
        for (name, value) in set {
            run = run.set(name, value);
        }
        run.for_ms(2000)
    };
    let ran = run(&[]);
    assert_eq!(ran.counter("nr_busy_pulls"), 3);
    // After the first balancing, at 250 ms, each CPU has four tasks. From then on, all shares are
    // equal.
    let share = ran.cpu_ns_between("other", 500 * MS, 2000 * MS);
    assert!(share.abs_diff(375 * MS) < 100 * MS, "{share}");
    let pulled = ran.records.iter().find_map(|record| match record.event {
        Event::Migrate { to: 1, .. } => Some(record.time),
        _ => None,
    });
    assert!(pulled.is_some_and(|at| at >= 250 * MS), "{pulled:?}");
    assert_eq!(run(&[("pull_max", 0)]).counter("nr_busy_pulls"), 0);
    assert_eq!(run(&[("imbalance_pct", 1000)]).counter("nr_busy_pulls"), 0);
    assert_eq!(run(&[("busy_interval_ns", 3000 * MS)]).counter("nr_busy_pulls"), 0);
}

#[test]
fn busy_cpus_do_not_pull_pinned_tasks() {
    let tasks = Tasks::default()
        .add_many(7, "wired", &hog())
        .with_all(on(&[0]))
        .add("other", hog())
        .with(on(&[1]));
    let ran = Run::new("o1").machine(free(2)).tasks(tasks).for_ms(1000);
    assert_eq!(ran.counter("nr_busy_pulls"), 0);
}

#[test]
fn a_waking_task_prefers_its_last_cpu_then_an_idle_one() {
    let sleeper = forever(vec![run(MS), sleep(MS)]);
    let tasks = || {
        Tasks::default()
            .add("sleeper", sleeper.clone())
            .with(|task| task.start_cpu = Some(3))
    };
    let ran = Run::new("o1").machine(free(4)).tasks(tasks()).for_ms(100);
    assert_eq!(ran.cpus("sleeper"), [3].into());
    // Now a pinned hog occupies CPU 3, where the sleeper ran last. The sleeper goes to another CPU
    // instead of waiting for the hog.
    let with_hog = tasks()
        .add("hog", hog())
        .with(on(&[3]))
        .with(|task| task.start_ns = 1500 * US);
    let ran = Run::new("o1").machine(free(4)).tasks(with_hog).for_ms(100);
    assert!(!ran.cpus("sleeper").is_disjoint(&[0, 1, 2].into()));
    assert_eq!(ran.wakeup_latency("sleeper").0, 0);
}

#[test]
fn yielding_scales_with_cpus() {
    let switches = |cpus: u32| {
        let tasks = Tasks::default().add_many(2 * cpus, "y", &forever(vec![run(US), Op::Yield]));
        let ran = Run::new("o1").machine(costly(cpus)).tasks(tasks).for_ms(20);
        let switches = ran.machine.rqs().iter().map(|rq| rq.nr_switches).sum::<u64>();
        assert!(switches > 2000 * u64::from(cpus), "{switches} on {cpus} CPUs");
        switches
    };
    let (two, eight) = (switches(2), switches(8));
    assert!(
        eight.abs_diff(4 * two) < two / 4,
        "{two} switches on two CPUs, {eight} on eight"
    );
}

#[test]
fn chat_is_fastest_as_batch_work() {
    // The result of a single run differs from the mean by up to a tenth.
    let chat_us = |policy: &str, nice: u32| -> u64 {
        let workload = generated(&format!("chat:rooms=10,messages=60,nice={nice}"));
        let time = |seed| {
            Run::new(policy)
                .on("smp8")
                .workload(workload.clone())
                .seed(seed)
                .for_ms(10_000)
                .machine
                .now
                / US
        };
        (1..=4).map(time).sum()
    };
    let (old, new) = (chat_us("dss25", 0), chat_us("o1", 0));
    let (old_batch, new_batch) = (chat_us("dss25", 19), chat_us("o1", 19));
    assert!(new < old, "{new} {old}");
    assert!(2 * old_batch > 3 * new_batch, "{old_batch} {new_batch}");
    assert!(
        old_batch * new > old * new_batch,
        "{old} {new}, {old_batch} {new_batch}"
    );
}

#[test]
fn a_shared_address_space_gives_no_bonus() {
    let stints = |thread: bool| {
        let mut ops: Vec<Op> = (1..7).map(|task| Op::Fork { task, thread }).collect();
        ops.push(Op::WaitChildren);
        let tasks = Tasks::default().add("main", ops);
        let tasks = (0..6).fold(tasks, |tasks, _| {
            let tasks = tasks.add("t", forever(vec![run(3 * MS), sleep(2 * MS)]));
            tasks.with(|task| task.spawn = false)
        });
        Run::new("o1").machine(free(2)).tasks(tasks).for_ms(200).stints()
    };
    assert_eq!(stints(true).len(), stints(false).len());
    assert!(stints(true) == stints(false));
}
