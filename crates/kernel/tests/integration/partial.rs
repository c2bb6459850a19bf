// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the precedence of the classes rt, fair and ext, and of the deadline servers, which give
//! CPU time to the fair class and the ext class. Fair and ext tasks exist together only under a
//! policy that takes only SCHED_EXT tasks (SCX_OPS_SWITCH_PARTIAL).

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use workload::{Op, SchedPolicy, TaskSpec};

const SECOND: u64 = 1_000 * MS;

fn hog() -> Vec<Op> {
    forever(vec![run_ms(1)])
}

fn ext(task: &mut TaskSpec) {
    task.policy = SchedPolicy::Ext { nice: 0 };
}

fn realtime(task: &mut TaskSpec) {
    task.policy = SchedPolicy::Fifo { rt_priority: 10 };
}

/// Runs the policy `partial` until the time `until` in ns. Kernel work takes no time on the
/// machine.
fn start(cpus: u32, tasks: Tasks, defines: &[&str], until: u64) -> Run {
    let machine = Machine::new(free(cpus), tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "partial", defines);
    run.run(until);
    run.assert_alive();
    run
}

/// Returns the CPU time of the task with this pid, in ms.
fn used_ms(run: &Run, pid: u32) -> u64 {
    let task = run.machine.tasks().iter().find(|task| task.pid() == pid);
    task.expect("the task has not exited").sum_exec_runtime() / MS
}

/// Checks the CPU time of tasks after 20 s. `shares` contains, for each task, its pid and the
/// percentage of the 20 s that it must have used.
fn assert_shares(run: &Run, shares: &[(u32, u64)]) {
    for &(pid, percent) in shares {
        let used = used_ms(run, pid);
        let expected = 20_000 * percent / 100;
        assert!(used.abs_diff(expected) <= 110, "pid {pid}: {used} ms, not {expected}");
    }
}

#[test]
fn the_ext_server_gives_ext_tasks_a_twentieth_beside_a_fair_hog() {
    for (first, second) in [(0, 30 * MS), (30 * MS, 0)] {
        let tasks = Tasks::default()
            .add("ext", hog())
            .with(ext)
            .with(|task| task.start_ns = first)
            .add("normal", hog())
            .with(|task| task.start_ns = second);
        let run = start(1, tasks, &[], 20 * SECOND);
        let (e, n) = if first == 0 { (1, 2) } else { (2, 1) };
        assert_shares(&run, &[(e, 5), (n, 95)]);
    }
}

#[test]
fn both_servers_protect_their_class_from_realtime_hogs() {
    let tasks = || Tasks::default().add("rt", hog()).with(realtime);
    let run = start(1, tasks().add("ext", hog()).with(ext), &[], 20 * SECOND);
    assert_shares(&run, &[(1, 95), (2, 5)]);
    let run = start(
        1,
        tasks().add("ext", hog()).with(ext).add("normal", hog()),
        &[],
        20 * SECOND,
    );
    assert_shares(&run, &[(1, 90), (2, 5), (3, 5)]);
}

#[test]
fn without_partial_mode_the_ext_server_is_the_only_one() {
    let tasks = Tasks::default().add("rt", hog()).with(realtime).add("normal", hog());
    let machine = Machine::new(free(1), tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "local", &[]);
    run.run(20 * SECOND);
    run.assert_alive();
    assert_shares(&run, &[(1, 95), (2, 5)]);
}

#[test]
fn the_ext_server_does_not_run_while_ext_tasks_have_time() {
    let tasks = Tasks::default()
        .add("normal", forever(vec![run_ms(90), sleep_ms(10)]))
        .add("ext", hog())
        .with(ext);
    let run = start(1, tasks, &[], 10 * SECOND);
    // The ext task gets all CPU time that the normal task does not use. The normal task is never
    // delayed.
    assert_eq!((used_ms(&run, 1), used_ms(&run, 2)), (9_000, 1_000));
    assert!(waits(&run.records, 1).iter().all(|&ns| ns == 0));
    assert_eq!(stops(&run.records, 1).len(), 100, "the normal task stops only to sleep");
}

#[test]
fn a_waking_fair_task_preempts_an_ext_task_but_not_the_reverse() {
    let sleeper = || forever(vec![run_ms(1), sleep_ms(6)]);
    let tasks = Tasks::default().add("ext", hog()).with(ext).add("normal", sleeper());
    let run = start(1, tasks, &[], SECOND);
    let fair = waits(&run.records, 2);
    assert!(fair.len() > 100 && fair.iter().all(|&ns| ns == 0), "{fair:?}");

    let tasks = Tasks::default().add("ext", sleeper()).with(ext).add("normal", hog());
    let run = start(1, tasks, &[], 900 * MS);
    // The ext server first gives CPU time to the ext task after 950 ms. Until then the ext task
    // does not run.
    assert_eq!(used_ms(&run, 1), 0);
    assert_eq!(used_ms(&run, 2), 900);
}

#[test]
fn sched_idle_tasks_precede_ext_tasks() {
    let tasks = Tasks::default()
        .add("ext", hog())
        .with(ext)
        .add("idle", hog())
        .with(|task| task.policy = SchedPolicy::Idle);
    assert_shares(&start(1, tasks, &[], 20 * SECOND), &[(1, 5), (2, 95)]);
}

#[test]
fn cpu_release_and_cpu_acquire_come_with_each_fair_task() {
    let tasks = Tasks::default()
        .add("ext", hog())
        .with(ext)
        .add("normal", forever(vec![sleep_ms(8), run_ms(2)]));
    let run = start(1, tasks, &[], 505 * MS);
    // The fair task takes the CPU at the start and after each of its 50 sleeps.
    assert_eq!((run.var("nr_release"), run.var("nr_acquire")), (51, 51));
    assert_eq!((run.var("nr_release_unknown"), run.var("released_to")), (51, 2));
}

#[test]
fn cpu_release_names_realtime_tasks() {
    let rt = forever(vec![sleep_ms(8), run_ms(2)]);
    let tasks = Tasks::default()
        .add("ext", hog())
        .with(ext)
        .add("rt", rt)
        .with(realtime);
    let run = start(1, tasks, &[], 505 * MS);
    assert_eq!((run.var("nr_release"), run.var("nr_acquire")), (51, 51));
    assert_eq!((run.var("nr_release_rt"), run.var("nr_release_unknown")), (51, 0));
}

#[test]
fn waiting_ext_tasks_are_reenqueued_when_a_fair_task_takes_the_cpu() {
    let tasks = Tasks::default()
        .add_many(3, "ext", &hog())
        .with_all(ext)
        .add("normal", forever(vec![sleep_ms(8), run_ms(2)]));
    let run = start(1, tasks, &["REENQ"], 505 * MS);
    assert_eq!(run.var("nr_release"), 51);
    // The task that was running returns to the local DSQ each time. The callback keeps it on its CPU
    // (__bpf_prog_enter), so it counts as a task with migration disabled.
    assert_eq!((run.var("nr_reenqueued"), run.var("nr_came_back")), (53, 2));
    assert_eq!(run.machine.ext().stats.enq_skip_migration_disabled, 51);
}

#[test]
fn a_cpu_with_a_fair_task_is_not_open_for_immed_tasks() {
    let tasks = Tasks::default()
        .add("normal", hog())
        .add("ext", forever(vec![run_ms(1), sleep_ms(5)]))
        .with(ext);
    let run = start(1, tasks, &["IMMED"], 500 * MS);
    assert_eq!(
        run.var("nr_came_back"),
        1,
        "the ext task is re-enqueued once and then waits"
    );
    // The ext task runs while the fair task sleeps, and is re-enqueued when the fair task wakes up.
    let tasks = Tasks::default()
        .add("ext", hog())
        .with(ext)
        .add("normal", forever(vec![sleep_ms(8), run_ms(2)]));
    let run = start(1, tasks, &["IMMED"], 15 * MS);
    assert_eq!(run.var("nr_came_back"), 1);
}

#[test]
fn a_cpu_that_a_fair_task_left_is_open_for_immed_tasks() {
    let tasks = Tasks::default()
        .add("normal", forever(vec![run_ms(3), sleep_ms(3)]))
        .add("ext", hog())
        .with(ext)
        .with(|task| task.start_ns = 4 * MS);
    let run = start(1, tasks, &["IMMED"], 5 * MS);
    assert_eq!((run.var("nr_came_back"), used_ms(&run, 2)), (0, 1));
}

#[test]
fn a_kick_does_not_reschedule_a_cpu_with_a_fair_task() {
    let ipis = |other: SchedPolicy| {
        let tasks = Tasks::default()
            .add("kicked", hog())
            .with(|task| (task.cpus, task.policy) = (Some(vec![0]), other))
            .add("ext", hog())
            .with(ext)
            .with(|task| task.cpus = Some(vec![1]));
        let run = start(2, tasks, &["KICK"], 100 * MS);
        assert!(run.var("nr_kicks") > 50);
        let ipi = |record: &&trace::Record| record.time > 10 * MS && record.event == trace::Event::Ipi { target: 0 };
        run.records.iter().filter(ipi).count()
    };
    assert!(ipis(SchedPolicy::Ext { nice: 0 }) > 50);
    assert_eq!(ipis(SchedPolicy::Normal { nice: 0 }), 0);
}

#[test]
fn a_task_that_changes_its_class_gains_or_loses_the_cpu() {
    let change = |policy| vec![run_ms(5), Op::SetPolicy(policy), run_ms(50)];
    let tasks = Tasks::default()
        .add("normal", hog())
        .with(|task| task.start_ns = MS)
        .add("leaves", change(SchedPolicy::Ext { nice: 0 }));
    let run = start(1, tasks, &[], 900 * MS);
    let leaves = 1;
    assert_eq!(
        used_ms(&run, leaves),
        5,
        "the task runs only until it leaves the fair class"
    );

    let tasks = Tasks::default()
        .add("ext", hog())
        .with(ext)
        .add("enters", change(SchedPolicy::Normal { nice: 0 }))
        .with(ext);
    let run = start(1, tasks, &[], 300 * MS);
    // The task starts at 20 ms, when the slice of the other task ends. After 5 ms it enters the
    // fair class, which has precedence, so it keeps the CPU from then on.
    assert_eq!((starts(&run.records, 2), stop_ns(&run.records, 2)), (vec![20], 75 * MS));
}

#[test]
fn an_ended_policy_leaves_the_fair_server() {
    let tasks = Tasks::default()
        .add("rt", hog())
        .with(realtime)
        .add("normal", hog())
        .add("ext", hog())
        .with(ext);
    let mut run = start(1, tasks, &[], 2 * SECOND);
    run.unload();
    let before = [2, 3].map(|pid| used_ms(&run, pid));
    run.run(22 * SECOND);
    let after = [2, 3].map(|pid| used_ms(&run, pid));
    let share = after.iter().sum::<u64>() - before.iter().sum::<u64>();
    assert!(share.abs_diff(1000) <= 60, "{share} ms of 20 s");
}
