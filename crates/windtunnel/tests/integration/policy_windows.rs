// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the policy windows.
//!
//! Levels are strict: a thread runs only if no thread of a higher level is ready. The nice value
//! determines a thread's base level, from 1 to 15. A wake-up boosts the thread by some levels,
//! which depend on the cause of the wake-up. Each quantum that the thread uses lowers a boost by
//! one level. A thread that starves is raised to level 15 for a short time. Each thread has an
//! ideal processor, the CPU on which it prefers to run. Ideal processors are assigned to new
//! threads in turn.
//!
//! The tests also check where threads are placed, and which task an idle CPU takes. A hog is a task
//! that computes without pauses.

use crate::support::policy::*;
use std::collections::BTreeSet;
use workload::{Channel, Op, Resource, SchedPolicy};

const SECOND: u64 = 1000 * MS;

/// Sets the nice value of level 9, which is one above the normal level.
fn above(task: &mut workload::TaskSpec) {
    task.policy = SchedPolicy::Normal { nice: -3 };
}

fn high_and_low(starved_ns: u64) -> Observed {
    let tasks = Tasks::default().add("high", hog()).with(above).add("low", hog());
    let run = Run::new("windows").set("starved_ns", starved_ns);
    run.tasks(tasks).for_ns(21 * SECOND)
}

#[test]
fn a_lower_level_runs_only_when_it_is_raised() {
    let ran = high_and_low(4 * SECOND);
    let low: Vec<u64> = ran
        .stints()
        .iter()
        .filter(|s| s.comm == "low")
        .map(|s| s.to - s.from)
        .collect();
    assert_eq!(low.len() as u64, ran.counter("nr_lifted"));
    assert!((3..=5).contains(&low.len()), "{low:?}");
    assert!(low.iter().all(|&ns| ns.abs_diff(62_500 * US) <= MS), "{low:?}");
    let ran = high_and_low(1000 * SECOND);
    assert!(ran.cpu_ns("low") < US);
}

#[test]
fn a_starving_thread_is_raised_every_four_seconds() {
    let tasks = Tasks::default().add("high", hog()).with(above).add("low", hog());
    let ran = Run::new("windows").tasks(tasks).for_ns(21 * SECOND);
    let stints = ran.stints();
    let lifts: Vec<u64> = stints
        .iter()
        .filter(|s| s.comm == "low")
        .map(|s| s.from / SECOND)
        .collect();
    assert_eq!(lifts, [3, 7, 11, 15, 19]);
}

#[test]
fn a_wait_costs_a_third_of_a_clock_interval() {
    // Each round consists of 4 ms of work and a wait. The wait costs 5.2 ms of the quantum, which
    // is 31.25 ms long. The fourth wait ends the quantum and reduces a boost of 2 by one level.
    let decayed = |charge: u64| {
        let wake = Op::Send { channel: 0, bytes: 100 };
        let socket = Resource::Channel {
            name: "socket".into(),
            capacity: 4096,
            kind: Channel::Socket,
        };
        let tasks = Tasks::default()
            .resources(vec![socket])
            .add("boosted", forever(vec![Op::Recv(0), run(4 * MS)]))
            .add("device", forever(vec![sleep(50 * MS), wake]))
            .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 50 });
        let run = Run::new("windows").set("quantum_ns", 31_250_000);
        let run = run.set("wait_charge_ns", charge).tasks(tasks);
        run.for_ms(220).counter("nr_decayed")
    };
    assert_eq!((decayed(5_208_333), decayed(0)), (1, 0));
}

#[test]
fn an_ideal_processor_that_is_not_allowed_is_replaced() {
    // Both threads are bound to CPU 1 and then to CPU 0. Afterwards they may run on any CPU. CPU 0
    // becomes their ideal processor while CPU 1 is not allowed. After their sleep, they go to CPU
    // 0, because it idles.
    let ops = |nap_ms: u64| {
        vec![
            Op::SetAffinity(Some(vec![1])),
            run(MS),
            Op::SetAffinity(Some(vec![0])),
            Op::SetAffinity(None),
            sleep(nap_ms * MS),
            run(MS),
        ]
    };
    let ran = Run::new("windows")
        .machine(free(2))
        .tasks(Tasks::default().add("even", ops(5)).add("odd", ops(10)))
        .for_ms(20);
    let last = |comm: &str| ran.stints().iter().rfind(|s| s.comm == comm).map(|s| s.cpu);
    assert_eq!((last("even"), last("odd")), (Some(0), Some(0)));
}

#[test]
fn tasks_of_equal_level_take_turns_of_a_quantum() {
    let hogs = || Tasks::default().add_many(2, "hog", &hog());
    let ran = Run::new("windows").set("quantum_ns", 31 * MS).tasks(hogs()).for_ms(500);
    assert!(ran.stints()[..14].iter().all(|stint| stint.to - stint.from == 31 * MS));
}

#[test]
fn a_preempted_thread_continues_before_its_equals() {
    let tasks = Tasks::default()
        .add_many(2, "hog", &hog())
        .add("high", vec![sleep(10 * MS), run(5 * MS)])
        .with(above);
    let ran = Run::new("windows").set("quantum_ns", 30 * MS).tasks(tasks).for_ms(100);
    let order: Vec<(String, u64)> = ran.stints().into_iter().map(|s| (s.comm, s.to - s.from)).collect();
    let order: Vec<(&str, u64)> = order.iter().map(|(comm, ns)| (comm.as_str(), ns / MS)).collect();
    assert_eq!(order[..4], [("hog0", 10), ("high", 5), ("hog0", 20), ("hog1", 30)]);
}

#[test]
fn tasks_that_the_kernel_queues_itself_are_not_preempted_by_a_higher_level() {
    let tasks = Tasks::default()
        .add_many(2, "bound", &[run(30 * MS)])
        .add("high", vec![sleep(10 * MS), run(5 * MS)])
        .with(above);
    let ran = Run::new("windows")
        .machine(costly(1))
        .load_at(MS)
        .migration_disabled("bound0")
        .migration_disabled("bound1")
        .tasks(tasks)
        .for_ms(100);
    // The kernel inserts a task with disabled migration into the CPU's local DSQ itself, where it
    // waits before "high". If the policy preempted such a task when it starts, because a higher
    // level waits, the next task of the local DSQ would start, and so on. No task would make
    // progress.
    assert!(ran.stints().len() < 20, "{} stints", ran.stints().len());
    assert!(ran.cpu_ns("high") > 4 * MS);
}

/// Returns how many rounds a thread of level 8 completes in 2 s beside a hog of level 9. The thread
/// waits with the operation `wait`. The operation `wake` wakes it every 50 ms.
fn boosted(wait: Op, wake: Option<Op>, settings: &[(&str, u32)]) -> (u64, Observed) {
    boosted_beside(-3, wait, wake, settings)
}

fn boosted_beside(nice: i32, wait: Op, wake: Option<Op>, settings: &[(&str, u32)]) -> (u64, Observed) {
    let resources = vec![
        Resource::Semaphore {
            name: "s".into(),
            value: 0,
        },
        Resource::Channel {
            name: "pipe".into(),
            capacity: 4096,
            kind: Channel::Pipe,
        },
        Resource::Channel {
            name: "socket".into(),
            capacity: 4096,
            kind: Channel::Socket,
        },
    ];
    let mut tasks = Tasks::default()
        .resources(resources)
        .add("compute", hog())
        .with(|task| task.policy = SchedPolicy::Normal { nice })
        .with(|task| task.start_ns = MS)
        .add("interactive", forever(vec![wait, run(5 * MS)]));
    if let Some(wake) = wake {
        tasks = tasks.add("device", forever(vec![sleep(50 * MS), wake])).with(|task| {
            task.policy = SchedPolicy::Fifo { rt_priority: 50 };
        });
    }
    let mut run = Run::new("windows").set("starved_ns", 1000 * SECOND).tasks(tasks);
    for (name, value) in settings {
        run = run.set(name, value);
    }
    let ran = run.for_ms(3000);
    let done = ran.cpu_ns_between("interactive", SECOND, 3 * SECOND);
    (done / (5 * MS), ran)
}

#[test]
fn data_from_the_network_boosts_by_two() {
    let (wait, wake) = (Op::Recv(2), Op::Send { channel: 2, bytes: 100 });
    let (rounds, ran) = boosted(wait.clone(), Some(wake.clone()), &[]);
    assert!(rounds >= 38, "{rounds}");
    assert!(ran.wakeup_latency_after("interactive", SECOND).1 < 10 * MS);
    assert!(ran.counter("nr_boosted") >= 1);
    assert!(boosted(wait, Some(wake), &[("boost_network", 0)]).0 < 2);
}

#[test]
fn data_in_a_pipe_boosts_by_two() {
    let (wait, wake) = (Op::Recv(1), Op::Send { channel: 1, bytes: 100 });
    assert!(boosted(wait.clone(), Some(wake.clone()), &[]).0 >= 38);
    assert!(boosted(wait, Some(wake), &[("boost_pipe", 0)]).0 < 2);
}

#[test]
fn a_semaphore_boosts_by_one_to_an_equal_level() {
    let (rounds, ran) = boosted(Op::SemWait(0), Some(Op::SemPost(0)), &[]);
    // The boosted thread and the hog have the same level, so they run for a quantum each, in turn.
    assert!((5..38).contains(&rounds), "{rounds}");
    assert!(ran.wakeup_latency_after("interactive", SECOND).1 > 10 * MS);
    assert!(boosted(Op::SemWait(0), Some(Op::SemPost(0)), &[("boost_event", 2)]).0 >= 38);
    assert!(boosted(Op::SemWait(0), Some(Op::SemPost(0)), &[("boost_event", 0)]).0 < 2);
}

#[test]
fn disk_io_boosts() {
    let io = Op::Io { bytes: 4096 };
    let rounds = boosted(io.clone(), None, &[("boost_disk", 2)]).0;
    assert!(rounds > 100, "{rounds}");
    assert!(boosted(io, None, &[("boost_disk", 0)]).0 < 2);
}

#[test]
fn a_sleep_does_not_boost() {
    let (rounds, ran) = boosted(sleep(20 * MS), None, &[]);
    assert!(rounds < 2, "{rounds}");
    assert_eq!(ran.counter("nr_boosted"), 0);
}

#[test]
fn a_boost_decays_by_one_a_quantum() {
    let socket = Resource::Channel {
        name: "socket".into(),
        capacity: 4096,
        kind: Channel::Socket,
    };
    let tasks = Tasks::default()
        .resources(vec![socket])
        .add("boosted", vec![Op::Recv(0), run(SECOND)])
        .add("compute", hog())
        .with(above)
        .with(|task| task.start_ns = MS)
        .add("device", vec![sleep(10 * MS), Op::Send { channel: 0, bytes: 100 }])
        .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 50 });
    let ran = Run::new("windows").set("quantum_ns", 20 * MS).tasks(tasks).for_ms(1000);
    // At level 10, the thread runs for one quantum, less the cost of the wait. At level 9, it runs
    // for one more quantum, and the hog runs in between. At level 8, it does not run.
    let used = ran.cpu_ns("boosted");
    assert!(used.abs_diff(35 * MS) <= 2 * MS, "{used}");
    assert_eq!(ran.counter("nr_decayed"), 2);
}

#[test]
fn boosts_are_limited_to_level_15() {
    let (wait, wake) = (Op::Recv(2), Op::Send { channel: 2, bytes: 100 });
    // The wake-up would boost the thread by 15 levels, but no boost exceeds level 15. Beside a hog
    // of level 15, the thread therefore waits for its turn.
    let (_, ran) = boosted_beside(-20, wait, Some(wake), &[("boost_network", 15)]);
    assert!(ran.wakeup_latency("interactive").0 > 100 * MS);
}

/// Returns the response times of 7 tasks on 2 CPUs. Each request computes for 250 ms. All tasks
/// start on the first CPU.
fn seven(think: &str) -> Vec<u64> {
    let spec = format!("closed:n=7,compute=250ms,think={think},start_cpu=0,duration=30s");
    let run = Run::new("windows").set("quantum_ns", 31_250_000).machine(free(2));
    run.workload(generated(&spec)).for_ns(30 * SECOND).responses("closed")
}

#[test]
fn tasks_are_not_balanced_while_no_cpu_idles() {
    let times = seven("0");
    // One task has a CPU of its own, so its requests take 250 ms. The other six share a CPU.
    let alone = times.iter().filter(|&&ns| ns.abs_diff(250 * MS) <= 5 * MS).count();
    let six = times.iter().filter(|&&ns| (1350 * MS..1550 * MS).contains(&ns)).count();
    assert!(alone >= 115 && six >= 100, "{alone} {six} of {}", times.len());
}

#[test]
fn pauses_between_requests_spread_tasks() {
    let times = seven("10ms");
    let mean = times.iter().sum::<u64>() / times.len() as u64 / MS;
    assert!((700..=900).contains(&mean), "{mean}");
    // At first, these tasks are bound to the first CPU. It is therefore the ideal processor of all
    // tasks. They go there whenever it idles, so they migrate all the time.
    let times = seven("10ms,bound=yes");
    let mean = times.iter().sum::<u64>() / times.len() as u64 / MS;
    assert!(mean.abs_diff(740) <= 30, "{mean}");
    let wide = times.iter().filter(|&&ns| !(500 * MS..1000 * MS).contains(&ns)).count();
    assert!(wide * 2 > times.len(), "{wide} of {}", times.len());
}

#[test]
fn a_cpu_that_goes_idle_takes_from_the_busiest() {
    let mut tasks = Tasks::default();
    for (cpu, n) in [(0, 2), (1, 4)] {
        for _ in 0..n {
            tasks = tasks
                .add(&format!("on{cpu}"), hog())
                .with(|task| task.start_cpu = Some(cpu));
        }
    }
    // CPU 2 is busy at first.
    let tasks = tasks.add("blocker", vec![run(10 * MS)]).with(|task| {
        task.cpus = Some(vec![2]);
    });
    let ran = Run::new("windows").machine(free(3)).tasks(tasks).for_ms(200);
    let next = ran
        .stints()
        .into_iter()
        .find(|stint| stint.cpu == 2 && stint.comm != "blocker");
    assert_eq!(next.expect("a hog has run on CPU 2").comm, "on1");
    assert!(ran.counter("nr_taken") >= 1);
}

#[test]
fn a_woken_thread_goes_to_its_ideal_processor() {
    let nap = forever(vec![run(MS), sleep(2 * MS)]);
    let tasks = Tasks::default()
        .add_many(4, "nap", &nap)
        .with_all(|task| task.start_cpu = Some(0));
    let ran = Run::new("windows").machine(free(4)).tasks(tasks).for_ms(200);
    for stint in ran.stints().iter().filter(|stint| stint.from > 50 * MS) {
        assert_eq!(stint.comm, format!("nap{}", stint.cpu));
    }
}

#[test]
fn a_woken_thread_goes_to_its_last_processor_if_the_ideal_one_is_busy() {
    // The waiter is the second task, so CPU 1 is its ideal processor. The hog occupies CPU 1.
    let semaphore = Resource::Semaphore {
        name: "s".into(),
        value: 0,
    };
    let tasks = Tasks::default()
        .resources(vec![semaphore])
        .add("poster", forever(vec![sleep(5 * MS), Op::SemPost(0), run(100 * US)]))
        .with(|task| task.cpus = Some(vec![2]))
        .add("waiter", forever(vec![Op::SemWait(0), run(MS)]))
        .with(|task| task.start_cpu = Some(3))
        .add("hog", hog())
        .with(|task| task.cpus = Some(vec![1]));
    let ran = Run::new("windows").machine(free(4)).tasks(tasks).for_ms(100);
    assert_eq!(ran.cpus("waiter"), BTreeSet::from([3]));
}

#[test]
fn with_no_cpu_idle_a_thread_preempts_at_its_ideal_processor() {
    // "nap" is the eighth task, so CPU 3 is its ideal processor.
    let tasks = Tasks::default()
        .add_many(4, "hog", &hog())
        .add_many(3, "pad", &[run(US)])
        .add("nap", forever(vec![run(MS), sleep(5 * MS)]))
        .with(above);
    let ran = Run::new("windows").machine(free(4)).tasks(tasks).for_ms(300);
    assert!(ran.wakeup_latency_after("nap", 20 * MS).0 < 10 * US);
    assert!(ran.counter("nr_preempted") > 40);
    let late: BTreeSet<u32> = ran
        .stints()
        .into_iter()
        .filter(|s| s.comm == "nap" && s.from > 20 * MS)
        .map(|s| s.cpu)
        .collect();
    assert_eq!(late, BTreeSet::from([3]));
}

#[test]
fn a_thread_that_yields_goes_to_the_end_of_its_level() {
    let tasks = Tasks::default()
        .add("polite", forever(vec![run(MS), Op::Yield]))
        .add("hog", hog());
    let ran = Run::new("windows").set("quantum_ns", 10 * MS).tasks(tasks).for_ms(1000);
    let share = ran.cpu_ns("polite");
    assert!(share.abs_diff(91 * MS) < 10 * MS, "{share}");
}
