// SPDX-License-Identifier: GPL-2.0-only
//! Tests that change cgroups while tasks run. They check which calls of callbacks and tracepoints a
//! policy gets, and on which CPUs tasks run.

use crate::policies::Run;
use crate::support::*;
use kernel::{Machine, Options};
use trace::{Event, Record};
use workload::{Action, Cgroup, Disturbance, Op, SchedPolicy};

/// Returns a machine with the cgroups "/a" and "/a/b". Their indexes in the workload are 1 and 2,
/// and their cgroup ids are 24 and 25. `actions` contains the changes of cgroups, each with its time
/// in ms.
fn machine(cpus: u32, tasks: Tasks, actions: &[(u64, Action)]) -> Machine {
    machine_with(Options::default(), cpus, tasks, actions)
}

fn machine_with(options: Options, cpus: u32, tasks: Tasks, actions: &[(u64, Action)]) -> Machine {
    let mut workload = tasks.workload;
    workload.cgroups = ["/", "/a", "/a/b"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    let disturbance = |(at, action): &(u64, Action)| Disturbance {
        at_ns: at * MS,
        action: action.clone(),
    };
    workload.disturbances = actions.iter().map(disturbance).collect();
    workload.check().expect("a valid workload");
    Machine::new(free(cpus), workload, options).expect("a machine")
}

/// Returns one process with three threads.
fn threads() -> Tasks {
    let hog = || vec![run_ms(500)];
    let tasks = Tasks::default()
        .add("lead", hog())
        .add("work", hog())
        .add("work", hog());
    tasks.with_all(|task| task.process = 0)
}

fn attach(comm: &str, cgroup: u32, process: bool) -> Action {
    Action::Attach {
        cgroup,
        comm: comm.into(),
        process,
    }
}

fn max(quota_us: Option<u64>) -> Action {
    Action::Max {
        cgroup: 1,
        quota_us,
        period_us: 50_000,
        burst_us: quota_us.map_or(0, |quota| quota / 2),
    }
}

/// Returns the lines that the policy printed.
fn printed_lines(records: &[Record]) -> Vec<&str> {
    let lines = records.iter().filter_map(|record| match &record.event {
        Event::Printk { text } => Some(text.as_str()),
        _ => None,
    });
    lines.collect()
}

#[test]
fn a_policy_sees_every_cgroup_event() {
    let actions = [
        (1, Action::Create { cgroup: 1 }),
        (2, Action::Weight { cgroup: 1, weight: 300 }),
        (2, Action::Weight { cgroup: 1, weight: 300 }),
        (3, max(Some(20_000))),
        (3, max(Some(20_000))),
        (4, Action::Create { cgroup: 2 }),
        (5, attach("work", 2, false)),
        (6, attach("work", 2, false)),
        (7, Action::Idle { cgroup: 2, idle: true }),
        (8, max(None)),
        (9, attach("lead", 0, true)),
        (10, Action::Remove { cgroup: 2 }),
        (11, Action::Remove { cgroup: 1 }),
        (12, Action::Create { cgroup: 1 }),
    ];
    let mut run = Run::new(machine(2, threads(), &actions), "cgroups", &[]);
    run.run(20 * MS).assert_alive();
    assert_eq!(run.machine.cgroups().refused, [""; 0]);
    assert_eq!(
        printed_lines(&run.records),
        [
            "init 1 weight 100 quota 0 of 100000",
            "init 24 weight 100 quota 0 of 100000",
            "tp mkdir 24",
            "set_weight 24 300",
            "set_bandwidth 24 quota 20000 of 50000 burst 10000",
            "init 25 weight 100 quota 0 of 100000",
            "tp mkdir 25",
            "prep_move 2 from 1 to 25",
            "prep_move 3 from 1 to 25",
            "move 2 from 1 to 25",
            "tp attach 2",
            "move 3 from 1 to 25",
            "tp attach 3",
            "set_idle 25 1",
            "set_bandwidth 24 quota 0 of 50000 burst 0",
            "prep_move 2 from 25 to 1",
            "prep_move 3 from 25 to 1",
            "move 2 from 25 to 1",
            "tp attach 2",
            "move 3 from 25 to 1",
            "tp attach 3",
            "tp rmdir 25",
            "exit 25",
            "tp rmdir 24",
            "exit 24",
            "init 24 weight 100 quota 0 of 100000",
            "tp mkdir 24",
        ]
    );
    // The policy's BPF local storage for the removed cgroup has been freed.
    assert_eq!(run.var("nr_kept"), 0);
}

#[test]
fn a_policy_loaded_later_sees_existing_cgroups() {
    let actions = [
        (1, Action::Weight { cgroup: 1, weight: 30 }),
        (2, max(Some(20_000))),
        (3, Action::Remove { cgroup: 2 }),
    ];
    let mut machine = machine(2, threads(), &actions);
    let mut records = Vec::new();
    machine.advance(5 * MS, &mut records);
    let mut run = Run::new(machine, "cgroups", &[]);
    run.run(10 * MS).assert_alive();
    assert_eq!(
        printed_lines(&run.records),
        [
            "init 1 weight 100 quota 0 of 100000",
            "init 24 weight 30 quota 20000 of 50000"
        ]
    );
}

#[test]
fn fair_tasks_keep_their_groups_shares_and_limits() {
    let hog = || vec![run_ms(5000)];
    let tasks = Tasks::default()
        .add("root", hog())
        .add("group", hog())
        .with(|task| task.cgroup = 1)
        .add("ext", hog())
        .with(|task| task.policy = SchedPolicy::Ext { nice: 0 })
        .with_all(|task| task.cpus = Some(vec![u32::from(task.policy == SchedPolicy::Ext { nice: 0 })]));
    let actions = [
        (0, Action::Weight { cgroup: 1, weight: 300 }),
        // The limit is 5 ms in each period of 50 ms. In the first period, a burst of 2.5 ms is
        // added.
        (800, max(Some(5000))),
    ];
    let mut run = Run::new(machine(2, tasks, &actions), "count", &["FLAGS=SCX_OPS_SWITCH_PARTIAL"]);
    run.run(1600 * MS).assert_alive();
    let used: Vec<u64> = run.machine.tasks().iter().map(|task| task.sum_exec_runtime()).collect();
    assert!(used[0].abs_diff(920 * MS) < 20 * MS, "{used:?}");
    assert!(used[1].abs_diff(680 * MS) < 20 * MS, "{used:?}");
    assert_eq!(used[2], 1600 * MS);
}

#[test]
fn a_rejected_move_is_cancelled_for_the_whole_process() {
    let mut run = Run::new(
        machine(2, threads(), &[(5, attach("lead", 1, true))]),
        "cgroups",
        &["REFUSE_MOVE=2"],
    );
    run.run(10 * MS).assert_alive();
    assert_eq!(
        printed_lines(&run.records)[3..],
        [
            "prep_move 1 from 1 to 24",
            "prep_move 2 from 1 to 24",
            "cancel_move 1 from 1 to 24",
        ]
    );
    assert_eq!(
        run.machine.cgroups().refused,
        ["cgroup /a: attaching 'lead' at 5000 us failed (-22)"]
    );
    assert!(run.machine.tasks().iter().all(|task| task.cgroup() == 0));
}

#[test]
fn failed_cgroup_operations_change_nothing_and_are_reported() {
    let actions = [
        (1, Action::Create { cgroup: 2 }),
        (2, Action::Create { cgroup: 1 }),
        (3, Action::Create { cgroup: 1 }),
        (4, Action::Weight { cgroup: 2, weight: 5 }),
        (5, attach("lead", 1, false)),
        (6, Action::Remove { cgroup: 1 }),
        (7, Action::Idle { cgroup: 1, idle: true }),
        (8, Action::Weight { cgroup: 1, weight: 5 }),
    ];
    let refused = |defines: &[&str]| {
        let mut run = Run::new(machine(2, threads(), &actions), "cgroups", defines);
        run.run(20 * MS).assert_alive();
        run.machine.cgroups().refused.clone()
    };
    assert_eq!(
        refused(&[]),
        [
            "cgroup /a/b: mkdir at 1000 us failed (-2)",
            "cgroup /a: mkdir at 3000 us failed (-17)",
            "cgroup /a/b: cpu.weight = 5 at 4000 us failed (-2)",
            "cgroup /a: rmdir at 6000 us failed (-16)",
            "cgroup /a: cpu.weight = 5 at 8000 us failed (-22)",
        ]
    );
    // ops.cgroup_init() fails with ENOMEM, so the cgroup does not exist afterwards.
    assert_eq!(
        refused(&["REFUSE_MKDIR"])[1],
        "cgroup /a: mkdir at 2000 us failed (-12)"
    );
}

/// Returns the CPUs on which a task started to run between two times in ms.
fn cpus_used_by(records: &[Record], pid: u32, from: u64, to: u64) -> Vec<u32> {
    let there = records.iter().filter(|r| (from * MS..to * MS).contains(&r.time));
    let mut cpus: Vec<u32> = there
        .filter(|r| matches!(r.event, Event::Switch { next, .. } if next == pid))
        .map(|r| r.cpu)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[test]
fn tasks_run_on_the_cpus_of_their_cpuset() {
    let cpus = |cgroup, cpus: Option<Vec<u32>>| Action::Cpus { cgroup, cpus };
    let actions = [
        (20, cpus(1, Some(vec![2, 3]))),
        (20, cpus(2, Some(vec![3]))),
        (40, attach("free", 1, false)),
        (60, attach("free", 2, false)),
        (80, cpus(2, Some(vec![0]))),
        (100, cpus(1, None)),
        (100, cpus(2, None)),
    ];
    let program = || {
        forever(vec![
            Op::Run(workload::Dist::Fixed(400 * US)),
            Op::Sleep(workload::Dist::Fixed(700 * US)),
        ])
    };
    let tasks = Tasks::default()
        .add("free", program())
        .add("pinned", program())
        .with(|task| (task.cpus, task.cgroup) = (Some(vec![1, 2]), 1))
        .add("there", program())
        .with(|task| task.cgroup = 1);
    for policy in ["", "cgroups"] {
        let machine = machine(4, tasks.clone(), &actions);
        let records = if policy.is_empty() {
            let mut machine = machine;
            let mut records = Vec::new();
            machine.run(130 * MS, &mut records);
            records
        } else {
            let mut run = Run::new(machine, policy, &[]);
            run.run(130 * MS).assert_alive();
            run.records
        };
        let on = |pid, from, to| cpus_used_by(&records, pid, from, to);
        let within = |pid, from, to, cpus: &[u32]| {
            let on = on(pid, from, to);
            assert!(
                !on.is_empty() && on.iter().all(|cpu| cpus.contains(cpu)),
                "{policy} {pid} {from}: {on:?}"
            );
        };
        within(1, 1, 40, &[0, 1, 2, 3]);
        within(1, 41, 60, &[2, 3]);
        within(1, 61, 80, &[3]);
        // The child's cpuset now has only CPU 0. The parent's cpuset does not contain this CPU, so
        // all CPUs of the parent's cpuset apply to the child.
        within(1, 81, 100, &[2, 3]);
        within(2, 1, 20, &[1, 2]);
        within(2, 21, 100, &[2]);
        // The cpusets no longer restrict the task, so its own affinity applies again.
        within(2, 101, 130, &[1, 2]);
        within(3, 21, 100, &[2, 3]);
    }
}

#[test]
fn a_policy_can_read_cpusets() {
    let cpus = |cgroup, cpus: &[u32]| Action::Cpus {
        cgroup,
        cpus: Some(cpus.to_vec()),
    };
    let actions = [
        (10, cpus(1, &[2, 3])),
        (20, cpus(2, &[3])),
        (30, Action::Hotplug { cpu: 3, online: false }),
        (35, attach("lead", 1, false)),
        (40, cpus(1, &[1, 3])),
        (45, attach("lead", 0, false)),
        (50, Action::Remove { cgroup: 2 }),
        (50, Action::Remove { cgroup: 1 }),
        (50, Action::Create { cgroup: 1 }),
        (60, cpus(1, &[0])),
    ];
    for checked in [false, true] {
        let machine = machine_with(sanitizer(checked), 4, threads(), &actions);
        let mut run = Run::new(machine, "cpusets", &[]);
        run.run(70 * MS).assert_alive();
        assert_eq!(
            printed_lines(&run.records),
            [
                "init 1: f, effective f",
                "init 24: 0, effective f",
                "init 25: 0, effective f",
                "cgroup 24 had 0",
                "cgroup 1 in 0: f, effective f",
                "cgroup 24 in 1: c, effective c",
                "cgroup 25 in 24: 0, effective c",
                "cgroup 24 had c",
                "cgroup 1 in 0: f, effective f",
                "cgroup 24 in 1: c, effective c",
                "cgroup 25 in 24: 8, effective 8",
                "CPU 3 goes",
                "joined 24: c, effective 4",
                "cgroup 24 had c",
                "cgroup 1 in 0: f, effective 7",
                "cgroup 24 in 1: a, effective 2",
                // No CPU of this cgroup's cpuset is online, so the CPUs of its parent apply.
                "cgroup 25 in 24: 8, effective 2",
                "joined 1: f, effective 7",
                "init 24: 0, effective 7",
                "cgroup 1 in 0: f, effective 7",
                "cgroup 4294967320 in 1: 1, effective 1",
            ]
        );
        // A mask has CONFIG_NR_CPUS / 8 bytes. The structs of this kernel contain pointers to
        // masks, not arrays.
        assert_eq!(run.var("cpumask_bytes"), 1024);
        assert_eq!((run.var("pointers"), run.var("arrays")), (1, 0));
    }
}
