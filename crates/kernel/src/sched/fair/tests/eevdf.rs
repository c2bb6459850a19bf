// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the EEVDF algorithm: shares of CPU time, latencies and slices. A "hog" is a task that
//! never sleeps.

use crate::sched::state::task::PRIO_TO_WEIGHT;
use crate::testbed::*;
use workload::{Dist, Op, SchedPolicy};

/// Length of a slice on a machine with one CPU.
const SLICE: u64 = 700 * US;

#[test]
fn cpu_time_follows_the_weights() {
    let nices = [0, 0, 5, -5, 10, 19];
    let mut bed = Bed::default();
    for nice in nices {
        bed.pinned(0, hog()).policy = SchedPolicy::Normal { nice };
    }
    let (m, _) = bed.run(free(spec(1, 1, 1, 1)), 20 * SECOND);
    let weight = |nice: i32| u64::from(PRIO_TO_WEIGHT[(nice + 20) as usize]);
    let total: u64 = nices.iter().map(|&nice| weight(nice)).sum();
    for (n, &nice) in nices.iter().enumerate() {
        let expected = 20 * SECOND * weight(nice) / total;
        assert!(
            used(&m, n as u32).abs_diff(expected) * 50 <= expected,
            "the task with nice {nice} uses {} ns instead of {expected} ns",
            used(&m, n as u32)
        );
    }
}

#[test]
fn a_waking_task_waits_for_two_slices_at_most() {
    let mut bed = Bed::default();
    for _ in 0..4 {
        bed.pinned(0, hog());
    }
    bed.pinned(0, sleeper(100 * US, 10 * MS));
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), 5 * SECOND);
    let waits = latencies(&records, 5);
    assert!(waits.len() > 400);
    assert!(
        waits.iter().all(|&ns| ns <= 2 * SLICE),
        "the longest wake-up latency is {:?} ns",
        waits.iter().max()
    );
}

#[test]
fn a_slice_ends_on_time() {
    // The length of a slice is 0.7 ms * (1 + log2(n)), where n is the number of CPUs, at most 8.
    for (cpus, slice) in [(1, SLICE), (2, 2 * SLICE), (8, 4 * SLICE), (16, 4 * SLICE)] {
        let mut bed = Bed::default();
        // No other task wakes up, so only the high-resolution tick can end the slices of these two
        // tasks.
        bed.pinned(0, vec![Op::Run(Dist::Fixed(10 * SECOND))]);
        bed.pinned(0, vec![Op::Run(Dist::Fixed(10 * SECOND))]);
        let (_, records) = bed.run(free(spec(1, 1, cpus, 1)), SECOND);
        let lengths = stretches(&records, 1);
        let exact = lengths.iter().filter(|&&ns| ns.abs_diff(slice) <= US).count();
        assert!(
            exact * 10 >= lengths.len() * 9,
            "on {cpus} CPUs, too few slices are {slice} ns long; the first ones are {:?}",
            &lengths[..10]
        );
    }
}

#[test]
fn a_slice_ends_on_time_while_only_a_delayed_sleeper_waits() {
    let mut bed = Bed::default();
    bed.pinned(
        0,
        vec![Op::Run(Dist::Fixed(300 * US)), Op::Sleep(Dist::Fixed(100 * MS))],
    );
    bed.pinned(0, hog());
    let mut m = bed.machine(free(spec(1, 1, 1, 1)));
    let mut records = Vec::new();
    // The first task sleeps with negative lag after 300 us. It becomes eligible when the hog has
    // also run for 300 us. It leaves the queue only later, when the hog's slice ends and the CPU
    // picks again. The first slice of a task is half as long as the others.
    m.advance(300 * US + SLICE / 2 - US, &mut records);
    assert!(m.tasks[0].fair.delayed);
    m.advance(300 * US + SLICE / 2 + US, &mut records);
    assert!(
        !m.tasks[0].fair.on_rq,
        "the high-resolution tick must count the delayed sleeper; the next tick is at {} ns",
        m.tick_ns()
    );
}

#[test]
fn short_sleeps_give_no_advantage() {
    // If the second task lost its negative lag at each sleep, it would run nearly all the time.
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(0, sleeper(600 * US, 10 * US));
    let (m, _) = bed.run(free(spec(1, 1, 1, 1)), 5 * SECOND);
    let share = used(&m, 1) * 100 / (5 * SECOND);
    assert!(
        (45..=52).contains(&share),
        "the task with short sleeps gets {share} % of the CPU"
    );
}

#[test]
fn a_sleeper_with_negative_lag_competes_until_it_is_eligible() {
    let mut bed = Bed::default();
    bed.pinned(
        0,
        vec![Op::Run(Dist::Fixed(300 * US)), Op::Sleep(Dist::Fixed(100 * MS))],
    );
    bed.pinned(0, hog());
    let mut m = bed.machine(free(spec(1, 1, 1, 1)));
    let mut records = Vec::new();
    let mut delayed = false;
    for step in 1..30 {
        m.run(step * 100 * US, &mut records);
        let e = &m.tasks[0].fair;
        if e.delayed {
            delayed = true;
            assert_eq!(
                (
                    m.rqs[0].fair.cfs.nr_queued,
                    m.rqs[0].fair.cfs.h_nr_runnable,
                    m.rqs[0].nr_running
                ),
                (2, 1, 2)
            );
        }
    }
    assert!(delayed, "the dequeue of the sleeper must be delayed");
    let e = &m.tasks[0].fair;
    assert!(!e.on_rq && e.vlag <= 0, "a delayed sleeper must not gain positive lag");
}

#[test]
fn the_running_task_is_not_preempted_before_vprot() {
    let mut bed = Bed::default();
    for _ in 0..3 {
        bed.pinned(0, hog());
    }
    let (mut m, _) = bed.run(free(spec(1, 1, 1, 1)), 10 * MS + 50 * US);
    let curr = m.rqs[0].curr;
    let other = nth((curr.slot() + 1) % 3);
    let rq = &mut m.rqs[0].fair.eevdf;
    rq.remove(&m.tasks, other);
    let v = rq.zero_vruntime;
    // Both tasks are eligible, and `other` has the earlier deadline.
    let e = &mut m.tasks[curr].fair;
    (e.vruntime, e.deadline, e.vprot) = (v - 1000, v + 900, v + 900);
    let e = &mut m.tasks[other].fair;
    (e.vruntime, e.deadline) = (v - 1000, v + 800);
    rq.insert(&mut m.tasks, other);
    assert_eq!(m.pick_eevdf(cpu_id(0), true), Some(curr));
    assert_eq!(m.pick_eevdf(cpu_id(0), false), Some(other));
    m.tasks[curr].fair.vprot = v - 1000;
    assert_eq!(m.pick_eevdf(cpu_id(0), true), Some(other));
}

#[test]
fn idle_policy_never_delays_normal_tasks() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).policy = SchedPolicy::Idle;
    bed.pinned(0, hog()).policy = SchedPolicy::Idle;
    bed.pinned(0, sleeper(500 * US, 3 * MS));
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    let waits = latencies(&records, 3);
    assert!(
        waits.len() > 200 && waits.iter().filter(|&&ns| ns > 0).all(|&ns| ns == 10 * US),
        "a task that is not eligible by less than 1 ns waits for the shortest tick: {waits:?}"
    );
    assert!(
        waits.iter().filter(|&&ns| ns > 0).count() < 5,
        "nearly all wake-up latencies must be 0: {waits:?}"
    );
}

#[test]
fn batch_tasks_do_not_preempt() {
    let mean = |policy| {
        let mut bed = Bed::default();
        bed.pinned(0, hog());
        bed.pinned(0, sleeper(100 * US, 5 * MS)).policy = policy;
        let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
        let waits = latencies(&records, 2);
        waits.iter().sum::<u64>() / waits.len() as u64
    };
    // A normal task often preempts the other task immediately when it wakes up. A batch task does
    // not, so its mean wake-up latency is longer.
    assert!(mean(SchedPolicy::Normal { nice: 0 }) * 5 < mean(SchedPolicy::Batch { nice: 0 }) * 4);
}

#[test]
fn yield_gives_up_the_slice() {
    let mut bed = Bed::default();
    bed.pinned(
        0,
        vec![
            Op::Run(Dist::Fixed(50 * US)),
            Op::Yield,
            Op::LoopBack {
                counter: 0,
                times: None,
                target: 0,
            },
        ],
    );
    bed.pinned(0, hog());
    let (m, _) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    assert!(
        used(&m, 0) * 5 < used(&m, 1),
        "the task that yields uses {} ns, the other task {} ns",
        used(&m, 0),
        used(&m, 1)
    );
}

#[test]
fn a_new_weight_applies_immediately() {
    let mut bed = Bed::default();
    let mut ops = vec![
        Op::Run(Dist::Fixed(500 * MS)),
        Op::SetPolicy(SchedPolicy::Normal { nice: 5 }),
    ];
    ops.extend([
        Op::Run(Dist::Fixed(100 * US)),
        Op::LoopBack {
            counter: 0,
            times: None,
            target: 2,
        },
    ]);
    bed.pinned(0, ops);
    bed.pinned(0, hog());
    let (m, _) = bed.run(free(spec(1, 1, 1, 1)), 11 * SECOND);
    // The task gets half of the first second. After that, it gets 335 / (335 + 1024) of the time,
    // because the weights of nice 5 and nice 0 are 335 and 1024.
    let expected = 500 * MS + 10 * SECOND * 335 / 1359;
    assert!(
        used(&m, 0).abs_diff(expected) * 50 <= expected,
        "the task uses {} ns instead of {expected} ns",
        used(&m, 0)
    );
}

#[test]
fn a_new_task_starts_with_half_a_slice() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(0, hog()).start_ns = 10 * MS;
    let mut m = bed.machine(free(spec(1, 1, 1, 1)));
    m.run(10 * MS, &mut Vec::new());
    let e = &m.tasks[1].fair;
    assert_eq!(e.deadline - e.vruntime, SLICE as i64 / 2);
}

/// Returns a machine with three hogs on CPU 0 and one on CPU 1. A fifth task, which is the first of
/// the workload, has run on CPU 0 and sleeps.
fn crowd() -> crate::machine::Machine {
    let mut bed = Bed::default();
    bed.task(
        0,
        vec![Op::Run(Dist::Fixed(10 * US)), Op::Sleep(Dist::Fixed(100 * SECOND))],
    );
    for cpu in [0, 0, 0, 1] {
        bed.pinned(cpu, hog()).start_ns = MS;
    }
    bed.run(free(spec(1, 1, 2, 1)), 20 * MS + 50 * US).0
}

#[test]
fn lag_survives_sleep() {
    for lag in [300_000, -300_000] {
        let mut m = crowd();
        m.enter(cpu_id(0));
        m.tasks[0].fair.vlag = lag;
        m.tasks[0].cpus = crate::simulation::cpuset::CpuSet::from_cpus(2, &[0]).into();
        m.tasks[0].task_struct.nr_cpus_allowed = 1;
        assert!(m.try_to_wake_up(nth(0), 0));
        assert!(
            m.entity_lag(cpu_id(0), nth(0)).abs_diff(lag) < 10,
            "the lag is {} instead of {lag}",
            m.entity_lag(cpu_id(0), nth(0))
        );
    }
}

#[test]
fn lag_and_slice_migrate_with_the_task() {
    let mut m = crowd();
    m.enter(cpu_id(0));
    assert!(m.try_to_wake_up(nth(0), 0));
    let from = m.tasks[0].cpu();
    m.tasks[0].fair.deadline += 12_345;
    let rq = &mut m.rqs[from].fair.eevdf;
    rq.remove(&m.tasks, nth(0));
    rq.insert(&mut m.tasks, nth(0));
    let lag = m.entity_lag(from, nth(0));
    let left = m.tasks[0].fair.deadline - m.tasks[0].fair.vruntime;
    let to = cpu_id(1 - from.nr());
    m.move_queued_task(nth(0), to, trace::MigrateReason::Balance);
    let e = &m.tasks[0].fair;
    assert_eq!(e.deadline - e.vruntime, left);
    assert!(m.entity_lag(to, nth(0)).abs_diff(lag) < 10);
}

#[test]
fn dead_tasks_leave_no_load() {
    let mut bed = Bed::default();
    for _ in 0..10 {
        bed.pinned(0, vec![Op::Run(Dist::Fixed(10 * MS))]);
    }
    bed.pinned(0, vec![Op::Run(Dist::Fixed(MS)), Op::Sleep(Dist::Fixed(100 * SECOND))]);
    let (mut m, _) = bed.run(free(spec(1, 1, 1, 1)), 102 * MS);
    // The load leaves with the next update.
    m.update_blocked_averages(cpu_id(0));
    assert!(
        m.cpu_load(cpu_id(0)) < 1024,
        "the load of the CPU is still {}",
        m.cpu_load(cpu_id(0))
    );
}

#[test]
fn without_a_high_resolution_tick_a_slice_ends_at_a_tick() {
    let turns = |hrtick| {
        let mut bed = Bed::default();
        bed.pinned(0, hog());
        bed.pinned(0, hog());
        let mut spec = free(spec(1, 1, 1, 1));
        spec.hz = 250;
        spec.kernel.features.set(machine::Feature::Hrtick, hrtick);
        let (_, records) = bed.run(spec, 100 * MS);
        let turns = stretches(&records, 1);
        turns[1..].to_vec()
    };
    let (with, without) = (turns(true), turns(false));
    assert!(without.iter().all(|turn| turn % (4 * MS) == 0), "{without:?}");
    assert!(with.iter().all(|turn| *turn < 4 * MS), "{with:?}");
}
