// SPDX-License-Identifier: GPL-2.0-only
//! Tests of custom slices: their lengths, the preemption by shorter slices, and groups.

use crate::simulation::rng::Rng;
use crate::testbed::*;
use workload::{Dist, Op, SchedPolicy};

/// Length of a slice on a machine with one CPU.
const BASE: u64 = 700 * US;

/// Adds a task on CPU 0 that requests slices of `slice` ns; 0 is the default.
fn add(bed: &mut Bed, slice: u64, ops: Vec<Op>) {
    let task = bed.pinned(0, ops);
    task.attributes.slice_ns = Some(slice);
}

/// Returns how many of the uninterrupted periods of a task last `ns`, in percent.
fn percent_of(records: &[trace::Record], pid: u32, ns: u64) -> usize {
    let lengths = stretches(records, pid);
    let exact = lengths.iter().filter(|&&length| length.abs_diff(ns) <= US).count();
    exact * 100 / lengths.len()
}

#[test]
fn a_slice_lasts_as_long_as_requested() {
    // The kernel limits slices to 0.1 to 100 ms.
    for (request, slice) in [(10 * MS, 10 * MS), (10 * US, 100 * US), (300 * MS, 100 * MS), (0, BASE)] {
        let mut bed = Bed::default();
        add(&mut bed, request, vec![Op::Run(Dist::Fixed(100 * SECOND))]);
        add(&mut bed, request, vec![Op::Run(Dist::Fixed(100 * SECOND))]);
        let (m, records) = bed.run(free(spec(1, 1, 1, 1)), 3 * SECOND);
        let exact = percent_of(&records, 1, slice);
        assert!(
            exact >= 90,
            "{exact} % of the slices with the request {request} are {slice} ns long"
        );
        assert!(used(&m, 0).abs_diff(used(&m, 1)) <= slice);
    }
}

#[test]
fn slices_do_not_change_the_shares() {
    let mut bed = Bed::default();
    for slice in [100 * MS, 20 * MS, 3 * MS, 0, 200 * US] {
        add(&mut bed, slice, hog());
    }
    let (m, records) = bed.run(free(spec(1, 1, 1, 1)), 20 * SECOND);
    for n in 0..5 {
        let expected = 4 * SECOND;
        assert!(
            used(&m, n).abs_diff(expected) * 50 <= expected,
            "task {n} uses {} ns instead of {expected} ns",
            used(&m, n)
        );
    }
    // While a shorter slice waits, a task runs for that time, not to the end of its own slice.
    let longest = stretches(&records, 1).into_iter().max().unwrap();
    assert!(
        longest < 10 * MS,
        "the task with slices of 100 ms ran for {longest} ns without a switch"
    );
}

/// Returns the longest wake-up latency of a task with the given slice, among five tasks that compute
/// with slices of 20 ms.
fn longest_wait(slice: u64) -> u64 {
    let mut bed = Bed::default();
    for _ in 0..5 {
        add(&mut bed, 20 * MS, hog());
    }
    add(&mut bed, slice, sleeper(50 * US, 7 * MS));
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), 10 * SECOND);
    let waits = latencies(&records, 6);
    assert!(waits.len() > 100);
    // The first wait belongs to the start of all tasks.
    waits[1..].iter().copied().max().unwrap()
}

#[test]
fn a_shorter_slice_waits_less() {
    let (short, equal) = (longest_wait(MS), longest_wait(20 * MS));
    assert!(
        short <= 3 * MS && equal >= 30 * MS,
        "the longest wait is {short} ns with a slice of 1 ms, {equal} ns with the slice of the others"
    );
}

#[test]
fn a_task_can_change_its_slice() {
    let mut bed = Bed::default();
    let change = |slice| {
        vec![
            Op::Run(Dist::Fixed(SECOND)),
            Op::SetSlice(slice),
            Op::Run(Dist::Fixed(20 * SECOND)),
        ]
    };
    add(&mut bed, 0, change(10 * MS));
    add(&mut bed, 0, change(10 * MS));
    let mut m = bed.machine(free(spec(1, 1, 1, 1)));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    m.run(2 * SECOND - 10 * MS, &mut before);
    m.run(4 * SECOND, &mut after);
    assert!(percent_of(&before, 1, BASE) >= 90);
    assert!(percent_of(&after, 1, 10 * MS) >= 90);
    assert_eq!(m.tasks[0].fair.slice, 10 * MS);
    m.set_slice(nth(0), 0);
    assert_eq!(m.tasks[0].fair.slice, 0, "a request of 0 is one for the base slice");
}

#[test]
fn lag_is_limited_by_the_longest_slice_on_the_queue() {
    let mut bed = Bed::default();
    add(&mut bed, 100 * MS, hog());
    bed.pinned(0, sleeper(50 * US, 10 * MS)).policy = SchedPolicy::Batch { nice: 0 };
    let mut m = bed.machine(free(spec(1, 1, 1, 1)));
    let mut records = Vec::new();
    m.run(MS, &mut records);
    let waits = |m: &crate::Machine| m.tasks[1].on_rq() && !m.tasks[1].on_cpu();
    while !waits(&m) {
        assert!(m.now < 2 * SECOND, "the batch task never waits");
        let next = m.now + 10 * US;
        m.run(next, &mut records);
    }
    // The batch task is owed much CPU time.
    m.tasks[0].fair.vruntime += 80 * MS as i64;
    m.tasks[0].fair.deadline += 80 * MS as i64;
    // A change of the policy dequeues the task and stores its lag.
    m.set_policy(nth(1), SchedPolicy::Batch { nice: 1 });
    let lag = m.tasks[1].fair.vlag;
    assert!(lag > 20_000_000, "the task keeps a lag of only {lag} ns");
}

#[test]
fn a_child_inherits_the_slice_unless_it_requests_its_own() {
    let mut bed = Bed::default();
    let fork = |task| Op::Fork { task, thread: true };
    add(&mut bed, 5 * MS, vec![fork(1), fork(2), Op::Run(Dist::Fixed(SECOND))]);
    for slice in [None, Some(2 * MS)] {
        let child = bed.pinned(0, hog());
        child.spawn = false;
        child.attributes.slice_ns = slice;
    }
    let (m, _) = bed.run(free(spec(1, 1, 1, 1)), 100 * MS);
    let slices: Vec<u64> = m.tasks.iter().map(|t| t.fair.slice).collect();
    assert_eq!(slices, [5 * MS, 5 * MS, 2 * MS]);
}

#[test]
fn random_slices_keep_the_counters_right() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut bed = Bed::default();
        let groups = [0, bed.cgroup("/a", 100), bed.cgroup("/a/b", 300)];
        let mut slice = {
            let mut rng = Rng::new(seed + 1000);
            move || [0, MS, 3 * MS, 200 * US, 70 * MS][rng.below(5) as usize]
        };
        for _ in 0..12 {
            let ops = vec![
                Op::Run(Dist::Fixed(1 + rng.below(3 * MS))),
                Op::SetSlice(slice()),
                Op::Sleep(Dist::Fixed(rng.below(2) * rng.below(5 * MS))),
                Op::SetPolicy(SchedPolicy::Normal {
                    nice: rng.below(10) as i32,
                }),
                Op::SetSlice(slice()),
                Op::LoopBack {
                    counter: 0,
                    times: None,
                    target: 0,
                },
            ];
            let task = bed.task(rng.below(2) as u32, ops);
            task.attributes.slice_ns = Some(slice());
            task.cgroup = groups[rng.below(3) as usize];
        }
        let mut m = bed.machine(spec(1, 1, 2, 1));
        let mut records = Vec::new();
        for step in 1..200 {
            m.run(step * 997 * US, &mut records);
            m.verify_fair();
        }
        for (n, t) in m.tasks.iter().enumerate() {
            assert!(t.sum_exec_runtime() > 0, "seed {seed}: task {n} never ran");
        }
    }
}
