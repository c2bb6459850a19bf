// SPDX-License-Identifier: GPL-2.0-only
//! Tests of ule: interactive threads run before batch threads, and CPUs steal and balance. A hog is
//! a task that computes without pauses.

use crate::support::policy::*;
use workload::Op;

const SECOND: u64 = 1000 * MS;

/// Forty threads that sleep most of the time but together want twice the CPU, beside a hog. This is
/// the experiment of "The Battle of the Schedulers" (2018) with fibo and sysbench on one core.
fn server_beside_a_hog(run: Run) -> Observed {
    let thread = forever(vec![Op::Run(workload::Dist::Fixed(MS)), sleep(20 * MS)]);
    let tasks = Tasks::default().add("fibo", hog()).add_many(40, "sysbench", &thread);
    run.tasks(tasks).for_ms(5000)
}

#[test]
fn batch_threads_starve_beside_interactive_ones() {
    let ule = server_beside_a_hog(Run::new("ule"));
    let fibo = ule.cpu_ns_between("fibo", SECOND, 5 * SECOND);
    assert!(fibo < 40 * MS, "fibo used {fibo} of 4 s");
    // The fair class gives the hog about its share, a 41st.
    let fair = server_beside_a_hog(Run::fair());
    let fibo = fair.cpu_ns_between("fibo", SECOND, 5 * SECOND);
    assert!(fibo > 80 * MS, "fibo used {fibo} of 4 s");
}

#[test]
fn without_interactive_threads_nobody_starves() {
    let ran = server_beside_a_hog(Run::new("ule").set("interact_thresh", 0));
    let fibo = ran.cpu_ns_between("fibo", SECOND, 5 * SECOND);
    assert!(fibo > 40 * MS, "fibo used {fibo} of 4 s");
}

#[test]
fn an_interactive_thread_does_not_wait_for_batch_threads() {
    let nap = forever(vec![run(MS), sleep(20 * MS)]);
    let tasks = Tasks::default().add_many(3, "hog", &hog()).add("nap", nap);
    let ran = Run::new("ule").tasks(tasks).for_ms(3000);
    let (longest, _) = ran.wakeup_latency_after("nap", SECOND);
    assert!(longest < 10 * US, "{longest}");
    // A thread that runs as much as it sleeps is a batch thread, and waits.
    let nap = forever(vec![run(20 * MS), sleep(20 * MS)]);
    let tasks = Tasks::default().add_many(3, "hog", &hog()).add("nap", nap);
    let ran = Run::new("ule").tasks(tasks).for_ms(3000);
    let (longest, _) = ran.wakeup_latency_after("nap", SECOND);
    assert!(longest > 20 * MS, "{longest}");
}

#[test]
fn the_slice_depends_on_the_load() {
    let slice = |hogs: u32| {
        let ran = Run::new("ule")
            .tasks(Tasks::default().add_many(hogs, "hog", &hog()))
            .for_ms(1500);
        let stints = ran.stints();
        let stint = &stints[stints.len() - 2];
        (stint.to - stint.from).div_ceil(MS)
    };
    // 94 ms beside one other thread, 94 / 3 beside three, and 94 / 6 beside many. Slices end at ticks.
    assert_eq!((slice(2), slice(4), slice(9)), (94, 32, 16));
}

#[test]
fn batch_threads_have_equal_shares() {
    let ran = Run::new("ule")
        .tasks(Tasks::default().add_many(4, "hog", &hog()))
        .for_ms(8000);
    for name in ["hog0", "hog1", "hog2", "hog3"] {
        let used = ran.cpu_ns_between(name, 2 * SECOND, 8 * SECOND);
        assert!(used.abs_diff(1500 * MS) < 150 * MS, "{name}: {used}");
    }
}

/// Hogs that start on CPU 0, and may run anywhere after 10 ms.
fn crowd(hogs: u32) -> Tasks {
    let mut program = vec![Op::SetAffinity(Some(vec![0])), run(US), Op::SetAffinity(None)];
    program.extend([run(100 * SECOND)]);
    Tasks::default().add_many(hogs, "hog", &program)
}

#[test]
fn idle_cpus_steal_and_the_timer_moves_one_thread_at_a_time() {
    let ran = Run::new("ule").machine(free(4)).tasks(crowd(16)).for_ms(4000);
    // The three other CPUs steal one thread each, then have work for ever.
    assert!(ran.counter("nr_stolen") >= 3, "{}", ran.counter("nr_stolen"));
    // The timer runs every 0.5 to 1.5 s and uses CPU 0 as the donor once each time.
    let moved = ran.counter("nr_balanced");
    assert!((2..=8).contains(&moved), "{moved}");
    let ran = Run::new("ule")
        .machine(free(4))
        .tasks(crowd(16))
        .set("balance_ns", 10 * MS)
        .for_ms(4000);
    for name in ["hog3", "hog9", "hog15"] {
        let used = ran.cpu_ns_between(name, 2 * SECOND, 4 * SECOND);
        assert!(used.abs_diff(500 * MS) < 150 * MS, "{name}: {used}");
    }
}

#[test]
fn an_idle_cpu_steals_in_its_own_llc_first() {
    let blocker = |tasks: Tasks, cpu: u32, program: Vec<Op>| {
        tasks
            .add("blocker", program)
            .with(move |task| task.cpus = Some(vec![cpu]))
    };
    // CPUs 0 and 1 share an LLC, and so do CPUs 2 and 3. Two hogs wait on CPU 0, more on CPU 2.
    let mut tasks = Tasks::default();
    for _ in 0..2 {
        tasks = tasks.add("near", hog()).with(|task| task.cpus = Some(vec![0, 1]));
    }
    for _ in 0..4 {
        tasks = tasks.add("far", hog()).with(|task| task.cpus = Some(vec![1, 2]));
    }
    tasks = blocker(tasks, 0, hog());
    tasks = blocker(tasks, 1, vec![run(10 * MS)]);
    tasks = blocker(tasks, 3, hog());
    let ran = Run::new("ule")
        .machine(grouped(4, 2))
        .tasks(tasks)
        .set("balance_ns", 100 * SECOND)
        .for_ms(300);
    let stints = ran.stints();
    let first = stints.iter().find(|stint| stint.cpu == 1 && stint.comm != "blocker");
    assert_eq!(first.map(|stint| stint.comm.as_str()), Some("near"));
}
