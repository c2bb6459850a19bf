// SPDX-License-Identifier: GPL-2.0-only
//! Tests of errors of policies. An error ends the policy with the kernel's message. The fair class
//! then schedules the policy's tasks.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use kernel::class::Class;
use kernel::ext::{EnableState, Exit, ExitKind};
use workload::{Dist, Op};

fn machine(cpus: u32, n: u32) -> Machine {
    let ops = forever(vec![Op::Run(Dist::Fixed(700 * US)), Op::Sleep(Dist::Fixed(300 * US))]);
    let tasks = (0..n).fold(Tasks::default(), |tasks, i| tasks.add(&format!("t{i}"), ops.clone()));
    Machine::new(costly(cpus), tasks.workload, 1).expect("a machine")
}

/// Runs a policy that must fail. Checks that the tasks continue to run without it.
fn fails(machine: Machine, name: &str, defines: &[&str]) -> Exit {
    let mut run = Run::new(machine, name, defines);
    run.run(3000 * MS);
    assert_eq!(
        run.machine.ext().state,
        EnableState::Disabled,
        "{name} {defines:?} did not end"
    );
    assert!(run.machine.tasks().iter().all(|task| task.class == Class::Fair));
    let before: u64 = run.machine.tasks().iter().map(|task| task.sum_exec_runtime()).sum();
    run.run(3100 * MS);
    let after: u64 = run.machine.tasks().iter().map(|task| task.sum_exec_runtime()).sum();
    assert!(after > before + 50 * MS, "the tasks continue without the policy");
    run.exit().clone()
}

/// Runs a policy until it ends with a runtime error. Returns the error message.
fn error(name: &str, defines: &[&str]) -> String {
    let exit = fails(machine(2, 5), name, defines);
    assert_eq!(
        (exit.kind, exit.reason),
        (ExitKind::Error, "runtime error"),
        "{}",
        exit.message
    );
    exit.message
}

#[test]
fn invalid_insertions_end_the_policy() {
    assert_eq!(error("direct", &["BOGUS"]), "non-existent DSQ 0xdeadbeef");
    assert_eq!(error("direct", &["ENQ_BOGUS"]), "non-existent DSQ 0xdeadbeef");
    assert_eq!(
        error("direct", &["VTIME_LOCAL"]),
        "cannot use vtime ordering for built-in DSQs"
    );
    assert_eq!(error("direct", &["BAD_CPU"]), "invalid CPU 4000 from ops.select_cpu()");
    assert_eq!(
        error("direct", &["ENQ_LOCAL_ON=77"]),
        "invalid CPU 77 in SCX_DSQ_LOCAL_ON dispatch verdict"
    );
    assert_eq!(error("direct", &["BAD_FLAGS"]), "invalid enq_flags 0x200000000000000");
    let message = error("direct", &["TWICE"]);
    assert!(
        message.starts_with('t') && message.ends_with("] already direct-dispatched"),
        "{message}"
    );
    let message = error("direct", &["OTHER"]);
    assert!(
        message.starts_with("scheduling for t") && message.contains(" but trying to direct-dispatch t"),
        "{message}"
    );
}

#[test]
fn valid_insertions_schedule_tasks() {
    for defines in [["LOCAL"], ["ENQ_LOCAL_ON=1"], ["ENQ_LOCAL_ON=0"]] {
        let mut run = Run::new(machine(2, 5), "direct", &defines);
        run.run(300 * MS).assert_alive();
        let used: u64 = run.machine.tasks().iter().map(|task| task.sum_exec_runtime()).sum();
        assert!(used > 250 * MS, "{defines:?}: {used}");
        let selected = run.var("nr_selected");
        assert!(selected > 100);
        if defines == ["LOCAL"] {
            assert!(
                run.var("nr_enqueued") < selected / 4,
                "a task inserted in ops.select_cpu() is not enqueued again"
            );
        }
    }
}

#[test]
fn one_dsq_has_one_order() {
    let message = error("direct", &["MIXED"]);
    assert!(
        message == "DSQ ID 0x0000000000000000 already had FIFO-enqueued tasks"
            || message == "DSQ ID 0x0000000000000000 already had PRIQ-enqueued tasks",
        "{message}"
    );
}

#[test]
fn a_lost_task_is_found_by_the_watchdog() {
    let exit = fails(machine(2, 3), "direct", &["NO_INSERT"]);
    assert_eq!((exit.kind, exit.reason), (ExitKind::ErrorStall, "runnable task stall"));
    assert!(exit.message.contains("] failed to run for 1."), "{}", exit.message);
    assert!(exit.at_ns >= 1000 * MS && exit.at_ns <= 1502 * MS, "{}", exit.at_ns);
}

#[test]
fn tasks_are_dispatched_only_to_allowed_cpus() {
    // Tasks without affinity may run on any CPU. With STALE, the policy dispatches each task twice.
    // The second time the task no longer waits, so the dispatch has no effect.
    for defines in [["ON=cpu"], ["ON=(u32)p->pid%2"], ["ON=!cpu"], ["STALE"]] {
        let mut run = Run::new(machine(2, 5), "hoard", &defines);
        run.run(300 * MS).assert_alive();
        let used: u64 = run.machine.tasks().iter().map(|task| task.sum_exec_runtime()).sum();
        assert!(used > 200 * MS, "{defines:?}: {used}");
    }
    let mut pinned = Tasks::default();
    for i in 0..3 {
        let ops = forever(vec![run_ms(1), Op::Sleep(Dist::Fixed(MS))]);
        pinned = pinned.add(&format!("t{i}"), ops).with(|task| task.cpus = Some(vec![1]));
    }
    let machine = Machine::new(costly(2), pinned.workload, 1).expect("a machine");
    let exit = fails(machine, "hoard", &["ON=0"]);
    assert!(
        exit.message
            .starts_with("SCX_DSQ_LOCAL[_ON] target CPU 0 not allowed for t"),
        "{}",
        exit.message
    );
}

#[test]
fn dispatch_buffer_overflow_and_underflow_end_the_policy() {
    assert_eq!(error("hoard", &["OVERFLOW"]), "dispatch buffer overflow");
    assert_eq!(error("hoard", &["UNDERFLOW"]), "dispatch buffer underflow");
}

#[test]
fn dequeue_is_called_once_for_each_enqueue() {
    let mut run = Run::new(machine(2, 5), "hoard", &[]);
    run.run(300 * MS).assert_alive();
    let held = run
        .machine
        .tasks()
        .iter()
        .filter(|task| task.on_rq() && !task.on_cpu())
        .count() as u64;
    let (enqueued, dequeued) = (run.var("nr_enqueued"), run.var("nr_dequeued"));
    assert!(
        enqueued > 200 && enqueued.abs_diff(dequeued) <= held,
        "{enqueued} {dequeued}"
    );
    assert_eq!(run.var("nr_dequeued_sleep"), 0, "a task runs before it sleeps");
}

#[test]
fn faults_end_the_policy_with_a_named_error() {
    for (define, expected) in [
        ("WILD", "at a bad address"),
        ("NULL_STORE", "store through a NULL pointer"),
        ("ENDLESS", "more than"),
        ("WRONG_PLACE", "cannot be called from the current operation"),
    ] {
        let message = error("faulty", &[define]);
        assert!(
            message.starts_with("ops.running(): ") && message.contains(expected),
            "{message}"
        );
        assert!(message.contains(" in faulty_running ("), "{message}");
    }
    let exit = fails(machine(2, 5), "faulty", &["ERROR"]);
    assert_eq!((exit.kind, exit.reason), (ExitKind::ErrorBpf, "scx_bpf_error"));
    assert!(
        exit.message.starts_with("task ") && exit.message.ends_with(" is not welcome"),
        "{}",
        exit.message
    );
    assert!(exit.backtrace[0].contains("faulty.bpf.c:"), "{:?}", exit.backtrace);
    assert_eq!(exit.backtrace[1], "ops.running()");
}

#[test]
fn a_policy_that_fails_to_load_leaves_the_machine_usable() {
    let refused = |machine: &mut Machine, name: &str, defines: &[&str]| {
        let exit = Run::load(machine, name, defines).expect_err("the policy must not load");
        assert_eq!(machine.ext().state, EnableState::Disabled);
        exit.message
    };
    let mut fresh = machine(2, 3);
    assert_eq!(
        refused(&mut fresh, "faulty", &["INIT_FAILS"]),
        "ops.init() failed (-22)"
    );
    assert_eq!(
        refused(&mut fresh, "faulty", &["INIT_NONSENSE"]),
        "ops.init() returned an invalid errno 77"
    );
    fresh.advance(10 * MS, &mut Vec::new());
    assert_eq!(
        refused(&mut fresh, "faulty", &["TASK_FAILS"]),
        "ops.init_task() failed (-12) for t0[1]"
    );
    assert_eq!(
        refused(&mut fresh, "count", &["FLAGS=SCX_OPS_BAD", "SCX_OPS_BAD=(1ULL<<40)"]),
        "ops.flags has bits 0x10000000000 that Linux 7.2 does not know (-22)"
    );
    assert_eq!(
        refused(&mut fresh, "count", &["TIMEOUT_MS=30001"]),
        "ops.timeout_ms 30001 is more than 30000 (-7)"
    );
    // After these failures, a policy can still be loaded into the same machine.
    let mut run = Run::new(fresh, "count", &[]);
    run.run(50 * MS).assert_alive();
}

#[test]
fn dsqs_are_created_once_and_destroyed_when_empty() {
    let mut run = Run::new(machine(2, 5), "faulty", &["CREATE_TWICE"]);
    run.run(20 * MS).assert_alive();
    assert_eq!(run.var("second_create") as i64, -17);
    let message = error("faulty", &["DESTROY"]);
    assert_eq!(message, "attempting to destroy in-use dsq 0x0000000000000001 (nr=2)");
}

#[test]
fn disallow_can_be_set_only_while_enabling() {
    // A policy can store any byte. As in C, every value except 0 is true.
    for value in ["DISALLOW=1", "DISALLOW=2", "DISALLOW=255"] {
        let message = error("faulty", &[value]);
        assert_eq!(message, "ops.init_task() set task->scx.disallow for t0[1] during fork");
    }
}

#[test]
fn the_dump_describes_the_machine() {
    let mut run = Run::new(machine(2, 5), "count", &["LOSE", "TIMEOUT_MS=500"]);
    run.run(2000 * MS);
    let exit = run.exit();
    assert_eq!(exit.kind, ExitKind::ErrorStall);
    for part in [
        "count: root\n",
        "triggered exit kind 1026 on CPU ",
        "  runnable task stall (t",
        "\ncounting\n",
        "\nCPU states\n----------\n",
        "\nCPU 0   : nr_run=",
        "          curr=swapper/0[0] class=idle_sched_class\n",
        "  busy\n",
        " *root -750ms",
        "      scx_state/flags=4/0x",
        "ops_state/qseq=2/1\n",
        "      sticky/holding_cpu=-1/-1 dsq_id=(n/a)\n",
        " weight=100\n      cpus=3 no_mig=0\n",
        "\nEvent counters\n--------------\n",
        "              SCX_EV_SELECT_CPU_FALLBACK:                0\n",
    ] {
        assert!(exit.dump.contains(part), "no {part:?} in:\n{}", exit.dump);
    }
    assert_eq!(run.var("nr_dump"), 1);
    assert!(run.var("nr_dump_task") == 5 && run.var("nr_dump_cpu") == 2);
}

#[test]
fn the_dump_prints_the_cpus_that_a_task_without_migration_can_use() {
    let stays = vec![Op::MigrateDisable, sleep_ms(1), run_ms(5000)];
    let tasks = Tasks::default()
        .add("lost", sleeper(700 * US, 300 * US))
        .add("stays", stays);
    let tasks = tasks.with(|task| task.start_cpu = Some(1));
    let mut machine = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    // The task disables migration and is switched out before the policy is loaded.
    machine.advance(2 * MS, &mut Vec::new());
    let mut run = Run::new(machine, "count", &["LOSE", "TIMEOUT_MS=500"]);
    run.run(2000 * MS);
    let dump = &run.exit().dump;
    let cpus = |name: &str| {
        let task = &dump[dump.find(name).unwrap_or_else(|| panic!("no {name} in {dump}"))..];
        task.lines().find(|line| line.contains("cpus=")).map(str::trim)
    };
    assert_eq!(cpus("R lost"), Some("cpus=3 no_mig=0"), "{dump}");
    assert_eq!(cpus("R stays"), Some("cpus=2 no_mig=1"), "{dump}");
}

#[test]
fn invalid_kicks_end_the_policy() {
    assert_eq!(
        error("kick", &["BOTH"]),
        "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE"
    );
    assert_eq!(error("kick", &["BAD"]), "invalid CPU -3");
}

#[test]
fn a_preempting_kick_ends_an_infinite_slice() {
    let hog = forever(vec![run_ms(1)]);
    let waker = forever(vec![run_ms(1), Op::Sleep(Dist::Fixed(9 * MS))]);
    let load = |defines: &[&str]| {
        let tasks = Tasks::default().add("hog", hog.clone()).add("waker", waker.clone());
        let machine = Machine::new(costly(1), tasks.workload, 1).expect("a machine");
        let mut run = Run::new(machine, "kick", defines);
        run.run(200 * MS);
        run
    };
    let run = load(&["PREEMPT"]);
    run.assert_alive();
    assert!(
        run.machine.tasks()[1].sum_exec_runtime() > 15 * MS,
        "{}",
        run.machine.tasks()[1].sum_exec_runtime()
    );
    let run = load(&[]);
    assert!(
        run.machine.tasks()[1].sum_exec_runtime() <= 2 * MS,
        "{}",
        run.machine.tasks()[1].sum_exec_runtime()
    );
}

#[test]
fn cpus_that_wait_for_each_other_do_not_deadlock() {
    let mut run = Run::new(machine(4, 12), "kick", &["CYCLE"]);
    run.run(300 * MS).assert_alive();
    assert!(run.var("nr_kicks") > 500, "{}", run.var("nr_kicks"));
    let used: u64 = run.machine.tasks().iter().map(|task| task.sum_exec_runtime()).sum();
    assert!(used > 400 * MS, "{used}");
}

#[test]
fn tasks_can_be_iterated_and_moved_from_dsqs() {
    let mut run = Run::new(machine(2, 8), "queues", &[]);
    run.run(300 * MS).assert_alive();
    assert!(
        run.var("nr_moved") > 100 && run.var("max_queued") >= 4,
        "{}",
        run.var("nr_moved")
    );
    assert_eq!(
        (
            run.var("nr_wrong_order"),
            run.var("nr_wrong_peek"),
            run.var("nr_wrong_count")
        ),
        (0, 0, 0)
    );
    assert_eq!(
        error("queues", &["PEEK_BUILTIN"]),
        "peek disallowed on builtin DSQ 0x8000000000000002"
    );
    assert_eq!(error("queues", &["PEEK_GONE"]), "peek on non-existent DSQ 0x63");
}
