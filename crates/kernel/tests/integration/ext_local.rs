// SPDX-License-Identifier: GPL-2.0-only
//! Tests of local DSQs (preemption, SCX_ENQ_IMMED and re-enqueueing), and of bypass mode.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use kernel::ext::{self, EnableState};
use workload::{Op, SchedPolicy};

fn hog() -> Vec<Op> {
    forever(vec![run_ms(1)])
}

fn waker() -> Vec<Op> {
    forever(vec![run_ms(1), sleep_ms(9)])
}

/// Loads the policy `local` and returns its run after 300 ms.
fn start(cpus: u32, tasks: Tasks, defines: &[&str]) -> Run {
    let machine = Machine::new(costly(cpus), tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "local", defines);
    run.run(300 * MS);
    run
}

#[test]
fn a_preempting_insertion_takes_the_cpu_immediately() {
    let tasks = || Tasks::default().add("hog", hog()).add("waker", waker());
    let waiting = start(1, tasks(), &[]);
    let preempting = start(1, tasks(), &["PREEMPT"]);
    waiting.assert_alive();
    preempting.assert_alive();
    assert!(
        waits(&waiting.records, 2).iter().any(|&ns| ns > 5 * MS),
        "{:?}",
        waits(&waiting.records, 2)
    );
    let waits = waits(&preempting.records, 2);
    assert!(waits.len() > 20 && waits.iter().all(|&ns| ns < 100 * US), "{waits:?}");
}

#[test]
fn an_immed_task_that_cannot_run_is_enqueued_again() {
    let tasks = (0..6).fold(Tasks::default(), |tasks, i| tasks.add(&format!("t{i}"), waker()));
    let run = start(2, tasks.add("hog", hog()).add("hog", hog()), &["IMMED"]);
    run.assert_alive();
    let stats = run.machine.ext().stats;
    assert!(run.var("nr_came_back") > 50 && stats.reenq_immed > 50, "{stats:?}");
    assert!(
        run.var("max_waiting") <= 1,
        "tasks wait on a local DSQ: {}",
        run.var("max_waiting")
    );
}

#[test]
fn waiting_tasks_are_reenqueued_when_the_cpu_is_taken() {
    let rt = forever(vec![sleep_ms(5), run_ms(2)]);
    let tasks = Tasks::default()
        .add("a", hog())
        .add("b", hog())
        .add("c", hog())
        .add("rt", rt)
        .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 1 });
    let run = start(1, tasks, &["RELEASE"]);
    run.assert_alive();
    let (released, reenqueued) = (run.var("nr_released"), run.var("nr_reenqueued"));
    assert!(released > 30 && reenqueued > 30, "{released} {reenqueued}");
    // Each time, the task that was running returns to the local DSQ without ops.enqueue().
    assert_eq!(run.var("nr_came_back"), 2);
    assert_eq!(
        run.machine.ext().stats.enq_skip_migration_disabled,
        reenqueued as i64 - 2
    );
}

#[test]
fn requested_reenqueueing_happens_after_the_callback() {
    let tasks = Tasks::default().add("a", hog()).add("b", hog()).add("c", hog());
    let run = start(1, tasks, &["REENQ"]);
    run.assert_alive();
    assert!(run.var("nr_came_back") >= 2, "{}", run.var("nr_came_back"));
}

/// When a policy is about to end, its tasks run in bypass mode until the fair class takes over. In
/// bypass mode the tasks take turns with short slices, and the policy is not called.
#[test]
fn an_ending_policy_is_bypassed() {
    let tasks = Tasks::default().add("a", hog()).add("b", hog()).add("c", hog());
    let mut run = start(1, tasks, &[]);
    ext::sysrq_reset(&mut run.machine);
    let now = run.machine.now;
    run.run(now + MS);
    assert_eq!(run.machine.ext().state, EnableState::Disabling);
    assert!(
        run.machine.ext().stats.bypass_dispatch >= 2,
        "the waiting tasks were queued again"
    );
    run.run(now + 20 * MS);
    assert_eq!(run.machine.ext().state, EnableState::Disabled);
    assert_eq!(run.exit().reason, "disabled by sysrq-S");
    assert!(run.machine.ext().stats.bypass_duration >= 4 * MS as i64);
}
