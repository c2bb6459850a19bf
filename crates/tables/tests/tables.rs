// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the tables, with the records of a small run that is written by hand.

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use tables::{NAMES, Tables};
use trace::{Event, MigrateReason, Record, Sink, TaskState};

fn record(time: u64, cpu: u32, after: u32, event: Event) -> Record {
    Record {
        time,
        cpu,
        after,
        event,
    }
}

fn switch(time: u64, cpu: u32, prev: u32, prev_state: TaskState, next: u32) -> Record {
    record(time, cpu, 0, Event::Switch { prev, prev_state, next })
}

fn new(pid: u32, comm: &str) -> Record {
    let comm = comm.to_owned();
    let (tgid, parent, prio) = (pid, 0, 120);
    record(
        0,
        0,
        0,
        Event::TaskNew {
            pid,
            tgid,
            parent,
            prio,
            comm,
        },
    )
}

/// Returns the records of two tasks on two CPUs. Task 1 wakes task 2, which runs 30 ns later. Task
/// 1 is preempted at 200 ns and moves to CPU 1. Task 2 is woken once more, and never runs again.
fn records() -> Vec<Record> {
    let waking = |time, pid| record(time, 0, 0, Event::Waking { pid, waker: 1 });
    let wakeup = Event::Wakeup {
        pid: 2,
        target: 1,
        new: false,
    };
    let reason = MigrateReason::Balance;
    let migrate = Event::Migrate {
        pid: 1,
        from: 0,
        to: 1,
        reason,
    };
    let name = Event::LockName {
        lock: 7,
        name: "rq 1".into(),
    };
    let wait = Event::LockWait {
        lock: 7,
        after: 5,
        ns: 30,
    };
    let callback = Event::Callback {
        op: 1,
        insns: 99,
        after: 1,
        ns: 40,
    };
    // The first switch to task 2 happens at the local time 120 + 10 = 130 ns.
    let mut late = switch(120, 1, 0, TaskState::Running, 2);
    late.after = 10;
    vec![
        new(1, "one"),
        new(2, "two"),
        switch(10, 0, 0, TaskState::Running, 1),
        waking(100, 2),
        record(105, 0, 0, wakeup),
        late,
        switch(180, 1, 2, TaskState::Interruptible, 0),
        switch(200, 0, 1, TaskState::Running, 0),
        record(210, 1, 0, migrate),
        switch(220, 1, 0, TaskState::Running, 1),
        waking(400, 2),
        record(410, 1, 0, name),
        record(410, 1, 0, wait),
        record(420, 1, 0, callback),
    ]
}

/// Returns the tables of the records. The records are passed in two batches.
fn tables() -> [(&'static str, RecordBatch); 6] {
    let mut tables = Tables::new(2, &["ops.enqueue".to_owned(), "ops.dispatch".to_owned()]);
    let records = records();
    let (first, second) = records.split_at(5);
    tables.take(first);
    tables.take(second);
    tables.finish(500)
}

fn table(name: &str) -> RecordBatch {
    let found = tables().into_iter().find(|(known, _)| *known == name);
    found.expect("there is a table of this name").1
}

fn numbers(table: &RecordBatch, column: &str) -> Vec<Option<u64>> {
    let column = table.column_by_name(column).expect("the table has this column");
    match column.as_primitive_opt::<UInt64Type>() {
        Some(values) => values.iter().collect(),
        None => {
            let values = column.as_primitive::<UInt32Type>();
            values.iter().map(|n| n.map(u64::from)).collect()
        }
    }
}

fn words(table: &RecordBatch, column: &str) -> Vec<String> {
    let column = table.column_by_name(column).expect("the table has this column");
    let words = column.as_dictionary::<UInt16Type>();
    let list = words.values().as_string::<i32>();
    let keys = words.keys().iter();
    keys.map(|key| list.value(key.expect("the column has no nulls").into()).to_owned())
        .collect()
}

#[test]
fn all_tables_are_there_in_the_order_of_their_names() {
    assert_eq!(tables().map(|(name, _)| name), NAMES);
}

#[test]
fn a_switch_has_its_local_time_and_the_state_of_the_previous_task() {
    let switches = table("switches");
    assert_eq!(numbers(&switches, "time_ns"), [10, 130, 180, 200, 220].map(Some));
    assert_eq!(numbers(&switches, "next"), [1, 2, 0, 0, 1].map(Some));
    let states = words(&switches, "prev_state");
    assert_eq!(states, ["running", "running", "interruptible", "running", "running"]);
}

#[test]
fn the_latency_of_a_wakeup_ends_when_the_task_runs_or_when_the_run_ends() {
    let wakeups = table("wakeups");
    assert_eq!(numbers(&wakeups, "latency_ns"), [Some(30), Some(100)]);
    // The second wake-up has no sched_wakeup record, so its target CPU is unknown.
    assert_eq!(numbers(&wakeups, "target"), [Some(1), None]);
    assert_eq!(numbers(&wakeups, "waker"), [Some(1), Some(1)]);
}

#[test]
fn the_times_of_a_task_are_its_turns_and_its_waits() {
    let tasks = table("tasks");
    assert_eq!(numbers(&tasks, "pid"), [1, 2].map(Some));
    // Task 1 runs from 10 to 200 and from 220 to the end at 500.
    assert_eq!(numbers(&tasks, "cpu_ns"), [190 + 280, 50].map(Some));
    assert_eq!(numbers(&tasks, "wait_ns"), [20, 30 + 100].map(Some));
    assert_eq!(numbers(&tasks, "preemptions"), [1, 0].map(Some));
    assert_eq!(numbers(&tasks, "migrations"), [1, 0].map(Some));
}

#[test]
fn callbacks_locks_and_reasons_have_names() {
    assert_eq!(words(&table("callbacks"), "callback"), ["ops.dispatch"]);
    assert_eq!(numbers(&table("callbacks"), "time_ns"), [Some(421)]);
    assert_eq!(words(&table("migrations"), "reason"), ["balance"]);
    let locks = table("locks");
    let names = locks
        .column_by_name("lock")
        .expect("the table has this column")
        .as_string::<i32>();
    assert_eq!((names.value(0), names.len()), ("rq 1", 1));
    assert_eq!(numbers(&locks, "time_ns"), [Some(415)]);
}

#[test]
fn a_callback_whose_name_is_unknown_is_a_question_mark() {
    let mut tables = Tables::new(1, &[]);
    let callback = Event::Callback {
        op: 9,
        insns: 1,
        after: 0,
        ns: 1,
    };
    tables.take(&[record(0, 0, 0, callback)]);
    let [(_, callbacks), ..] = tables.finish(10);
    assert_eq!(words(&callbacks, "callback"), ["?"]);
}
