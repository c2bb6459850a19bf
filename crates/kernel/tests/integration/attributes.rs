// SPDX-License-Identifier: GPL-2.0-only
//! Tests of rare properties of tasks: processes, parents, users, kernel threads, sections in which
//! a task cannot migrate, and timer slack.

use crate::policies::Run;
use crate::support::*;
use bpf::engine::Engine;
use kernel::Machine;
use trace::{Event, Record};
use workload::{Op, SchedPolicy, Workload};

const SECOND: u64 = 1_000 * MS;

/// PF_KTHREAD.
const KTHREAD: u64 = 0x20_0000;

fn read(tasks: &str) -> Workload {
    workload::rtapp::read(&format!("{{ \"tasks\" : {{ {tasks} }} }}"), "file.json").expect("the workload is valid")
}

/// Runs tasks for 5 ms. The policy `fields` reads the task_struct of the task "watched".
fn fields(tasks: &str) -> Run {
    let machine = Machine::new(free(2), read(tasks), 1).expect("a machine");
    let mut run = Run::new(machine, "fields", &[]);
    run.run(5 * MS);
    run.assert_alive();
    run
}

const MAIN: &str = r#""main" : { "uid" : 1000, "slack" : 30, "loop" : -1, "run" : 100, "sleep" : 900 }"#;

/// Runs the task "watched" with these keys after the task "main", which has pid 1.
fn watched(keys: &str) -> Run {
    fields(&format!(
        r#"{MAIN}, "watched" : {{ {keys} "loop" : -1, "run" : 100, "sleep" : 900 }}"#
    ))
}

fn vars<const N: usize>(run: &Run, names: [&str; N]) -> [u64; N] {
    names.map(|name| run.var(name))
}

#[test]
fn tasks_are_threads_of_the_process_that_they_name() {
    let ids = ["pid", "tgid", "leader_pid"];
    assert_eq!(vars(&watched(""), ids), [2, 1, 1]);
    assert_eq!(vars(&watched(r#""process" : "other","#), ids), [2, 2, 2]);
    let run = fields(&format!(
        r#"{MAIN}, "first" : {{ "process" : "other", "loop" : -1, "sleep" : 1000 }},
           "watched" : {{ "process" : "other", "loop" : -1, "run" : 100, "sleep" : 900 }}"#
    ));
    assert_eq!(vars(&run, ids), [3, 2, 2]);
}

#[test]
fn a_task_inherits_from_the_parent_that_it_names() {
    let names = ["real_parent_pid", "parent_pid", "uid", "euid", "timer_slack_ns"];
    assert_eq!(vars(&watched(""), names), [0, 0, 0, 0, 0]);
    assert_eq!(
        vars(&watched(r#""parent" : "main","#), names),
        [1, 1, 1000, 1000, 30_000]
    );
    assert_eq!(
        vars(&watched(r#""parent" : "main", "uid" : 7, "slack" : 5,"#), names),
        [1, 1, 7, 7, 5000]
    );
    assert_eq!(vars(&watched(r#""uid" : 4294967294,"#), ["uid"]), [4_294_967_294]);
    // If the parent exits, the kernel becomes the parent.
    let run = fields(
        r#""main" : { "loop" : 1, "run" : 100 },
           "watched" : { "parent" : "main", "loop" : -1, "run" : 300, "sleep" : 900 }"#,
    );
    assert_eq!(run.var("real_parent_pid"), 0);
}

#[test]
fn forked_tasks_inherit_from_the_forking_task() {
    let run = fields(
        r#""main" : { "uid" : 1000, "slack" : 30, "loop" : 1, "fork" : "watched", "run" : 10000 },
           "watched" : { "instance" : 0, "loop" : -1, "run" : 100, "sleep" : 900 }"#,
    );
    assert_eq!(
        vars(&run, ["real_parent_pid", "uid", "timer_slack_ns", "tgid"]),
        [0, 1000, 30_000, 1]
    );
    // ops.init_task() is called before the new task has its own parent.
    assert_eq!(run.var("parent_pid_at_fork"), 0);
}

#[test]
fn kernel_threads_have_no_address_space_and_belong_to_the_workload() {
    let kthread = watched(r#""kthread" : true,"#);
    assert_eq!(vars(&kthread, ["tgid", "has_mm"]), [2, 0]);
    assert_eq!(kthread.var("flags") & KTHREAD, KTHREAD);
    let thread = watched("");
    assert_eq!((thread.var("has_mm"), thread.var("flags") & KTHREAD), (1, 0));
    // The run ends when all tasks have exited, kernel threads included.
    let one = r#""watched" : { "kthread" : true, "loop" : 1, "run" : 1000 }"#;
    let mut machine = Machine::new(free(1), read(one), 1).expect("a machine");
    let mut records = Vec::new();
    assert_eq!(machine.run(SECOND, &mut records), kernel::Ended::AllExited);
    let parents = records.iter().filter_map(|record| match record.event {
        Event::TaskNew { parent, .. } => Some(parent),
        _ => None,
    });
    assert_eq!(
        parents.collect::<Vec<_>>(),
        [0],
        "only background work has another parent"
    );
}

/// A task that cannot migrate from its start until 5 ms.
const STAYS: &str = r#""watched" : { "loop" : 1,
    "migrate_disable0" : "", "migrate_disable1" : "", "run0" : 1000, "sleep0" : 1000, "run1" : 1000,
    "migrate_enable0" : "", "sleep1" : 1000, "run2" : 1000, "migrate_enable1" : "", "sleep2" : 1000, "run3" : 1000 }"#;

#[test]
fn a_policy_sees_that_a_task_cannot_migrate() {
    let names = ["migration_disabled", "nr_cpus_allowed", "mask_word", "cpus_word"];
    let run = |until: u64| {
        let machine = Machine::new(free(2), read(STAYS), 1).expect("a machine");
        let mut run = Run::new(machine, "fields", &[]);
        run.run(until);
        run.assert_alive();
        run
    };
    // The mask changes when the task is switched out for the first time.
    assert_eq!(vars(&run(MS / 2), names), [0, 2, 0b11, 0b11]);
    assert_eq!(vars(&run(5 * MS / 2), names), [2, 2, 0b11, 0b01]);
    assert_eq!(vars(&run(5 * MS / 2), ["mask_in_callback"]), [0b01]);
    assert_eq!(vars(&run(9 * MS / 2), names), [1, 2, 0b11, 0b01]);
    assert_eq!(vars(&run(13 * MS / 2), names), [0, 2, 0b11, 0b11]);
    assert_eq!(vars(&run(13 * MS / 2), ["mask_in_callback"]), [0b11]);
}

#[test]
fn a_callback_keeps_the_current_task_on_its_cpu() {
    let machine = Machine::new(free(2), read(STAYS), 1).expect("a machine");
    let mut run = Run::new(machine, "fields", &[]);
    for (until, expected) in [(5 * MS / 2, [3, 1]), (9 * MS / 2, [2, 1]), (13 * MS / 2, [1, 0])] {
        run.run(until);
        run.assert_alive();
        assert_eq!(vars(&run, ["disabled_at_end", "must_stay_at_end"]), expected);
    }
}

#[test]
fn the_sanitizer_accepts_the_mask_of_a_task_that_cannot_migrate() {
    let names = ["migration_disabled", "cpus_weight", "may_run_here"];
    let run = |checked: bool, engine: Engine, until: u64| {
        let machine = Machine::new(free(2), read(STAYS), sanitizer(checked)).expect("a machine");
        let mut run = Run::with_engine(machine, "fields", &[], engine);
        run.run(until);
        run.assert_alive();
        (vars(&run, names), run.records)
    };
    for engine in [Engine::Jit, Engine::Interpreter] {
        assert_eq!(run(true, engine, MS / 2).0, [0, 2, 1]);
        assert_eq!(run(true, engine, 5 * MS / 2).0, [2, 1, 1]);
        assert_eq!(run(true, engine, 13 * MS / 2).0, [0, 2, 1]);
        assert_eq!(run(true, engine, 10 * MS).1, run(false, engine, 10 * MS).1);
    }
}

fn run_fair(tasks: Tasks, until: u64) -> (Machine, Vec<Record>) {
    let mut machine = Machine::new(free(2), tasks.workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(until, &mut records);
    (machine, records)
}

/// Returns the CPUs on which a task ran, in order.
fn cpus(records: &[Record], pid: u32) -> Vec<u32> {
    let mut cpus: Vec<u32> = Vec::new();
    for record in records {
        if matches!(record.event, Event::Switch { next, .. } if next == pid) {
            cpus.push(record.cpu);
        }
    }
    cpus.dedup();
    cpus
}

#[test]
fn load_balancing_does_not_move_a_task_that_cannot_migrate() {
    let both = |disable: bool| {
        let mut ops = vec![run_ms(100)];
        if disable {
            ops.insert(0, Op::MigrateDisable);
        }
        let tasks = Tasks::default()
            .add("pinned", vec![run_ms(100)])
            .with(|task| task.cpus = Some(vec![0]))
            .add("other", ops)
            .with(|task| task.start_cpu = Some(0));
        cpus(&run_fair(tasks, 100 * MS).1, 2)
    };
    assert_eq!(both(false), [0, 1]);
    assert_eq!(both(true), [0]);
}

#[test]
fn a_change_of_affinity_waits_until_the_task_can_migrate() {
    let tasks = Tasks::default().add(
        "task",
        vec![
            Op::MigrateDisable,
            Op::SetAffinity(Some(vec![1])),
            run_ms(3),
            Op::Sleep(workload::Dist::Fixed(MS)),
            run_ms(2),
            Op::MigrateEnable,
            run_ms(5),
        ],
    );
    let tasks = tasks.with(|task| task.start_cpu = Some(0));
    let (machine, records) = run_fair(tasks, SECOND);
    assert_eq!(cpus(&records, 1), [0, 1]);
    assert_eq!(
        (machine.rqs()[0].time.tasks_ns, machine.rqs()[1].time.tasks_ns),
        (5 * MS, 5 * MS)
    );
}

/// Returns the times in us at which the sleeper of a workload wakes up.
fn wakeups(slack_us: u64, hog: bool, policy: SchedPolicy) -> Vec<u64> {
    let sleeper = vec![
        Op::Run(workload::Dist::Fixed(100 * US)),
        Op::Sleep(workload::Dist::Fixed(MS)),
    ];
    let mut tasks = Tasks::default().add("sleeper", sleeper).with(|task| {
        task.cpus = Some(vec![0]);
        task.policy = policy;
        task.attributes.timer_slack_ns = Some(slack_us * US);
    });
    if hog {
        tasks = tasks.add("hog", vec![run_ms(20)]).with(|task| {
            task.cpus = Some(vec![0]);
            task.policy = SchedPolicy::Idle;
        });
    }
    let (_, records) = run_fair(tasks, 20 * MS);
    let waking = |record: &Record| matches!(record.event, Event::Waking { pid: 1, .. }).then_some(record.time / US);
    records.iter().filter_map(waking).collect()
}

#[test]
fn a_sleep_ends_within_the_timer_slack() {
    let normal = SchedPolicy::Normal { nice: 0 };
    assert_eq!(wakeups(0, false, normal), [1100]);
    // No other timer interrupts the idle CPU.
    assert_eq!(wakeups(300, false, normal), [1400]);
    // The CPU has a tick at 2 ms. It wakes the task, because its sleep may end between 1.1 and
    // 2.05 ms.
    assert_eq!(wakeups(950, true, normal), [2000]);
    assert_eq!(wakeups(300, true, normal), [1400]);
    // The timers of real-time tasks have no slack.
    assert_eq!(wakeups(300, false, SchedPolicy::Fifo { rt_priority: 1 }), [1100]);
}

#[test]
fn one_interrupt_wakes_all_sleepers_whose_slack_allows_it() {
    let sleeper = |us: u64| {
        vec![
            Op::Sleep(workload::Dist::Fixed(us * US)),
            Op::Run(workload::Dist::Fixed(US)),
        ]
    };
    let tasks = Tasks::default()
        .add("a", sleeper(1000))
        .with(|task| task.attributes.timer_slack_ns = Some(500 * US))
        .add("b", sleeper(1200))
        .with(|task| task.attributes.timer_slack_ns = Some(50 * US))
        .add("c", sleeper(1260))
        .with(|task| task.attributes.timer_slack_ns = Some(500 * US));
    let mut workload = tasks.workload;
    workload.tasks.iter_mut().for_each(|task| task.cpus = Some(vec![0]));
    let mut machine = Machine::new(free(1), workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(SECOND, &mut records);
    let waking = |record: &Record| match record.event {
        Event::Waking { pid, .. } => Some((pid, record.time / US)),
        _ => None,
    };
    let mut woken: Vec<(u32, u64)> = records.iter().filter_map(waking).collect();
    woken.sort_unstable();
    assert_eq!(woken, [(1, 1250), (2, 1250), (3, 1760)]);
}

#[test]
fn a_policy_sees_waits_for_io_and_the_dsq_of_a_task() {
    let text = r#""one" : { "loop" : 2, "run" : 1000, "iorun" : 4096, "sleep" : 3000 },
        "two" : { "loop" : 1, "run" : 1000 }, "three" : { "loop" : 1, "run" : 1000 }"#;
    for engine in [Engine::Jit, Engine::Interpreter] {
        let machine = Machine::new(free(1), read(text), sanitizer(true)).expect("a machine");
        let mut run = Run::with_engine(machine, "seldom", &[], engine);
        run.run(40 * MS);
        run.assert_alive();
        // The task "one" completes an I/O twice. It also starts and sleeps.
        let [after_io, other] = vars(&run, ["nr_after_io", "nr_other"]);
        assert_eq!(after_io, 2, "{other}");
        assert!(other >= 3, "{other}");
        assert_eq!(vars(&run, ["faults", "queued_before", "wrong_id"]), [0; 3]);
        // The first task starts at once, so at most two are on the queue.
        let [peeked, longest, on_queue_at_start] = vars(&run, ["peeked", "longest", "on_queue_at_start"]);
        assert_eq!((peeked, longest, on_queue_at_start), (after_io + other, 2, 0));
    }
}
