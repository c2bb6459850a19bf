// SPDX-License-Identifier: GPL-2.0-only
//! Tests of p9. A task's level follows from its CPU use: less use means a higher level. All CPUs
//! share one queue. A hog is a task that computes without pauses, and a napper sleeps most of the
//! time.

use crate::support::policy::*;
use workload::SchedPolicy;

const SECOND: u64 = 1000 * MS;

fn hogs_and_a_napper(gain_ns: u64) -> Observed {
    let tasks = Tasks::default().add_many(2, "hog", &hog());
    let tasks = tasks.add("nap", forever(vec![run(500 * US), sleep(20 * MS)]));
    Run::new("p9").set("gain_ns", gain_ns).tasks(tasks).for_ms(2000)
}

#[test]
fn a_task_that_uses_little_does_not_wait_for_hogs() {
    let ran = hogs_and_a_napper(SECOND);
    // During the first quanta, the CPU use of all tasks is still unknown.
    let (longest, _) = ran.wakeup_latency_after("nap", 500 * MS);
    assert!(longest < 10 * US, "{longest}");
    assert!(ran.counter("nr_preempted") > 50);
    // With gain_ns = 1000 s, CPU use does not change levels. The napper then waits while each hog
    // runs for a quantum.
    let (_, mean) = hogs_and_a_napper(1000 * SECOND).wakeup_latency_after("nap", 500 * MS);
    assert!(mean > 10 * MS, "{mean}");
}

#[test]
fn a_tick_ends_the_turn_of_a_lower_level() {
    // The napper sleeps on CPU 0, where an interrupt wakes it, and then moves to CPU 1 to compute.
    // CPU 1 notices the napper only at a tick.
    let body = vec![
        workload::Op::SetAffinity(Some(vec![1])),
        run(500 * US),
        workload::Op::SetAffinity(Some(vec![0])),
        sleep(20 * MS),
        run(10 * US),
    ];
    let tasks = || {
        let tasks = Tasks::default().add_many(3, "hog", &hog());
        tasks.add("nap", forever(body.clone()))
    };
    let run = |move_ns: u64| {
        let run = Run::new("p9").set("gain_ns", SECOND).set("move_ns", move_ns);
        let ran = run.machine(free(2)).tasks(tasks()).for_ms(2000);
        ran.cpu_ns_between("nap", SECOND, 2 * SECOND)
    };
    assert!(run(0) > 20 * MS);
    // The napper changes CPUs all the time. For move_ns after it has run on CPU 0, CPU 1 prefers
    // the hog that it ran last.
    assert!(run(100 * MS) < 10 * MS, "{}", run(100 * MS));
}

#[test]
fn an_idle_cpu_takes_any_task_and_a_busy_one_prefers_its_own() {
    let stays = |naps: u32| {
        let tasks = Tasks::default().add_many(naps, "nap", &forever(vec![run(3 * MS), sleep(MS)]));
        let ran = Run::new("p9")
            .machine(free(2))
            .set("move_ns", SECOND)
            .tasks(tasks)
            .for_ms(500);
        let stints = ran.stints();
        let cpus_used = |name: &str| {
            stints
                .iter()
                .filter(|stint| stint.comm == name)
                .map(|stint| stint.cpu)
                .collect::<Vec<_>>()
        };
        let cpus = cpus_used("nap0");
        (
            cpus.windows(2).filter(|pair| pair[0] == pair[1]).count() * 100 / cpus.len(),
            cpus.len(),
        )
    };
    // A single task runs on whichever of the two CPUs finds it first. If there are many tasks, a
    // CPU mostly takes tasks that it has run before.
    let ((alone, n), (crowded, m)) = (stays(1), stays(8));
    assert!(n > 100 && (35..65).contains(&alone), "{alone} % of {n}");
    assert!(m > 20 && crowded > 80, "{crowded} % of {m}");
}

#[test]
fn hogs_have_equal_shares() {
    let ran = Run::new("p9")
        .set("gain_ns", SECOND)
        .tasks(Tasks::default().add_many(3, "hog", &hog()))
        .for_ms(3000);
    for name in ["hog0", "hog1", "hog2"] {
        let share = ran.cpu_ns(name);
        assert!(share.abs_diff(SECOND) < 100 * MS, "{name}: {share}");
    }
}

#[test]
fn tasks_of_equal_level_take_turns_of_a_quantum() {
    let tasks = Tasks::default().add_many(2, "hog", &hog());
    // With gain_ns = 1000 s, CPU use does not change levels.
    let ran = Run::new("p9")
        .set("quantum_ns", 20 * MS)
        .set("gain_ns", 1000 * SECOND)
        .tasks(tasks)
        .for_ms(1000);
    let stints = ran.stints();
    assert!(stints.len() > 45, "{}", stints.len());
    assert!(stints.windows(2).all(|two| two[0].pid != two[1].pid));
    assert!(stints[5].to - stints[5].from <= 21 * MS);
}

#[test]
fn a_higher_level_comes_first() {
    let nice = |nice| {
        move |task: &mut workload::TaskSpec| {
            task.policy = SchedPolicy::Normal { nice };
            task.start_ns = 100 * MS;
        }
    };
    let tasks = Tasks::default()
        .add("hog", vec![run(150 * MS)])
        .add("low", vec![run(30 * MS)])
        .with(nice(10))
        .add("high", vec![run(30 * MS)])
        .with(nice(-10));
    let ran = Run::new("p9").tasks(tasks).for_ms(400);
    let end = |name: &str| ran.stints().iter().rev().find(|stint| stint.comm == name).map(|s| s.to);
    assert!(end("high") < end("low"), "{:?} {:?}", end("high"), end("low"));
    assert!(end("high") <= Some(132 * MS));
}

#[test]
fn no_cpu_idles_while_a_process_waits() {
    // The period of the tasks (1030 us) is no multiple of the tick period (1 ms), so a task wakes
    // up at many different distances from a tick. All CPUs have their ticks at the same time, so
    // with equal periods each wake-up would be at the same distance from all ticks.
    let nap = forever(vec![run(700 * US), sleep(330 * US)]);
    let ran = Run::new("p9")
        .set("quantum_ns", MS)
        .set("move_ns", 0)
        .machine(costly(4))
        .tasks(Tasks::default().add_many(12, "nap", &nap))
        .for_ms(200);
    assert!(ran.machine.idle_while_waiting_ns() < 4 * MS);
    // A process that wakes while its CPU is busy runs on whichever CPU becomes free first.
    assert!((0..12).any(|i| ran.cpus(&format!("nap{i}")).len() >= 2));
}

#[test]
fn a_process_runs_only_on_allowed_cpus() {
    let tasks = Tasks::default()
        .add_many(6, "any", &hog())
        .add("wired", hog())
        .with(|task| task.cpus = Some(vec![2]));
    let ran = Run::new("p9").machine(costly(4)).tasks(tasks).for_ms(2000);
    assert_eq!(ran.cpus("wired").into_iter().collect::<Vec<_>>(), [2]);
    assert!(ran.cpu_ns("wired") > 500 * MS);
}

#[test]
fn the_end_of_a_quantum_does_not_let_a_lower_level_run() {
    // With gain_ns = 1000 s, CPU use does not change levels.
    let tasks = Tasks::default().add("low", hog()).add("high", hog()).with(|task| {
        task.policy = workload::SchedPolicy::Normal { nice: -10 };
    });
    let run = Run::new("p9").set("gain_ns", 1_000_000_000_000_u64);
    let ran = run.tasks(tasks).for_ms(1000);
    assert!(ran.cpu_ns_between("low", 10 * MS, 1000 * MS) < 100 * US);
}
