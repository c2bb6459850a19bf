// SPDX-License-Identifier: GPL-2.0-only
//! Tests of loading and unloading a policy and of the order of its callbacks.

use crate::policies::Run;
use crate::support::*;
use kernel::ext::{EnableState, ExitKind};
use kernel::{Machine, class::Class};
use workload::{Dist, Op, SchedPolicy};

/// Returns `n` tasks that alternate between running and sleeping.
fn loopers(n: u32, run: u64, sleep: u64) -> Tasks {
    (0..n).fold(Tasks::default(), |tasks, i| {
        tasks.add(&format!("t{i}"), sleeper(run, sleep))
    })
}

fn hog() -> Vec<Op> {
    forever(vec![Op::Run(Dist::Fixed(MS))])
}

fn machine(cpus: u32, tasks: Tasks) -> Machine {
    Machine::new(costly(cpus), tasks.workload, 1).expect("a machine")
}

fn switches(run: &Run) -> u64 {
    run.machine.rqs().iter().map(|rq| rq.nr_switches).sum()
}

#[test]
fn a_policy_with_only_a_name_schedules_tasks() {
    let mut run = Run::new(machine(4, loopers(10, 200 * US, 100 * US)), "minimal", &[]);
    run.run(200 * MS).assert_alive();
    assert!(switches(&run) > 3500, "{}", switches(&run));
    let idle: u64 = run.machine.rqs().iter().map(|rq| rq.time.idle_ns).sum();
    assert!(
        idle < 200 * MS,
        "10 tasks with a load of 2/3 should keep 4 CPUs busy, but the idle time is {idle} ns"
    );
}

#[test]
fn callbacks_come_in_pairs() {
    let mut run = Run::new(machine(2, loopers(5, 300 * US, 200 * US)), "count", &[]);
    run.run(300 * MS).assert_alive();
    let get = |name: &str| run.var(name);
    let on_cpu = run.machine.tasks().iter().filter(|task| task.on_cpu()).count() as u64;
    assert_eq!(get("nr_running"), get("nr_stopping") + on_cpu);
    let queued = run.machine.tasks().iter().filter(|task| task.on_rq()).count() as u64;
    assert_eq!(get("nr_runnable"), get("nr_quiescent") + queued);
    let idle = run.machine.rqs().iter().filter(|rq| rq.idle()).count() as u64;
    // Both CPUs were idle when the policy was loaded, and their idle time had begun before that. So
    // ops.update_idle() was not called for the beginning of this idle time.
    assert_eq!(get("nr_from_idle"), get("nr_to_idle") + 2 - idle);
    assert!(get("nr_select_cpu") > 1000 && get("nr_enqueue") >= get("nr_select_cpu") && get("nr_tick") > 100);
    assert_eq!(
        (
            get("nr_init"),
            get("nr_init_task"),
            get("nr_enable"),
            get("nr_set_weight")
        ),
        (1, 5, 5, 5)
    );
    assert_eq!(get("nr_init_task_fork"), 5);
    assert_eq!(get("last_weight"), 100);
    run.unload();
    let get = |name: &str| run.var(name);
    assert_eq!(get("nr_running"), get("nr_stopping"));
    assert_eq!(get("nr_runnable"), get("nr_quiescent"));
    assert_eq!(
        (
            get("nr_disable"),
            get("nr_exit_task"),
            get("nr_exit"),
            get("nr_exit_task_cancelled")
        ),
        (5, 5, 1, 0)
    );
    assert_eq!((get("nr_cgroup_init"), get("nr_cgroup_exit")), (1, 1));
    assert_eq!((get("init_order"), get("exit_order")), (1, 2));
    assert_eq!((get("exit_kind"), get("exit_code")), (ExitKind::Unreg as u64, 0));
    assert!(run.machine.tasks().iter().all(|task| task.class == Class::Fair));
    run.run(400 * MS);
    assert_eq!(run.machine.ext().state, EnableState::Disabled);
}

#[test]
fn existing_tasks_are_switched_to_the_policy() {
    let mut machine = machine(2, loopers(6, 300 * US, 100 * US));
    machine.advance(50 * MS, &mut Vec::new());
    assert!(machine.tasks().iter().all(|task| task.class == Class::Fair));
    let mut run = Run::new(machine, "count", &[]);
    assert!(run.machine.tasks().iter().all(|task| task.class == Class::Ext));
    assert_eq!(
        (
            run.var("nr_init_task"),
            run.var("nr_init_task_fork"),
            run.var("nr_enable")
        ),
        (6, 0, 6)
    );
    assert_eq!(run.var("nr_set_cpumask"), 6);
    run.run(100 * MS).assert_alive();
    assert!(run.var("nr_running") > 100);
}

#[test]
fn partial_switch_takes_sched_ext_tasks_only() {
    let tasks = Tasks::default()
        .add("ext", hog())
        .with(|task| task.policy = SchedPolicy::Ext { nice: 0 })
        .add("normal", hog())
        .add("batch", hog())
        .with(|task| task.policy = SchedPolicy::Batch { nice: 0 });
    let mut run = Run::new(machine(4, tasks), "count", &["FLAGS=SCX_OPS_SWITCH_PARTIAL"]);
    run.run(20 * MS).assert_alive();
    let classes: Vec<Class> = run.machine.tasks().iter().map(|task| task.class).collect();
    assert_eq!(classes, [Class::Ext, Class::Fair, Class::Fair]);
    // ops.init_task() is called for all tasks, but ops.enable() only for the task with SCHED_EXT.
    assert_eq!((run.var("nr_init_task"), run.var("nr_enable")), (3, 1));
}

#[test]
fn enable_and_disable_follow_a_tasks_class() {
    let policy = |policy| vec![Op::SetPolicy(policy), run_ms(1)];
    let mut ops = vec![run_ms(1)];
    ops.extend(policy(SchedPolicy::Fifo { rt_priority: 5 }));
    ops.extend(policy(SchedPolicy::Normal { nice: 0 }));
    ops.extend(policy(SchedPolicy::Normal { nice: 10 }));
    let mut run = Run::new(machine(1, Tasks::default().add("t", ops)), "count", &[]);
    run.run(20 * MS);
    let get = |name: &str| run.var(name);
    assert_eq!(
        (
            get("nr_init_task"),
            get("nr_enable"),
            get("nr_disable"),
            get("nr_exit_task")
        ),
        (1, 2, 2, 1)
    );
    // ops.set_weight() is called after each of the two calls of ops.enable(). The third call is for
    // the change of the nice value to 10.
    assert_eq!((get("nr_set_weight"), get("last_weight")), (3, 11));
}

#[test]
fn dead_tasks_are_disabled_and_exited() {
    let child = |tasks: Tasks| tasks.add("child", vec![run_ms(1)]).with(|task| task.spawn = false);
    let fork = Op::Fork { task: 1, thread: false };
    let tasks = child(Tasks::default().add("parent", vec![fork.clone(), fork, Op::WaitChildren, run_ms(500)]));
    let mut run = Run::new(machine(2, tasks), "count", &[]);
    run.run(50 * MS).assert_alive();
    assert_eq!(
        (
            run.var("nr_init_task_fork"),
            run.var("nr_exit_task"),
            run.var("nr_disable")
        ),
        (3, 2, 2)
    );
}

#[test]
fn every_callback_can_end_the_policy() {
    // With EXIT_AT, the policy ends itself in one of its callbacks. The callbacks are numbered in
    // this order: select_cpu, enqueue, dispatch, tick, runnable, running, stopping, quiescent,
    // init_task, enable, init, update_idle, set_weight.
    for at in 1..=13_u64 {
        let tasks = loopers(3, 1500 * US, 2500 * US);
        let mut machine = machine(2, tasks);
        machine.advance(5 * MS, &mut Vec::new());
        let exit = match Run::load(&mut machine, "count", &[&format!("EXIT_AT={at}")]) {
            Err(exit) => *exit,
            Ok(image) => {
                let mut run = Run {
                    machine,
                    image,
                    records: Vec::new(),
                };
                run.run(200 * MS);
                assert_eq!(run.machine.ext().state, EnableState::Disabled, "callback {at}");
                assert_eq!((run.var("nr_exit"), run.var("exit_code")), (1, at));
                assert!(run.machine.tasks().iter().all(|task| task.class == Class::Fair));
                run.exit().clone()
            }
        };
        assert_eq!((exit.kind, exit.code), (ExitKind::UnregBpf, at as i64), "callback {at}");
        assert_eq!(exit.message, format!("ended at {at}"));
        assert_eq!(exit.reason, "unregistered from BPF");
    }
}

#[test]
fn the_only_task_continues_or_is_enqueued_with_enq_last() {
    let alone = |defines: &[&str]| {
        let mut run = Run::new(machine(1, Tasks::default().add("hog", hog())), "count", defines);
        run.run(500 * MS).assert_alive();
        (
            run.var("nr_enq_last"),
            run.machine.ext().stats.dispatch_keep_last,
            run.var("nr_enqueue"),
        )
    };
    let (last, kept, enqueued) = alone(&[]);
    assert!(
        last == 0 && (20..=26).contains(&kept) && enqueued == 1,
        "{last} {kept} {enqueued}"
    );
    let (last, kept, enqueued) = alone(&["FLAGS=SCX_OPS_ENQ_LAST"]);
    assert!(
        (20..=26).contains(&last) && kept == 0 && enqueued == last + 1,
        "{last} {kept} {enqueued}"
    );
}

#[test]
fn slices_end_at_a_tick() {
    let tasks = Tasks::default().add("a", hog()).add("b", hog());
    let mut run = Run::new(machine(1, tasks), "count", &[]);
    run.run(1000 * MS).assert_alive();
    // The two tasks take turns. Their slices of 20 ms are rounded to whole ticks.
    assert!((45..=51).contains(&run.var("nr_running")), "{}", run.var("nr_running"));
    let used: Vec<u64> = run
        .machine
        .tasks()
        .iter()
        .map(|task| task.sum_exec_runtime() / MS)
        .collect();
    assert!(used[0].abs_diff(used[1]) <= 21, "{used:?}");
}

#[test]
fn yield_lets_another_task_run() {
    let yielder = forever(vec![Op::Run(Dist::Fixed(100 * US)), Op::Yield]);
    for policy in ["count", "minimal"] {
        let tasks = Tasks::default().add("a", yielder.clone()).add("b", yielder.clone());
        let mut run = Run::new(machine(1, tasks), policy, &[]);
        run.run(100 * MS).assert_alive();
        assert!(switches(&run) > 800, "{policy}: {}", switches(&run));
    }
}

#[test]
fn affinity_changes_are_passed_to_the_policy() {
    let ops = vec![
        run_ms(2),
        Op::SetAffinity(Some(vec![1])),
        run_ms(2),
        Op::SetAffinity(None),
        run_ms(300),
    ];
    let tasks = Tasks::default().add("mover", ops).add("hog", hog()).add("hog", hog());
    let mut run = Run::new(machine(2, tasks), "count", &[]);
    run.run(100 * MS).assert_alive();
    assert_eq!(run.var("nr_set_cpumask"), 2);
}

#[test]
fn a_realtime_task_takes_the_cpu_and_gives_it_back() {
    let rt = vec![
        Op::Sleep(Dist::Fixed(5 * MS)),
        run_ms(2),
        Op::LoopBack {
            counter: 0,
            times: Some(4),
            target: 0,
        },
    ];
    let tasks = Tasks::default()
        .add("hog", hog())
        .add("rt", rt)
        .with(|task| task.policy = SchedPolicy::Fifo { rt_priority: 10 });
    let mut run = Run::new(machine(1, tasks), "count", &[]);
    run.run(100 * MS).assert_alive();
    assert!(run.var("nr_release") >= 4, "{}", run.var("nr_release"));
    assert_eq!(run.var("nr_acquire"), run.var("nr_release"));
    assert_eq!(run.var("release_reason"), 0);
}

#[test]
fn hotplug_calls_the_policy_or_ends_it() {
    let start = |defines: &[&str]| {
        let mut run = Run::new(machine(4, loopers(8, MS, 300 * US)), "count", defines);
        run.machine.plan_hotplug(30 * MS, 2, false);
        run.machine.plan_hotplug(60 * MS, 2, true);
        run.run(100 * MS);
        run
    };
    let run = start(&["HOTPLUG"]);
    run.assert_alive();
    assert_eq!((run.var("nr_cpu_offline"), run.var("nr_cpu_online")), (1, 1));
    let run = start(&[]);
    let exit = run.exit();
    assert_eq!((exit.kind, exit.code), (ExitKind::UnregKern, 1 << 48 | 1 << 32));
    assert_eq!(exit.message, "cpu 2 going offline, exiting scheduler");
    assert_eq!(run.machine.ext().hotplug_seq, 2);
}

#[test]
fn cgroup_moves_call_the_policy() {
    let mut tasks = Tasks::default().add("mover", vec![run_ms(1), Op::SetCgroup(1), run_ms(100)]);
    let cgroup = |path: &str| workload::Cgroup {
        path: path.into(),
        weight: 100,
    };
    tasks.workload.cgroups = vec![cgroup("/"), cgroup("/a"), cgroup("/a/b")];
    let mut run = Run::new(machine(1, tasks), "count", &[]);
    run.run(10 * MS).assert_alive();
    assert_eq!(
        (
            run.var("nr_cgroup_init"),
            run.var("nr_cgroup_prep_move"),
            run.var("nr_cgroup_move")
        ),
        (3, 1, 1)
    );
    run.unload();
    assert_eq!(run.var("nr_cgroup_exit"), 3);
}

#[test]
fn policies_are_loaded_one_at_a_time() {
    let mut run = Run::new(machine(2, loopers(4, MS, MS)), "count", &[]);
    let exit = Run::load(&mut run.machine, "minimal", &[]).expect_err("another policy is loaded");
    assert_eq!(exit.message, "another scheduler, \"count\", is loaded (-16)");
    run.run(20 * MS).assert_alive();
    for _ in 0..5 {
        run.unload();
        run.image = Run::load(&mut run.machine, "minimal", &[]).expect("no policy is loaded");
        let now = run.machine.now;
        run.run(now + 20 * MS).assert_alive();
    }
    assert_eq!(run.machine.ext().enable_seq, 6);
}

#[test]
fn a_repeated_run_has_the_same_records() {
    let records = || {
        let mut run = Run::new(machine(4, loopers(9, 170 * US, 60 * US)), "count", &[]);
        run.run(100 * MS);
        run.records
    };
    assert!(records() == records());
}
