// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the parts of a run add up.

use super::*;
use trace::Slowdown;
use trace::TaskState::{Dead, Interruptible, Running};

/// CPU 1 has half the speed of CPU 0. `cc1` computes on CPU 0 and wakes `ld1`, which waits and
/// then runs on CPU 1. A timer interrupts its run.
fn records() -> Vec<Record> {
    let new = |pid, comm: &str| Event::TaskNew {
        pid,
        tgid: pid,
        parent: 0,
        prio: 120,
        comm: comm.into(),
    };
    let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
    let slowed = |pid, by, ns| Event::Slowed { pid, by, ns };
    let events = [
        (100, 0, new(1, "cc1")),
        (100, 0, new(2, "ld1")),
        (100, 1, switch(0, Running, 2)),
        (110, 1, switch(2, Interruptible, 0)),
        (120, 0, switch(0, Running, 1)),
        (520, 0, Event::Waking { pid: 2, waker: 1 }),
        (540, 0, Event::TaskExit { pid: 1 }),
        (540, 0, slowed(1, Slowdown::Kernel, 42)),
        (540, 0, switch(1, Dead, 0)),
        (600, 1, switch(0, Running, 2)),
        (700, 1, slowed(2, Slowdown::Capacity, 50)),
        (700, 1, switch(2, Interruptible, 0)),
        (800, 1, Event::Waking { pid: 2, waker: 0 }),
        (800, 1, switch(0, Running, 2)),
        (
            900,
            1,
            Event::LockWait {
                lock: 1,
                after: 20,
                ns: 5,
            },
        ),
        (
            900,
            1,
            Event::Callback {
                op: 1,
                insns: 9,
                after: 0,
                ns: 15,
            },
        ),
        (
            900,
            1,
            Event::Callback {
                op: 0,
                insns: 9,
                after: 0,
                ns: 35,
            },
        ),
        (1000, 1, slowed(2, Slowdown::Capacity, 80)),
        (1000, 1, slowed(2, Slowdown::Kernel, 40)),
        (1000, 1, Event::TaskExit { pid: 2 }),
    ];
    let record = |(time, cpu, event)| Record {
        time,
        cpu,
        after: 0,
        event,
    };
    events.map(record).to_vec()
}

fn divided(records: &[Record]) -> Divided {
    let mut path = Path::new(2, &[1024, 512]);
    path.take(records);
    path.finish(1000).expect("the run is short")
}

fn part(tasks: &str, kind: SegmentKind, capacity: impl Into<Option<u32>>) -> Part {
    Part {
        tasks: tasks.to_owned(),
        kind,
        capacity: capacity.into(),
    }
}

#[test]
fn the_parts_of_the_critical_path_add_up() {
    let parts = divided(&records()).path.expect("all tasks exit");
    let want = [
        // Of the turn of 420 ns, 400 ns are on the path, and thus 40 of its 42 ns of overhead.
        (part("cc", SegmentKind::Computing, 1024), 360),
        (part("cc", SegmentKind::Kernel, 1024), 40),
        (part("cc", SegmentKind::WaitingWhileIdle, None), 20),
        (part("cc", SegmentKind::NotStarted, None), 100),
        (part("ld", SegmentKind::Computing, 512), 50 + 80),
        (part("ld", SegmentKind::SlowerCpu, 512), 50 + 80),
        // The outer callback contains the inner one and the wait for the lock.
        (part("ld", SegmentKind::Locks, 512), 5),
        (part("ld", SegmentKind::Policy, 512), 30),
        (part("ld", SegmentKind::Kernel, 512), 5),
        (part("ld", SegmentKind::WaitingWhileIdle, None), 80),
        (part("ld", SegmentKind::Sleeping, None), 100),
    ];
    assert_eq!(parts, Parts::from(want));
    assert_eq!(parts.values().sum::<u64>(), 1000);
}

#[test]
fn the_parts_of_all_tasks_add_up_to_their_lifetimes() {
    let divided = divided(&records());
    assert_eq!(divided.tasks.values().sum::<u64>(), (540 - 100) + (1000 - 100));
    assert_eq!(divided.tasks[&part("ld", SegmentKind::Sleeping, None)], 520 - 110 + 100);
    assert_eq!(divided.tasks[&part("cc", SegmentKind::Kernel, 1024)], 42);
}

#[test]
fn a_wait_is_divided_by_whether_a_cpu_is_idle() {
    let switch = |cpu, prev, next| {
        let prev_state = Interruptible;
        (cpu, Event::Switch { prev, prev_state, next })
    };
    let events = [
        (10, switch(0, 0, 1)),
        (20, switch(1, 0, 2)),
        (30, (0, Event::Waking { pid: 3, waker: 1 })),
        (40, switch(1, 2, 0)),
        (45, switch(1, 0, 3)),
    ];
    let record = |(time, (cpu, event))| Record {
        time,
        cpu,
        after: 0,
        event,
    };
    let mut path = Path::new(2, &[]);
    path.take(&events.map(record));
    let tasks = path.finish(45).expect("the run is short").tasks;
    assert_eq!(tasks[&part("", SegmentKind::Waiting, None)], 10);
    assert_eq!(tasks[&part("", SegmentKind::WaitingWhileIdle, None)], 5);
}

#[test]
fn a_workload_that_does_not_end_has_no_path() {
    let records = records();
    assert!(divided(&records[..records.len() - 1]).path.is_none());
}

#[test]
fn a_run_with_too_many_switches_has_no_parts() {
    let mut path = Path::new(2, &[]).with_limit(5);
    path.take(&records());
    let error = path.finish(1000).expect_err("the run is too long");
    assert!(error.to_string().contains("more than 5 switches"), "{error}");
}

#[test]
fn tasks_that_wake_each_other_at_one_time_end_the_path() {
    let mut records = records();
    let waking = |pid, waker| Record {
        time: 700,
        cpu: 1,
        after: 0,
        event: Event::Waking { pid, waker },
    };
    records.splice(11..11, [waking(2, 1), waking(1, 2), waking(2, 1), waking(1, 2)]);
    let parts = divided(&records).path.expect("all tasks exit");
    assert_eq!(parts.values().sum::<u64>(), 1000);
}
