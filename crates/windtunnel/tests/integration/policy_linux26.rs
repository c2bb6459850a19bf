// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy linux26, the scheduler of Linux 2.6.22.
//!
//! A CPU runs the tasks of its active array. A task whose timeslice has ended waits in the expired
//! array. When the active array is empty, the arrays swap.
//!
//! The nice value determines a task's static priority. Sleeping earns credit, which moves the task
//! from five levels worse than that (bonus 0) to five levels better (bonus 10); the counter
//! `last_bonus` is the bonus minus 5. A task with enough credit is interactive: it stays in the
//! active array when its timeslice ends. A single sleep of INTERACTIVE_SLEEP makes a task
//! interactive.
//!
//! The tests also check how tasks are placed and how CPUs balance their load. A hog is a task that
//! computes without pauses.

use crate::support::policy::*;
use kernel::ext::Callback;
use trace::Event;
use workload::{Channel, Op, Resource, SchedPolicy, TaskSpec};

fn nice(nice: i32) -> impl Fn(&mut TaskSpec) {
    move |task| task.policy = SchedPolicy::Normal { nice }
}

fn at(cpu: u32) -> impl Fn(&mut TaskSpec) {
    move |task| task.start_cpu = task.start_cpu.or(Some(cpu))
}

fn on(cpu: u32) -> impl Fn(&mut TaskSpec) {
    move |task| task.cpus = Some(vec![cpu])
}

/// Returns a run in which tasks start without sleep credit. Tasks that compute are therefore
/// treated as hogs from the start.
fn linux26() -> Run {
    Run::new("linux26").set("initial_sleep_ns", 0)
}

fn set(run: Run, settings: &[(&str, u64)]) -> Run {
    settings.iter().fold(run, |run, (name, value)| run.set(name, value))
}

#[test]
fn timeslices_follow_the_static_priority() {
    for (level, ms) in [(-20, 800), (-1, 420), (0, 100), (1, 95), (19, 5)] {
        let tasks = Tasks::default().add_many(2, "hog", &hog()).with_all(nice(level));
        let ran = linux26().tasks(tasks).for_ms(5 * ms);
        let stint = &ran.stints()[1];
        assert!(
            (stint.to - stint.from).abs_diff(ms * MS) <= MS,
            "nice {level}: {stint:?}"
        );
        assert!(ran.counter("nr_swaps") >= 1 && ran.counter("nr_reinserted") == 0);
    }
}

#[test]
fn sleep_credit_jumps_at_about_12_percent_of_sleep() {
    // The task has a CPU of its own.
    let bonus = |percent: u64| {
        let ops = forever(vec![run(20 * MS), sleep(20 * MS * percent / 100)]);
        let settings = [("max_sleep_ns", 100 * MS), ("initial_sleep_ns", 100 * MS)];
        let run = set(Run::new("linux26"), &settings).tasks(Tasks::default().add("task", ops));
        run.for_ms(10_000).counter("last_bonus") as i64
    };
    assert_eq!((bonus(9), bonus(14)), (-5, 5));
}

#[test]
fn waiting_after_a_wake_up_counts_as_sleep() {
    // The task hardly sleeps. After each wake-up, it waits nearly 100 ms, until the hog's timeslice
    // ends. If an interrupt woke the task, each wait earns a level of bonus. If another task woke
    // it, each wait earns 30 % of a level.
    let semaphore = |name: &str| Resource::Semaphore {
        name: name.into(),
        value: 0,
    };
    let bonus = |waits: Vec<Op>| {
        let tasks = Tasks::default()
            .resources(vec![semaphore("request"), semaphore("reply")])
            .add("hog", hog())
            .add("task", forever([vec![run(MS)], waits].concat()))
            .with(nice(1))
            .add(
                "device",
                forever(vec![Op::SemWait(0), sleep(1600 * US), Op::SemPost(1)]),
            )
            .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 50 });
        linux26().tasks(tasks).for_ms(210).counter("last_bonus") as i64
    };
    assert_eq!(bonus(vec![sleep(1600 * US)]), -4);
    assert_eq!(bonus(vec![Op::SemPost(0), Op::SemWait(1)]), -5);
}

#[test]
fn a_child_starts_with_whole_levels_of_its_parents_bonus() {
    // The first task counts as a child of a shell with a bonus of 10 levels, so it starts with 9
    // levels. Its child starts with 8 levels, the child of this child with 7, and so on.
    let bonus = |generations: usize| {
        let mut tasks = Tasks::default();
        for child in 1..generations {
            let fork = Op::Fork {
                task: child as u32,
                thread: false,
            };
            tasks = tasks
                .add("parent", vec![fork, sleep(1000 * MS)])
                .with(|task| task.spawn = child == 1);
        }
        let tasks = tasks
            .add("last", vec![run(US), sleep(US), run(US)])
            .with(|task| task.spawn = generations == 1);
        Run::new("linux26").tasks(tasks).for_ms(10).counter("last_bonus") as i64
    };
    assert_eq!([1, 2, 3].map(bonus), [4, 3, 2]);
}

#[test]
fn full_and_empty_credit_shift_the_priority_by_five_levels() {
    // The hog's priority is five levels below its static priority. A single sleep that is longer
    // than INTERACTIVE_SLEEP earns only as much credit as makes a task interactive. Many short
    // sleeps fill the credit. With full credit, the task preempts the hog at once even at nice 9,
    // but not at nice 10.
    let late = |level: i32| {
        let ops = forever(vec![run(MS), sleep(50 * MS)]);
        let tasks = Tasks::default().add("hog", hog()).add("task", ops).with(nice(level));
        let ran = linux26().set("starvation_ns", 100_000 * MS).tasks(tasks).for_ms(20_000);
        let woken = ran.records.iter().filter_map(|record| match record.event {
            Event::Wakeup { pid: 2, .. } if record.time > 10_000 * MS => Some(record.time),
            _ => None,
        });
        let stints = ran.stints();
        let waits = woken.filter_map(|at| {
            let stint = stints.iter().find(|stint| stint.pid == 2 && stint.to > at)?;
            Some(stint.from.saturating_sub(at))
        });
        waits.max().expect("the task has been woken")
    };
    assert_eq!(late(0), 0);
    assert_eq!(late(9), 0);
    assert!(late(10) > 10 * MS, "{}", late(10));
}

#[test]
fn a_long_sleep_earns_no_more_than_it_takes_to_be_interactive() {
    // The hog is at level 25, and lower levels run first. After the long sleep, the task is at
    // level 24 at nice 8, and at level 25 at nice 9. With full credit, it would be at level 24 at
    // nice 9, too.
    let wait = |level: i32| {
        let tasks = Tasks::default()
            .add("hog", hog())
            .with(|task| task.start_ns = 10 * MS)
            .add("task", vec![run(MS), sleep(2000 * MS), run(MS)])
            .with(nice(level));
        linux26().tasks(tasks).for_ms(3000).wakeup_latency("task").0
    };
    assert_eq!(wait(8), 0);
    assert!(wait(9) > MS, "{}", wait(9));
}

#[test]
fn interactive_tasks_expire_if_an_expired_task_has_a_better_nice_value() {
    // With nice -1, the hog in the expired array has a better static priority than the interactive
    // tasks. With nice 0, it has the same.
    let run = |level: i32| {
        let ops = forever(vec![run(20 * MS), sleep(10 * MS)]);
        let tasks = Tasks::default()
            .add_many(3, "task", &ops)
            .with_all(|task| task.start_ns = 3150 * MS)
            .add_many(2, "hog", &hog())
            .with_all(|task| {
                if task.comm.starts_with("hog") {
                    task.policy = SchedPolicy::Normal { nice: level };
                }
            });
        let run = Run::new("linux26").set("max_sleep_ns", 100 * MS).tasks(tasks);
        run.set("starvation_ns", 100_000 * MS)
            .for_ms(10_000)
            .counter("nr_starving")
    };
    assert!(run(-1) > 0);
    assert_eq!(run(0), 0);
}

#[test]
fn a_synchronous_wake_up_does_not_preempt_the_waker() {
    let channel = Resource::Channel {
        name: "pipe".into(),
        capacity: 1 << 16,
        kind: Channel::Pipe,
    };
    let tasks = Tasks::default()
        .resources(vec![channel])
        // The reader has a better nice value than the writer. An ordinary wake-up of the reader
        // would therefore preempt the writer.
        .add("reader", forever(vec![Op::Recv(0)]))
        .with(nice(-5))
        .add(
            "writer",
            forever(vec![
                Op::Send { channel: 0, bytes: 8 },
                run(100 * US),
                Op::Send { channel: 0, bytes: 8 },
                run(100 * US),
                sleep(MS),
            ]),
        )
        .with_all(at(0))
        .add("hog", hog())
        .with(nice(-20))
        .with(on(1));
    let ran = linux26()
        .machine(free(2))
        .set("fork_balance", 0)
        .tasks(tasks)
        .for_ms(100);
    assert_eq!(ran.counter("nr_preempted"), 0);
    assert!(ran.cpu_ns("writer") > 10 * MS);
}

#[test]
fn interactive_tasks_stay_active_until_the_expired_ones_starve() {
    let run = |settings: &[(&str, u64)]| {
        // The tasks run for 20.5 ms, so they do not go to sleep exactly at a tick. At each tick
        // (every 1 ms), the policy checks whether a timeslice has ended.
        let ops = forever(vec![run(20_500 * US), sleep(10 * MS)]);
        // After 3150 ms, when the three tasks start, the hogs have spent their credit. One hog
        // waits in the expired array.
        let tasks = Tasks::default()
            .add_many(3, "task", &ops)
            .with_all(|task| task.start_ns = 3150 * MS)
            .add_many(2, "hog", &hog());
        let run = Run::new("linux26").set("max_sleep_ns", 100 * MS).tasks(tasks);
        set(run, settings).for_ms(20_000)
    };
    let usual = run(&[]);
    let (reinserted, starving) = (usual.counter("nr_reinserted"), usual.counter("nr_starving"));
    assert!(
        reinserted > 20 && starving > 0,
        "{reinserted} {starving} {}",
        usual.cpu_ns("hog")
    );
    let never = run(&[("starvation_ns", 100_000 * MS)]);
    assert_eq!(never.counter("nr_starving"), 0);
    assert!(never.cpu_ns("task") > usual.cpu_ns("task"));
    let none = run(&[("interactive_delta", 10)]);
    assert_eq!(none.counter("nr_reinserted"), 0);
    assert!(none.cpu_ns("task") < usual.cpu_ns("task"));
}

#[test]
fn seven_tasks_on_one_of_two_cpus_spread_to_four_and_three() {
    let workload = generated("closed:n=7,compute=250ms,start_cpu=0");
    let ran = Run::new("linux26").machine(free(2)).workload(workload).for_ms(60_000);
    let last = ran.stints().into_iter().filter(|stint| stint.from > 50_000 * MS);
    let mut cpus = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for stint in last {
        cpus[stint.cpu as usize].insert(stint.pid);
    }
    let mut loads = cpus.map(|pids| pids.len());
    loads.sort_unstable();
    assert_eq!(loads, [3, 4]);
    // A response needs 250 ms of CPU time: two timeslices of 100 ms and a half one. If L tasks
    // share a CPU, this takes two rounds of L timeslices and 50 ms. This is 650 ms for L = 3, and
    // 850 ms for L = 4. Before the last 50 ms, the task may wait for up to L - 1 more timeslices.
    let responses = ran.responses("closed");
    let late = &responses[responses.len() / 2..];
    let mean = late.iter().sum::<u64>() / late.len() as u64;
    assert!(mean.abs_diff(865 * MS) < 30 * MS, "{mean}");
    let peaks = late.iter().filter(|&&rt| {
        [650, 750, 850, 950, 1050, 1150]
            .iter()
            .any(|&ms| rt.abs_diff(ms * MS) < 30 * MS)
    });
    assert!(peaks.count() * 10 > late.len() * 8);
}

#[test]
fn balancing_intervals_double_while_the_load_is_balanced() {
    let balanced = |settings: &[(&str, u64)]| {
        let tasks = Tasks::default().add_many(2, "hog", &hog());
        set(linux26().machine(free(2)).tasks(tasks), settings)
            .for_ms(10_000)
            .counter("nr_balanced")
    };
    // An interval starts at 1 ms and doubles up to max_interval_ns (4 ms). A busy CPU waits
    // busy_factor (64) times as long: 64 ms, then 128 ms, and from then on 256 ms. With
    // max_interval_ns = 1 ms, all its waits are 64 ms. With busy_factor = 16 as well, all its waits
    // are 16 ms.
    assert!(balanced(&[]).abs_diff(80) <= 6, "{}", balanced(&[]));
    assert!(balanced(&[("max_interval_ns", MS)]).abs_diff(312) <= 10);
    assert!(balanced(&[("max_interval_ns", MS), ("busy_factor", 16)]).abs_diff(1250) <= 40);
}

/// Runs the given numbers of hogs on two CPUs for two seconds. Returns how many tasks the balancing
/// between the two busy CPUs pulled.
fn busy_pulls(first: u32, second: u32, settings: &[(&str, u64)]) -> u64 {
    let tasks = Tasks::default()
        .add_many(first, "hog", &hog())
        .with_all(at(0))
        .add_many(second, "hog", &hog())
        .with_all(at(1));
    let run = linux26().machine(free(2)).tasks(tasks).set("fork_balance", 0);
    set(run, settings).for_ms(2000).counter("nr_busy_pulls")
}

#[test]
fn a_difference_below_a_quarter_is_not_balanced() {
    assert_eq!(busy_pulls(11, 9, &[]), 0);
    assert_eq!(busy_pulls(11, 9, &[("imbalance_pct", 100)]), 1);
    assert_eq!(busy_pulls(10, 4, &[]), 3);
}

#[test]
fn warm_tasks_stay_until_balancing_has_failed() {
    let run = |settings: &[(&str, u64)]| {
        let tasks = Tasks::default()
            .add_many(4, "warm", &hog())
            // The timeslice of nice 19 is only 5 ms, so each of these tasks runs often.
            .with_all(nice(19))
            .with_all(at(0))
            .add("hog", hog())
            .with_all(at(1));
        set(linux26().machine(free(2)).tasks(tasks), settings).for_ms(3000)
    };
    let usual = run(&[("cache_hot_ns", 1000 * MS)]);
    assert!(usual.counter("nr_failed") >= 2 && usual.counter("nr_busy_pulls") >= 1);
    assert_eq!(run(&[("cache_hot_ns", 0)]).counter("nr_failed"), 0);
    let patient = run(&[("cache_hot_ns", 1000 * MS), ("cache_nice_tries", 100)]);
    assert!(patient.counter("nr_failed") > 5 && patient.counter("nr_busy_pulls") == 0);
}

/// A setting with which CPUs never balance periodically.
const NEVER: (&str, u64) = ("min_interval_ns", 100_000 * MS);

#[test]
fn cpus_about_to_idle_pull() {
    let moved = |newidle: u64| {
        let tasks = Tasks::default()
            .add_many(3, "hog", &hog())
            .with_all(at(0))
            .add("short", vec![run(50 * MS + 300 * US)])
            .with(at(1));
        let run = linux26().machine(free(2)).set("fork_balance", 0).set("cache_hot_ns", 0);
        let ran = set(run, &[NEVER, ("newidle", newidle)]).tasks(tasks).for_ms(60);
        let stints = ran.stints();
        let taken = stints.iter().find(|stint| stint.cpu == 1 && stint.comm != "short");
        taken.map(|stint| stint.from)
    };
    assert_eq!((moved(1), moved(0)), (Some(50_300 * US), None));
}

/// Returns the time in ms at which CPU 1 begins to run its first task.
fn first_pull(run: Run, until_ms: u64) -> Option<u64> {
    let run = run.machine(free(2)).set("fork_balance", 0).set("cache_hot_ns", 0);
    let ran = run.for_ms(until_ms);
    ran.stints()
        .iter()
        .find(|stint| stint.cpu == 1)
        .map(|stint| stint.from / MS)
}

#[test]
fn idle_cpus_balance_at_intervals() {
    let first = |settings: &[(&str, u64)]| {
        let late = |task: &mut TaskSpec| (task.start_cpu, task.start_ns) = (Some(0), 10 * MS + 100 * US);
        let tasks = Tasks::default().add_many(2, "hog", &hog()).with_all(late);
        first_pull(set(linux26(), settings).tasks(tasks), 100)
    };
    assert!(first(&[]).is_some_and(|ms| ms <= 15), "{:?}", first(&[]));
    assert_eq!(first(&[NEVER]), None);
}

#[test]
fn balancing_intervals_grow_while_all_tasks_are_bound() {
    // At 900 ms, two tasks arrive on CPU 0 that may migrate. If all earlier tasks are bound to CPU
    // 0, CPU 1 has tried to balance without success, and its next attempt is up to 512 ms later.
    let first = |bound: u32| {
        let tasks = Tasks::default()
            .add_many(bound, "bound", &hog())
            .with_all(on(0))
            .add_many(2, "free", &hog())
            .with_all(|task| {
                let free = task.comm.starts_with("free");
                task.start_cpu = Some(0);
                task.start_ns = if free { 900 * MS } else { 10 * MS };
            });
        first_pull(linux26().tasks(tasks), 1500).unwrap_or(0)
    };
    assert!((900..910).contains(&first(0)), "{}", first(0));
    assert!((950..1200).contains(&first(3)), "{}", first(3));
}

#[test]
fn a_running_task_is_pulled_if_no_waiting_task_can_be() {
    // The running task may migrate. The waiting tasks are bound to their CPU.
    let tasks = Tasks::default()
        .add("runs", hog())
        .with(at(0))
        .add("waits", hog())
        .with(on(0))
        .with_all(nice(-20));
    let ran = linux26()
        .machine(free(2))
        .set("fork_balance", 0)
        .tasks(tasks)
        .for_ms(700);
    assert_eq!(ran.counter("nr_active"), 1);
    assert!(ran.cpu_ns("runs") > 650 * MS, "{}", ran.cpu_ns("runs"));
    assert!(ran.cpu_ns("waits") > 600 * MS, "{}", ran.cpu_ns("waits"));
}

#[test]
fn interactive_tasks_of_a_level_take_turns_within_a_timeslice() {
    // After a turn, a part of its timeslice, an interactive task lets other tasks of its level run.
    // With a bonus of 9 levels, a turn is 5 ms long. With each level less, it is twice as long.
    let stints = |settings: &[(&str, u64)]| {
        let tasks = Tasks::default().add_many(2, "task", &hog());
        let ran = set(Run::new("linux26"), settings).tasks(tasks).for_ms(300);
        let stint = &ran.stints()[1];
        (ran.counter("nr_turns"), (stint.to - stint.from) / MS)
    };
    let (turns, ms) = stints(&[]);
    assert!(turns > 10 && ms <= 11, "{turns} {ms}");
    assert_eq!(stints(&[("initial_sleep_ns", 0)]), (0, 100));
}

#[test]
fn tasks_count_as_interactive_longer_on_a_cpu_with_more_tasks() {
    // A task starts with a bonus of nine levels. After it has run for 1.5 s, it is no longer
    // interactive, and it has no more turns within its timeslices.
    let turns = |n: u32, ms: u64| {
        let workload = generated(&format!("closed:n={n},compute=250ms,start_cpu=0"));
        let run = Run::new("linux26").machine(free(2)).workload(workload);
        run.for_ms(ms).counter("nr_turns")
    };
    // Three tasks on two CPUs: at most two share a CPU, so each has run for 1.5 s after 3 s. Seven
    // tasks on two CPUs: at most four share a CPU, so each has run for 1.5 s after 6 s.
    for (n, s) in [(3, 3), (7, 6)] {
        let until = |tenths: u64| turns(n, s * 1000 + tenths * 100 - 500);
        assert!(until(0) < until(4), "{n}");
        assert_eq!(until(10), until(40), "{n}");
    }
}

#[test]
fn a_busy_cpu_that_idles_for_a_moment_pulls_nothing() {
    // CPU 0 always has two tasks. In the first case, CPU 1 has one task at most ticks, so its load
    // average is high. In the second case, it idles at most ticks.
    let pulls = |task: Vec<Op>| {
        let tasks = Tasks::default()
            .add_many(2, "far", &hog())
            .with_all(at(0))
            .add("near", task)
            .with(on(1));
        let run = linux26().machine(free(2)).set("fork_balance", 0);
        let ran = set(run, &[NEVER]).tasks(tasks).for_ms(1000);
        ran.counter("nr_busy_pulls")
    };
    assert_eq!(pulls(forever(vec![run(18 * MS), sleep(2 * MS)])), 0);
    assert_eq!(pulls(forever(vec![run(500 * US), sleep(20 * MS)])), 1);
}

#[test]
fn load_is_balanced_within_a_group_first() {
    let pulled_from = |group: u32| {
        let tasks = Tasks::default()
            .add_many(3, "near", &hog())
            .with_all(at(0))
            .add_many(6, "far", &hog())
            .with_all(at(2))
            .add("busy", hog())
            .with_all(at(3))
            .add("short", vec![run(20 * MS + 300 * US)])
            .with_all(at(1));
        let run = linux26().machine(grouped(4, group).free()).set("fork_balance", 0);
        let ran = run.set("cache_hot_ns", 0).tasks(tasks).for_ms(25);
        ran.records.iter().find_map(|record| match record.event {
            Event::Migrate { from, to: 1, .. } => Some(from),
            _ => None,
        })
    };
    assert_eq!((pulled_from(2), pulled_from(4)), (Some(0), Some(2)));
}

#[test]
fn a_forked_task_starts_on_the_least_loaded_cpu() {
    let run = |fork_balance: u64| {
        let tasks = Tasks::default()
            .add(
                "parent",
                vec![run(5 * MS), Op::Fork { task: 1, thread: false }, run(5 * MS)],
            )
            .with(at(0))
            .add("child", vec![run(200 * US)])
            .with(|task| task.spawn = false);
        let run = set(linux26(), &[NEVER, ("fork_balance", fork_balance), ("newidle", 0)]);
        run.machine(free(2)).tasks(tasks).for_ms(30).cpus("child")
    };
    assert_eq!((run(1), run(0)), ([1].into(), [0].into()));
}

#[test]
fn an_exec_moves_to_an_idle_cpu() {
    let run = |exec_balance: u64| {
        let exec = Op::Exec { comm: "program".into() };
        let tasks = Tasks::default()
            .add("task", vec![run(5 * MS), exec, run(500 * MS)])
            .add("hog", hog())
            .with_all(at(0));
        let run = set(linux26(), &[NEVER, ("newidle", 0), ("fork_balance", 0)]).set("exec_balance", exec_balance);
        let ran = run.machine(free(2)).tasks(tasks).for_ms(50);
        (ran.counter("nr_exec_moved"), ran.cpus("task"))
    };
    assert_eq!(run(1), (1, [0, 1].into()));
    assert_eq!(run(0), (0, [0].into()));
}

#[test]
fn a_woken_task_goes_to_its_previous_cpu_an_idle_one_or_the_wakers_cpu() {
    let sleeper = forever(vec![run(MS), sleep(MS)]);
    let tasks = || Tasks::default().add("sleeper", sleeper.clone()).with(at(3));
    let ran = linux26()
        .set("fork_balance", 0)
        .machine(free(4))
        .tasks(tasks())
        .for_ms(100);
    assert_eq!(ran.cpus("sleeper"), [3].into());
    let hog_there = tasks()
        .add("hog", hog())
        .with(on(3))
        .with(|task| task.start_ns = 1500 * US);
    let ran = linux26()
        .set("fork_balance", 0)
        .machine(free(4))
        .tasks(hog_there)
        .for_ms(100);
    assert_eq!(ran.wakeup_latency("sleeper").0, 0);
    // No CPU idles. The woken task goes to the waker's CPU, which has less load than its own.
    let affine = |wake_affine: u64| {
        let semaphore = Resource::Semaphore {
            name: "s".into(),
            value: 0,
        };
        let tasks = Tasks::default()
            .resources(vec![semaphore])
            .add("waker", forever(vec![run(3 * MS), Op::SemPost(0)]))
            .with(on(0))
            .add("woken", forever(vec![Op::SemWait(0), run(200 * US)]))
            .with(at(1))
            .add_many(2, "hog", &hog())
            .with_all(|task| {
                if task.comm.starts_with("hog") {
                    task.cpus = Some(vec![1]);
                }
            });
        let ran = linux26()
            .set("wake_affine", wake_affine)
            .machine(free(2))
            .tasks(tasks)
            .for_ms(200);
        ran.counter("nr_affine")
    };
    assert!(affine(1) > 0);
    assert_eq!(affine(0), 0);
}

#[test]
fn a_task_that_yields_waits_for_the_arrays_to_swap() {
    let tasks = Tasks::default()
        .add("hog", hog())
        .add("polite", forever(vec![run(MS), Op::Yield]));
    let ran = linux26().tasks(tasks).for_ms(3000);
    let polite = ran.cpu_ns("polite");
    assert!(polite > 20 * MS && polite < 60 * MS, "{polite}");
}

#[test]
fn decisions_do_not_depend_on_the_number_of_tasks() {
    let insns = |n: u32| {
        let ops = forever(vec![run(50 * US), sleep(1500 * US)]);
        let mut tasks = Tasks::default();
        for i in 0..n {
            let ops = if i % 2 == 0 { ops.clone() } else { hog() };
            tasks = tasks.add("t", ops).with(nice((i % 39) as i32 - 20));
        }
        let ran = Run::new("linux26").tasks(tasks).machine(costly(1)).for_ms(300);
        [
            Callback::SelectCpu,
            Callback::Enqueue,
            Callback::Dispatch,
            Callback::Tick,
        ]
        .map(|callback| {
            let called = &ran.machine.ext().called[callback as usize];
            (called.insns / called.count.max(1), called.insns_max)
        })
    };
    for ((few_mean, few_max), (many_mean, many_max)) in insns(10).into_iter().zip(insns(1000)) {
        assert!(
            many_mean <= few_mean * 5 / 4 + 20 && many_max <= few_max * 2 + 20,
            "instructions with few and with many tasks: mean {few_mean}, {many_mean}; maximum {few_max}, {many_max}"
        );
    }
}
