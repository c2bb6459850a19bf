// SPDX-License-Identifier: GPL-2.0-only
//! Tests of queued wake-ups of a policy's tasks (SCX_OPS_ALLOW_QUEUED_WAKEUP).

use crate::policies::Run;
use crate::support::*;
use kernel::ext::ops::NAMES;
use kernel::{Machine, Options};
use machine::MachineSpec;
use std::fmt::Write;
use trace::{Event, Record};
use workload::{Action, Dist, Disturbance, Op, Resource};

/// Returns `nr` pairs of tasks. One task of each pair wakes the other one again and again.
fn pairs(nr: u64) -> Tasks {
    let us = |us| Op::Run(Dist::Fixed(us * US));
    let forever = || Op::LoopBack {
        counter: 0,
        times: None,
        target: 0,
    };
    let mut tasks = Tasks::default();
    for n in 0..nr {
        let (name, semaphore) = (format!("s{n}"), n as u32);
        tasks.workload.resources.push(Resource::Semaphore { name, value: 0 });
        tasks = tasks.add("waker", vec![us(60 + 7 * n), Op::SemPost(semaphore), forever()]);
        tasks = tasks.add("wakee", vec![Op::SemWait(semaphore), us(30 + 5 * n), forever()]);
    }
    tasks
}

fn start(spec: MachineSpec, tasks: Tasks, defines: &[&str]) -> Run {
    let mut machine = Machine::new(spec, tasks.workload, sanitizer(true)).expect("a machine");
    machine.details = true;
    let mut run = Run::new(machine, "queued", defines);
    run.run(100 * MS);
    run.assert_alive();
    run
}

#[test]
fn only_a_policy_that_allows_it_enqueues_on_the_tasks_cpu() {
    let spec = || MachineSpec::regular(1, 2, 4, 1);
    let refused = start(spec(), pairs(3), &[]);
    assert!(refused.var("nr_elsewhere") > 1000);
    let selected = refused.var("nr_elsewhere") + refused.var("nr_on_task_cpu");
    assert_eq!(
        refused.var("nr_selected"),
        selected,
        "every wake-up passes SCX_ENQ_CPU_SELECTED"
    );
    let allowed = start(spec(), pairs(3), &["ALLOW"]);
    assert_eq!(allowed.var("nr_elsewhere"), 0);
    let on_task_cpu = allowed.var("nr_on_task_cpu");
    assert!(on_task_cpu > 1000);
    assert!(
        allowed.var("nr_selected") < on_task_cpu / 2,
        "queued wake-ups do not pass SCX_ENQ_CPU_SELECTED"
    );
}

/// Draws the fifth wake-up of the second task by the first task. The drawing has a line for each
/// step and a column for each CPU. The time of a step, in ns since the beginning of the wake-up, is
/// in the column of the CPU that executes the step.
fn drawing(llcs: u32, busy: bool, defines: &[&str]) -> String {
    let mut tasks = pairs(1);
    tasks.workload.tasks[0].cpus = Some(vec![0]);
    if busy {
        let hog = vec![
            Op::Run(Dist::Fixed(MS)),
            Op::LoopBack {
                counter: 0,
                times: None,
                target: 0,
            },
        ];
        tasks.workload.tasks[1].cpus = Some(vec![1, 2]);
        tasks = tasks.add("hog", hog.clone()).with(|task| task.cpus = Some(vec![1]));
        tasks = tasks.add("hog", hog).with(|task| task.cpus = Some(vec![2]));
    }
    let run = start(MachineSpec::regular(1, llcs, 4 / llcs, 1), tasks, defines);
    let woken = |r: &&Record| matches!(r.event, Event::Waking { pid: 2, .. });
    let begin = run.records.iter().filter(woken).nth(4).expect("five wake-ups");
    let ends = |r: &&Record| matches!(r.event, Event::Switch { next: 2, .. });
    let first = run.records.iter().position(|r| r == begin).expect("the record exists");
    let last = first
        + run.records[first..]
            .iter()
            .position(|r| ends(&r))
            .expect("the task runs");
    let begin_ns = begin.time + u64::from(begin.after);
    let mut lines = Vec::new();
    for record in &run.records[first..=last] {
        let mut ns = record.time + u64::from(record.after);
        let step = match record.event {
            Event::Waking { pid: 2, .. } => "try_to_wake_up()".to_owned(),
            Event::Callback { op, after, .. } => {
                ns = record.time + u64::from(after);
                format!("ops.{}()", NAMES[op as usize])
            }
            Event::Wakeup { pid: 2, .. } => "queued".to_owned(),
            Event::Switch { next: 2, .. } => "runs".to_owned(),
            _ => continue,
        };
        lines.push((ns.saturating_sub(begin_ns), record.cpu, step));
    }
    lines.sort_by_key(|&(ns, ..)| ns);
    let mut text = format!("{:>6}  {:<20}CPU of the task\n", "ns", "CPU of the waker");
    for (ns, cpu, step) in lines {
        let column = if cpu == 0 { 0 } else { 20 };
        let _ = writeln!(text, "{ns:>6}  {:column$}{step}", "");
    }
    text
}

#[test]
fn a_queued_wake_up_is_drawn_on_the_cpu_of_the_task() {
    golden::check!("wakeup_queued.txt", &drawing(1, false, &["ALLOW"]));
    golden::check!("wakeup_direct.txt", &drawing(1, false, &[]));
    // All CPUs that the task may use are busy, and they share no cache with the waker.
    golden::check!("wakeup_queued_remote.txt", &drawing(4, true, &["ALLOW"]));
    golden::check!("wakeup_direct_remote.txt", &drawing(4, true, &[]));
}

#[test]
fn an_insertion_by_select_cpu_reaches_its_dsq() {
    for defines in [&["ALLOW", "DIRECT"][..], &["DIRECT"]] {
        let run = start(MachineSpec::smp(8), pairs(3), defines);
        let direct = run.var("nr_direct");
        assert!(direct > 1000 && run.var("nr_on_task_cpu") + run.var("nr_elsewhere") < direct / 10);
    }
}

#[test]
fn hotplug_and_unloading_lose_no_task_on_a_wake_list() {
    for seed in 0..20 {
        let mut tasks = pairs(3);
        for n in 0..40 {
            let cpu = 1 + (n / 2) as u32 % 3;
            let (at_ns, online) = (MS + n * 733 * US + seed * 97, n % 2 == 1);
            let action = Action::Hotplug { cpu, online };
            tasks.workload.disturbances.push(Disturbance { at_ns, action });
        }
        let machine = Machine::new(
            MachineSpec::regular(1, 2, 2, 1),
            tasks.workload,
            Options {
                seed,
                sanitizer: true,
                ..Options::default()
            },
        )
        .expect("a machine");
        let mut run = Run::new(machine, "queued", &["ALLOW", "ONLINE"]);
        run.machine.advance(20 * MS + seed * 1_001, &mut run.records);
        run.assert_alive();
        run.unload();
        run.machine.verify();
        let used = |run: &Run| {
            run.machine
                .tasks()
                .iter()
                .map(|t| t.sum_exec_runtime())
                .collect::<Vec<u64>>()
        };
        run.machine.advance(50 * MS, &mut run.records);
        let before = used(&run);
        run.run(60 * MS);
        let after = used(&run);
        let ran = before.iter().zip(&after).map(|(before, after)| after - before);
        assert!(
            ran.clone().all(|ns| ns > MS),
            "seed {seed}: {:?}",
            ran.collect::<Vec<u64>>()
        );
    }
}
