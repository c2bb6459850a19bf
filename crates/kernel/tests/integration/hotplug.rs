// SPDX-License-Identifier: GPL-2.0-only
//! Tests of CPU hotplug and of loading policies while tasks exist. They check the effects on the
//! tasks and their affinity.

use crate::policies::Run;
use crate::support::{MS, Tasks, free, run_ms, sleep_ms};
use kernel::Machine;
use kernel::cpuset::CpuSet;
use kernel::ext::EnableState;
use trace::{Event, Record};
use workload::Op;

/// Returns the switches to a task: for each, the time in ms and the CPU.
fn switches_to(records: &[Record], pid: u32) -> Vec<(u64, u32)> {
    let to = |record: &Record| matches!(record.event, Event::Switch { next, .. } if next == pid);
    let switches = records.iter().filter(|record| to(record));
    switches.map(|record| (record.time / MS, record.cpu)).collect()
}

#[test]
fn a_task_whose_cpus_are_all_offline_may_run_anywhere_from_then_on() {
    // When the task's CPU goes offline, the task is queued in the first case and sleeps in the
    // second case.
    for ops in [vec![run_ms(20)], vec![run_ms(1), sleep_ms(10), run_ms(10)]] {
        let tasks = Tasks::default()
            .add("hog", vec![run_ms(40)])
            .with(|task| task.cpus = Some(vec![1]));
        let tasks = tasks.add("bound", ops).with(|task| task.cpus = Some(vec![1]));
        let mut machine = Machine::new(free(2), tasks.workload, 1).expect("a machine");
        machine.plan_hotplug(5 * MS, 1, false);
        machine.plan_hotplug(30 * MS, 1, true);
        let mut records = Vec::new();
        machine.advance(29 * MS, &mut records);
        let bound = machine
            .tasks()
            .iter()
            .find(|task| task.comm() == "bound")
            .expect("the task is alive");
        assert_eq!(*bound.cpus, CpuSet::all(2));
        machine.run(100 * MS, &mut records);
        assert!(switches_to(&records, 2).iter().any(|&(ms, cpu)| ms >= 5 && cpu == 0));
        assert!(
            machine.tasks().iter().all(|task| !task.on_rq()),
            "both tasks have exited"
        );
    }
}

#[test]
fn affinity_to_offline_cpus_is_rejected() {
    let ops = vec![
        run_ms(10),
        Op::SetAffinity(Some(vec![1])),
        run_ms(1),
        Op::SetAffinity(Some(vec![2])),
        run_ms(1),
    ];
    let mut machine = Machine::new(free(3), Tasks::default().add("t", ops).workload, 1).expect("a machine");
    machine.plan_hotplug(MS, 1, false);
    let mut records = Vec::new();
    machine.run(100 * MS, &mut records);
    assert_eq!(switches_to(&records, 1), [(0, 0), (11, 2)]);
}

#[test]
fn loading_a_policy_leaves_no_reschedule_request_pending() {
    let tasks = Tasks::default().add("t", vec![sleep_ms(5), run_ms(1)]);
    let mut machine = Machine::new(free(2), tasks.workload, 1).expect("a machine");
    machine.advance(3 * MS, &mut Vec::new());
    let mut run = Run::new(machine, "minimal", &[]);
    run.machine.advance(4 * MS, &mut run.records);
    let pending = run.machine.rqs().iter().filter(|rq| rq.need_resched).count();
    assert_eq!(pending, 0, "a CPU has a reschedule request that nothing handles");
}

#[test]
fn a_fork_that_the_policy_rejects_does_not_affect_the_parent() {
    let parent = vec![
        run_ms(1),
        Op::Fork { task: 1, thread: false },
        Op::Fork { task: 2, thread: false },
        Op::WaitChildren,
        run_ms(1),
    ];
    let tasks = Tasks::default().add("parent", parent);
    let tasks = tasks.add("unwelcome", vec![run_ms(1)]).with(|task| task.spawn = false);
    let tasks = tasks.add("child", vec![run_ms(1)]).with(|task| task.spawn = false);
    let mut run = Run::new(
        Machine::new(free(1), tasks.workload, 1).expect("a machine"),
        "faulty",
        &["FORK_FAILS"],
    );
    run.run(100 * MS);
    assert_eq!(run.machine.failed_forks, [("unwelcome".to_owned(), -12)]);
    let names = run.records.iter().filter_map(|record| match &record.event {
        Event::TaskNew { comm, .. } => Some(comm.as_str()),
        _ => None,
    });
    assert!(
        names.eq(["parent", "child"]),
        "no task was created for the fork that failed"
    );
    assert_eq!(run.machine.nr_alive, 0, "all tasks have exited");
    assert!(run.machine.ext().exit.is_none() && run.machine.ext().state == EnableState::Enabled);
}

#[test]
fn a_cpu_waits_for_tasks_that_must_not_migrate() {
    let ops = vec![run_ms(2), Op::MigrateDisable, run_ms(18), Op::MigrateEnable, run_ms(20)];
    let tasks = Tasks::default()
        .add("stayer", ops)
        .with(|task| task.cpus = Some(vec![1]));
    let mut machine = Machine::new(free(2), tasks.workload, 1).expect("a machine");
    machine.plan_hotplug(5 * MS, 1, false);
    machine.plan_hotplug(10 * MS, 1, true);
    // This request equals the one that waits, and is not lost.
    machine.plan_hotplug(15 * MS, 1, false);
    machine.plan_hotplug(35 * MS, 1, true);
    let mut records = Vec::new();
    machine.run(100 * MS, &mut records);
    let changes: Vec<(u64, bool)> = records
        .iter()
        .filter_map(|record| match record.event {
            Event::Hotplug { online } => Some((record.time / MS, online)),
            _ => None,
        })
        .collect();
    // The first request waits until 20 ms, and the next two wait for the first.
    let first = changes[0].0;
    assert!((20..25).contains(&first), "{changes:?}");
    assert_eq!(changes, [(first, false), (first, true), (first, false), (35, true)]);
}
