// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the real-time class: which task runs first, on which CPU it runs, and for how long.

use crate::sched::class::state::flags::WF_TTWU;
use crate::testbed::*;
use trace::{Event, Record};
use workload::{Dist, Op, SchedPolicy};

fn fifo(rt_priority: u32) -> SchedPolicy {
    SchedPolicy::Fifo { rt_priority }
}

/// Returns the pids of the tasks in the order in which they started to run. The idle task is left
/// out.
fn order(records: &[Record]) -> Vec<u32> {
    let next = records.iter().filter_map(|r| match r.event {
        Event::Switch { next, .. } if next != 0 => Some(next),
        _ => None,
    });
    next.collect()
}

fn work(ns: u64) -> Vec<Op> {
    vec![Op::Run(Dist::Fixed(ns))]
}

#[test]
fn the_highest_priority_runs_first() {
    let mut bed = Bed::default();
    for rt_priority in [10, 30, 20] {
        bed.pinned(0, work(5 * MS)).policy = fifo(rt_priority);
    }
    bed.pinned(0, work(5 * MS));
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), 100 * MS);
    let exits = records.iter().filter_map(|r| {
        if let Event::TaskExit { pid } = r.event {
            Some(pid)
        } else {
            None
        }
    });
    assert_eq!(exits.collect::<Vec<_>>(), [2, 3, 1, 4]);
}

#[test]
fn fifo_has_no_slice() {
    let mut bed = Bed::default();
    bed.pinned(0, work(400 * MS)).policy = fifo(5);
    bed.pinned(0, work(400 * MS)).policy = fifo(5);
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    // A task that exits goes behind tasks of equal priority before it is dead.
    assert_eq!(order(&records), [1, 2, 1, 2]);
}

#[test]
fn round_robin_turns_every_100_ms() {
    let mut bed = Bed::default();
    for _ in 0..3 {
        bed.pinned(0, hog()).policy = SchedPolicy::RoundRobin { rt_priority: 5 };
    }
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    assert_eq!(order(&records)[..6], [1, 2, 3, 1, 2, 3]);
    assert!(stretches(&records, 2).iter().all(|&ns| ns.abs_diff(100 * MS) <= MS));
}

#[test]
fn a_preempted_task_resumes_before_tasks_of_equal_priority() {
    let mut bed = Bed::default();
    bed.pinned(0, work(10 * MS)).policy = fifo(5);
    bed.pinned(0, work(10 * MS)).policy = fifo(5);
    let better = bed.pinned(0, work(MS));
    (better.policy, better.start_ns) = (fifo(6), 3 * MS);
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    // At the end, the tasks exit.
    assert_eq!(order(&records), [1, 3, 1, 2, 1, 2]);
}

#[test]
fn yield_lets_tasks_of_equal_priority_run() {
    let mut bed = Bed::default();
    bed.pinned(0, vec![Op::Run(Dist::Fixed(MS)), Op::Yield, Op::Run(Dist::Fixed(MS))])
        .policy = fifo(5);
    bed.pinned(0, work(MS)).policy = fifo(5);
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    // At the end, the tasks exit.
    assert_eq!(order(&records), [1, 2, 1, 2, 1]);
}

#[test]
fn realtime_preempts_fair_at_once() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(0, sleeper(MS, 7 * MS)).policy = fifo(1);
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), SECOND);
    let waits = latencies(&records, 2);
    assert!(waits.len() > 100 && waits.iter().all(|&ns| ns == 0));
}

#[test]
fn a_woken_task_is_pushed_to_a_cpu_of_lower_priority() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).policy = fifo(50);
    bed.pinned(1, hog()).policy = fifo(40);
    bed.pinned(2, hog());
    let woken = bed.task(0, sleeper(MS, 3 * MS));
    (woken.policy, woken.start_ns) = (fifo(10), MS);
    let (m, records) = bed.run(spec(1, 1, 3, 1), 500 * MS);
    assert!(used(&m, 3) > 100 * MS);
    let ran = |r: &&Record| matches!(r.event, Event::Switch { next: 4, .. });
    assert!(records.iter().filter(ran).all(|r| r.cpu == 2));
}

#[test]
fn a_preempted_task_is_pushed_to_another_cpu() {
    let mut bed = Bed::default();
    bed.task(0, work(20 * MS)).policy = fifo(10);
    let better = bed.pinned(0, work(20 * MS));
    (better.policy, better.start_ns) = (fifo(20), 5 * MS);
    let (_, records) = bed.run(spec(1, 1, 2, 1), 100 * MS);
    let end = |pid| {
        records
            .iter()
            .find(|r| matches!(r.event, Event::TaskExit { pid: p } if p == pid))
            .unwrap()
            .time
    };
    assert!(
        end(1) < 21 * MS,
        "task 1 must resume on CPU 1, but ends at {} ns",
        end(1)
    );
    assert!(end(2) < 26 * MS);
}

#[test]
fn a_cpu_that_drops_its_priority_pulls() {
    let mut bed = Bed::default();
    bed.task(0, work(50 * MS)).policy = fifo(30);
    bed.task(1, work(10 * MS)).policy = fifo(30);
    let third = bed.task(0, work(10 * MS));
    (third.policy, third.start_ns) = (fifo(20), MS);
    let (_, records) = bed.run(spec(1, 1, 2, 1), SECOND);
    let start = records
        .iter()
        .find(|r| matches!(r.event, Event::Switch { next: 3, .. }))
        .unwrap();
    assert_eq!(start.cpu, 1);
    assert!(start.time < 11 * MS, "task 3 starts only at {} ns", start.time);
}

#[test]
fn pinned_tasks_are_neither_pushed_nor_pulled() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).policy = fifo(30);
    bed.pinned(0, work(MS)).policy = fifo(20);
    bed.task(1, sleeper(MS, MS)).policy = fifo(25);
    let (m, _) = bed.run(spec(1, 1, 2, 1), 500 * MS);
    assert_eq!(used(&m, 1), 0);
}

#[test]
fn fair_tasks_get_50_ms_of_each_second() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).policy = fifo(99);
    bed.pinned(0, hog());
    let (m, _) = bed.run(free(spec(1, 1, 1, 1)), 10 * SECOND);
    let share = used(&m, 1) / 10;
    assert!(
        share.abs_diff(50 * MS) < 6 * MS,
        "the fair task gets {share} ns per second"
    );
    assert_eq!(used(&m, 0) + used(&m, 1), 10 * SECOND);
}

#[test]
fn fair_tasks_that_do_not_starve_get_no_extra_time() {
    let mut bed = Bed::default();
    bed.pinned(0, sleeper(80 * MS, 20 * MS)).policy = fifo(99);
    bed.pinned(0, hog());
    let (_, records) = bed.run(free(spec(1, 1, 1, 1)), 5 * SECOND);
    assert!(latencies(&records, 1).iter().all(|&ns| ns == 0));
    assert!(stretches(&records, 1).iter().all(|&ns| ns == 80 * MS));
}

#[test]
fn a_woken_task_avoids_a_cpu_with_a_task_of_equal_priority() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).policy = fifo(50);
    let wakee = bed.task(0, sleeper(MS, 3 * MS));
    (wakee.policy, wakee.start_ns) = (fifo(50), MS);
    let (_, records) = bed.run(free(spec(1, 1, 2, 1)), 100 * MS);
    // CPU 1 must be chosen at the wake-up. The task must not be queued on CPU 0 and pushed later.
    let queued_here = |r: &&Record| {
        matches!(
            r.event,
            Event::Wakeup {
                pid: 2,
                target: 0,
                new: false
            }
        )
    };
    assert_eq!(records.iter().filter(queued_here).count(), 0);
}

#[test]
fn a_pinned_task_makes_the_running_task_of_equal_priority_move() {
    let mut bed = Bed::default();
    bed.task(0, work(20 * MS)).policy = fifo(50);
    let pinned = bed.pinned(0, work(10 * MS));
    (pinned.policy, pinned.start_ns) = (fifo(50), 5 * MS);
    let (_, records) = bed.run(free(spec(1, 1, 2, 1)), 100 * MS);
    let end = |pid| {
        records
            .iter()
            .find(|r| matches!(r.event, Event::TaskExit { pid: p } if p == pid))
            .unwrap()
            .time
    };
    assert_eq!((end(1), end(2)), (20 * MS, 15 * MS));
}

#[test]
fn a_cpu_whose_task_lowers_its_priority_pulls() {
    let mut bed = Bed::default();
    let lower = Op::SetPolicy(SchedPolicy::Fifo { rt_priority: 10 });
    bed.pinned(
        0,
        vec![Op::Run(Dist::Fixed(5 * MS)), lower, Op::Run(Dist::Fixed(50 * MS))],
    )
    .policy = fifo(50);
    bed.task(1, work(50 * MS)).policy = fifo(40);
    let third = bed.task(1, work(10 * MS));
    (third.policy, third.start_ns) = (fifo(30), MS);
    let (_, records) = bed.run(free(spec(1, 1, 2, 1)), SECOND);
    let start = records
        .iter()
        .find(|r| matches!(r.event, Event::Switch { next: 3, .. }))
        .unwrap();
    assert_eq!((start.cpu, start.time), (0, 5 * MS));
}

#[test]
fn fair_tasks_avoid_a_cpu_that_realtime_tasks_use() {
    let mut bed = Bed::default();
    bed.pinned(0, sleeper(8 * MS, 2 * MS)).policy = fifo(50);
    bed.task(0, hog());
    let (m, _) = bed.run(spec(1, 1, 2, 1), SECOND);
    assert!(m.rqs[0].rt.util_avg() > 600);
    assert_eq!(m.tasks[1].cpu(), 1);
    assert!(used(&m, 1) > 900 * MS, "the fair task uses only {} ns", used(&m, 1));
}

#[test]
fn a_push_prefers_a_near_cpu() {
    let mut bed = Bed::default();
    bed.pinned(4, hog()).policy = fifo(50);
    let woken = bed.task(4, sleeper(MS, 3 * MS));
    (woken.policy, woken.start_ns) = (fifo(10), MS);
    let (_, records) = bed.run(spec(2, 1, 4, 1), 100 * MS);
    let ran = |r: &&Record| matches!(r.event, Event::Switch { next: 2, .. });
    assert!(records.iter().filter(ran).all(|r| r.cpu > 4));
}

#[test]
fn placement_depends_on_the_running_tasks() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).policy = fifo(50);
    bed.task(0, sleeper(MS, 300 * MS)).policy = fifo(50);
    let (mut m, _) = bed.run(free(spec(1, 1, 2, 2)), 100 * MS);
    let wake = |m: &mut crate::machine::Machine, prev| super::select_task_rq(m, nth(1), prev, WF_TTWU);
    // A task avoids a CPU that runs a task of equal priority, and stays on a CPU that is idle.
    assert_ne!(wake(&mut m, cpu_id(0)), 0);
    assert_eq!(wake(&mut m, cpu_id(2)), 2);
    // If several CPUs are equally good, the CPU on which the task ran last is preferred.
    for cpu in [3, 2, 1] {
        m.tasks[1].set_cpu(cpu_id(cpu));
        assert_eq!(super::find_lowest_rq(&mut m, nth(1)), Some(cpu_id(cpu)));
    }
}
