// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the interfaces between a policy and the simulated kernel: fields of kernel objects,
//! permissions and errors of kfuncs, timers, tracepoints, and programs that user space calls.

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use kernel::load::{LoadError, load};
use profile::{Group, Profile, Run as RunProgram, Setting};
use workload::{Cgroup, Dist, Op, Resource, SchedPolicy};

fn machine(cpus: u32, tasks: Tasks) -> Machine {
    Machine::new(free(cpus), tasks.workload, 1).expect("a machine")
}

#[test]
fn every_field_has_the_kernels_value() {
    let mut tasks = Tasks::default();
    tasks.workload.cgroups = ["/", "/a", "/a/leaf"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    let tasks = tasks.add("watched", sleeper(MS, MS)).with(|task| {
        task.policy = SchedPolicy::Normal { nice: 5 };
        task.cpus = Some(vec![1, 3]);
        task.start_ns = 2 * MS;
        task.cgroup = 2;
    });
    let mut run = Run::new(machine(4, tasks), "fields", &[]);
    run.run(11 * MS + 1);
    run.assert_alive();
    let var = |name: &str| run.var(name);
    for (name, value) in [
        ("pid", 1),
        ("tgid", 1),
        ("flags", 0x40),
        ("comm_0", u64::from(b'd')),
        ("nr_cpus_allowed", 2),
        ("cpus_word", 0b1010),
        ("mask_word", 0b1010),
        ("prio", 125),
        ("static_prio", 125),
        ("normal_prio", 125),
        ("rt_priority", 0),
        ("policy", 0),
        ("load", 335 << 10),
        ("state", 0),
        // rq->curr is updated only after the call of ops.running(), as in the kernel.
        ("on_cpu", 0),
        ("rq_curr_pid", 0),
        ("on_cpu_at_end", 1),
        ("curr_pid_at_end", 1),
        ("on_rq", 1),
        // A task is in the state TASK_WAKING until it is queued.
        ("state_at_wakeup", 0x200),
        ("on_rq_at_wakeup", 0),
        ("exit_state", 0),
        ("stime", 0),
        ("parent_pid", 0),
        ("real_parent_pid", 0),
        ("leader_pid", 1),
        ("has_mm", 1),
        ("migration_disabled", 0),
        ("cgroup_id", 25),
        ("cgroup_level", 2),
        ("name_0", u64::from(b'l')),
        ("css_parent_id", 24),
        ("ancestor_id", 1),
        ("from_id_ok", 1),
        ("nivcsw", 0),
        ("start_time", 2 * MS),
        ("nid", u64::MAX),
        ("mempolicy", 0),
        ("euid", 0),
        ("rq_idle_pid", 0),
        ("per_cpu_ok", 1),
        ("has_cpustat", 0),
        ("policy_of_cpu", 0),
        ("tid", 1),
        ("missing", 0),
        ("version", 0x7020d),
        ("config_hz", 1000),
    ] {
        assert_eq!(var(name), value, "{name}");
    }
    // The task starts to run at 2, 4, 6, 8 and 10 ms. Before the fifth start it has run for 4 ms
    // and slept four times.
    assert_eq!((var("runtime"), var("utime"), var("nvcsw")), (4 * MS, 4 * MS, 4));
    assert_eq!(var("runtime_at_end"), 5 * MS);
    // The task has never waited for a CPU, because its CPU was idle before each start. clock_pelt
    // therefore has the value that was set while the CPU was idle.
    assert_eq!((var("pcount"), var("run_delay")), (4, 0));
    assert_eq!(
        (var("clock_pelt"), var("pelt_ran"), var("lost_idle_time")),
        (10 * MS, MS, 0)
    );
    assert_eq!(
        (var("now_ns"), var("now_rq"), var("rq_clock")),
        (10 * MS, 10 * MS, 10 * MS)
    );
    assert!([1, 3].contains(&var("cpu")) && var("cpu") == var("rq_cpu"));
    // The weight for nice 5 on the scale of cpu.weight, which sched_ext uses.
    assert_eq!(var("weight"), 33);
    assert!(var("slice") > 0);
}

#[test]
fn waiting_for_a_cpu_counts_as_run_delay() {
    let tasks = Tasks::default()
        .add("watched", sleeper(MS, MS))
        .add("other", sleeper(3 * MS, MS));
    let mut run = Run::new(machine(1, tasks), "fields", &[]);
    run.run(50 * MS);
    run.assert_alive();
    // At its first start the task does not wait. Each later time, it waits for the other task,
    // which then uses the CPU for at most 3 ms.
    let (times, delay) = (run.var("pcount"), run.var("run_delay"));
    assert!(
        times > 5 && delay > times * MS && delay <= times * 3 * MS,
        "{times} times, {delay} ns"
    );
}

/// Runs the policy `misuse`. `defines` selects the wrong call that it makes. Returns the error
/// message with which the policy ends.
fn misuse(defines: &[&str]) -> String {
    let mut machine = machine(2, Tasks::default().add("task", sleeper(MS, MS)));
    let defines: Vec<&str> = defines.iter().copied().chain(["WARN"]).collect();
    match Run::load(&mut machine, "misuse", &defines) {
        Err(exit) => exit.message,
        Ok(image) => {
            let mut run = Run {
                machine,
                image,
                records: Vec::new(),
            };
            run.run(20 * MS);
            run.exit().message.clone()
        }
    }
}

#[test]
fn misused_kfuncs_end_the_policy_with_the_kernels_message() {
    let check = |defines: &[&str], expect: &str| {
        let message = misuse(defines);
        assert!(message.contains(expect), "{defines:?}: {message}");
    };
    check(&["CALL=scx_bpf_kick_cpu(77,0)"], "invalid CPU 77");
    check(&["CALL=scx_bpf_test_and_clear_cpu_idle(-1)"], "invalid CPU -1");
    check(
        &["CALL=scx_bpf_cpuperf_set(0,2000)"],
        "Invalid cpuperf target 2000 for CPU 0",
    );
    check(
        &["CALL=scx_bpf_cpuperf_set(!scx_bpf_task_cpu(p),100)"],
        "Invalid target CPU",
    );
    check(
        &["CALL=scx_bpf_pick_idle_cpu_node(p->cpus_ptr,0,0)"],
        "per-node idle tracking is disabled",
    );
    check(
        &["CALL=scx_bpf_pick_idle_cpu(p->cpus_ptr,0)", "FLAGS=64"],
        "per-node idle tracking is enabled",
    );
    check(
        &["CALL=scx_bpf_pick_idle_cpu_node(p->cpus_ptr,3,0)", "FLAGS=64"],
        "invalid node 3",
    );
    check(
        &["CALL=scx_bpf_get_idle_cpumask()", "FLAGS=64"],
        "SCX_OPS_BUILTIN_IDLE_PER_NODE enabled",
    );
    check(
        &["CALL=scx_bpf_pick_idle_cpu(p->cpus_ptr,0)", "IDLE=1"],
        "built-in idle tracking is disabled",
    );
    check(&["CALL=scx_bpf_tid_to_task(1)"], "called without SCX_OPS_TID_TO_TASK");
    check(&["CALL=scx_bpf_dsq_peek(5)"], "peek on non-existent DSQ 0x5");
    check(
        &["CALL=scx_bpf_locked_rq()", "IN_INIT=1"],
        "accessing rq without holding rq lock",
    );
    check(&["CALL=bpf_task_release((void*)64)"], "0x40 is not a task");
    check(
        &["CALL=scx_bpf_error(\"%.3s\",(u64)p->comm)"],
        "format preparation failed (-22)",
    );
    check(
        &["CALL=scx_bpf_error_bstr(\"x\",(void*)8,8)"],
        "failed to read data fields (-14)",
    );
    check(
        &["CALL=scx_bpf_error_bstr(\"x\",NULL,8)"],
        "invalid data=0000000000000000 and data__sz=8",
    );
    check(&["CALL=scx_bpf_error_bstr(\"x\",(void*)8,104)"], "and data__sz=104");
    check(&["CALL=scx_bpf_error_bstr(\"x\",(void*)8,7)"], "and data__sz=7");
    check(
        &["CALL=scx_bpf_dump_bstr(\"x\",NULL,0)"],
        "scx_bpf_dump() must only be called from ops.dump() and friends",
    );
    check(&["CALL=scx_bpf_error(\"at %d of %s\",7,(u64)p->comm)"], "at 7 of task");
    check(
        &["CALL=scx_bpf_task_cgroup(idle_of(0))"],
        "called on a task not being operated on",
    );
    check(&["CALL=scx_bpf_task_set_slice((void*)64,1)"], "0x40 is not a task");
    // These calls are allowed only in some callbacks.
    check(&["CALL=scx_bpf_create_dsq(1,-1)"], "scx_bpf_create_dsq");
    check(
        &["CALL=scx_bpf_dsq_insert(p,SCX_DSQ_GLOBAL,0,0)"],
        "scx_bpf_dsq_insert___v2",
    );
    check(
        &["CALL=scx_bpf_dsq_move_to_local(1)", "IN_INIT=1"],
        "scx_bpf_dsq_move_to_local___v2",
    );
}

#[test]
fn a_dump_reports_text_that_cannot_be_formatted() {
    let mut run = Run::new(
        machine(1, Tasks::default().add("task", sleeper(MS, MS))),
        "misuse",
        &["CALL=scx_bpf_error(\"over\")", "IN_DUMP"],
    );
    run.run(5 * MS);
    let lines: Vec<&str> = run.exit().dump.lines().collect();
    let at = lines
        .iter()
        .position(|line| *line == "seven is 7")
        .expect("the dump has the printed line");
    assert!(lines[at + 1].starts_with("[!] (\"%d and %d"), "{}", lines[at + 1]);
    let refused = |errno: &str| {
        lines
            .iter()
            .any(|line| line.ends_with(&format!("failed to format ({errno})")))
    };
    assert!(refused("-22"), "{lines:#?}");
    assert_eq!(run.exit().message, "over");
}

#[test]
fn timers_fire_at_their_expiry() {
    let mut run = Run::new(machine(2, Tasks::default().add("task", sleeper(MS, MS))), "timer", &[]);
    run.run(10 * MS);
    run.assert_alive();
    assert_eq!(
        (run.var("periodic"), run.var("first_at"), run.var("last_at")),
        (10, MS, 10 * MS)
    );
    assert_eq!((run.var("key_seen"), run.var("timer_cpu")), (0, 0));
    assert_eq!((run.var("absolute_at"), run.var("coarse")), (5_500_000, 5 * MS));
    assert_eq!((run.var("was_pending"), run.var("cancelled")), (1, 0));
    let results = [
        ("own", -35),
        ("own_async", -1),
        ("started_again", -22),
        ("ended", 0),
        ("ended_async", 0),
        ("under_lock", -95),
        ("under_lock_async", 1),
    ];
    for (name, value) in results {
        assert_eq!(run.var(name) as i64, value, "{name}");
    }
    run.unload();
    let fired = run.var("periodic");
    run.run(20 * MS);
    assert_eq!(run.var("periodic"), fired, "an unloaded policy's timers must not fire");
}

const NAMES: [&str; 14] = [
    "",
    "waking",
    "wakeup",
    "wakeup_new",
    "to",
    "from",
    "fork",
    "exec",
    "exit",
    "rename",
    "futex",
    "futexed",
    "socket",
    "on_demand",
];

/// Returns the entries of the log that the policy writes, each as "event pid".
fn log(run: &Run) -> Vec<String> {
    let entry = |i| {
        let event = run.var(&format!("log_what[{i}]"));
        format!("{} {}", NAMES[event as usize], run.var(&format!("log_pid[{i}]")))
    };
    (0..run.var("nr_logged")).map(entry).collect()
}

/// Loads the policy `trace` with a profile. (A profile describes what the policy's user-space part
/// does.) Returns the run and the warnings.
fn traced(tasks: Tasks, profile: &Profile) -> (Run, Vec<String>) {
    let mut machine = machine(2, tasks);
    let bytes = std::fs::read(compile("trace", &[])).unwrap();
    let mut object = Object::parse(&bytes, "trace.bpf.o").unwrap();
    profile
        .apply(
            &mut object,
            profile::Properties::new(machine.spec(), &kernel::release::Release::MODELLED),
        )
        .unwrap();
    let image = load(&mut machine, &object, profile, Engine::default()).unwrap_or_else(|error| panic!("{error}"));
    let warnings = image.warnings.clone();
    (
        Run {
            machine,
            image,
            records: Vec::new(),
        },
        warnings,
    )
}

#[test]
fn tracepoints_and_functions_are_hit_in_the_kernels_order() {
    let exec = vec![
        Op::Run(Dist::Fixed(MS)),
        Op::Exec { comm: "another".into() },
        Op::Sleep(Dist::Fixed(MS)),
    ];
    let (mut run, warnings) = traced(Tasks::default().add("first", exec), &Profile::default());
    assert_eq!(run.var("registered"), 1);
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("on_read") && text.contains("not modelled")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|text| text.contains("no_such_function")),
        "{warnings:?}"
    );
    run.run(20 * MS);
    run.assert_alive();
    let order = [
        "fork 1",
        "wakeup_new 1",
        "to 1",
        "rename 1",
        "exec 1",
        "from 1",
        "waking 1",
        "wakeup 1",
        "to 1",
        "exit 1",
        "from 1",
    ];
    assert_eq!(log(&run), order);
    assert_eq!(
        run.image.get(run.machine.region(), "renamed_to").unwrap(),
        "\"another\""
    );
    assert_eq!((run.var("slept"), run.var("preempted")), (1, 0));
}

#[test]
fn futex_wakes_surround_the_wake_up() {
    let mut tasks = Tasks::default().resources(vec![Resource::Semaphore {
        name: "s".into(),
        value: 0,
    }]);
    tasks = tasks.add("waits", vec![Op::SemWait(0), Op::Run(Dist::Fixed(MS))]);
    tasks = tasks.add(
        "posts",
        vec![Op::Run(Dist::Fixed(MS)), Op::SemPost(0), Op::Run(Dist::Fixed(MS))],
    );
    let (mut run, _) = traced(tasks, &Profile::default());
    run.run(5 * MS);
    let log = log(&run);
    let futex = log
        .iter()
        .position(|entry| entry == "futex 2")
        .expect("the log has a futex wake-up");
    assert_eq!(log[futex..futex + 4], ["futex 2", "waking 1", "wakeup 1", "futexed 2"]);
}

#[test]
fn a_profile_replaces_the_user_space_part() {
    let profile = Profile {
        set: vec![
            Setting::new("cpu_capacity[cpu]", "capacity"),
            Setting::new("smt_enabled", "smt"),
        ],
        ops: vec![("flags".into(), "SCX_OPS_ENQ_EXITING".into())],
        attach: vec!["on_demand".into()],
        run: vec![
            RunProgram {
                program: "enable_primary_cpu".into(),
                each: Some(Group::Cpu),
                args: vec!["cpu".into(), "sibling".into(), "hz:u64".into()],
                ..RunProgram::default()
            },
            RunProgram {
                program: "enable_primary_cpu".into(),
                when: "numa".into(),
                ..RunProgram::default()
            },
        ],
        ..Profile::default()
    };
    let (mut run, _) = traced(Tasks::default().add("task", sleeper(MS, MS)), &profile);
    assert_eq!((run.var("primary"), run.var("sizes[0]")), (0b11, 1000));
    assert_eq!(
        (run.var("siblings[1]"), run.var("capacities[1]")),
        (u64::from(u32::MAX) << 32 | u64::from(u32::MAX), 1024)
    );
    assert_eq!(run.machine.ext().ops().flags, 4);
    run.run(5 * MS);
    assert!(log(&run).contains(&"on_demand 1".to_string()));
    // If a program returns an error, the policy is not loaded.
    let refused = Profile {
        run: vec![RunProgram {
            program: "enable_primary_cpu".into(),
            args: vec!["-1".into(), "0".into(), "0:u64".into()],
            ..RunProgram::default()
        }],
        ..Profile::default()
    };
    let mut machine = machine(2, Tasks::default().add("task", sleeper(MS, MS)));
    let object = Object::parse(&std::fs::read(compile("trace", &["REFUSED"])).unwrap(), "trace.bpf.o").unwrap();
    let error = load(&mut machine, &object, &refused, Engine::default()).expect_err("the policy must be rejected");
    assert!(
        matches!(&error, LoadError::Input(error) if error.to_string().contains("enable_primary_cpu returned -22")),
        "{error}"
    );
}

/// Returns a machine with two nodes. Each node has one LLC with two CPUs.
fn two_nodes() -> machine::MachineSpec {
    let mut spec = free(4);
    for (cpu, info) in spec.topology.cpus.iter_mut().enumerate() {
        (info.llc, info.node, info.package) = (cpu as u32 / 2, cpu as u32 / 2, cpu as u32 / 2);
        info.capacity = if cpu == 1 { 700 } else { 1024 };
    }
    spec.topology = machine::Topology::new(spec.topology.cpus.clone(), Vec::new());
    spec
}

#[test]
fn kfuncs_return_cgroups_tasks_and_cpus() {
    let mut tasks = Tasks::default();
    tasks.workload.cgroups = ["/", "/a", "/a/leaf", "/b"]
        .map(|path| Cgroup {
            path: path.into(),
            weight: 100,
        })
        .into();
    // Task 1 ends early. Tasks 2 and 3 are threads of one process. The tasks after them start one
    // after another.
    tasks = tasks.add("short", vec![Op::Sleep(Dist::Fixed(2 * MS))]);
    tasks = tasks.add("thread", sleeper(MS, MS)).with(|task| task.process = 7);
    tasks = tasks
        .add("thread", sleeper(MS, MS))
        .with(|task| (task.process, task.cgroup) = (7, 3));
    for i in 1..=5 {
        tasks = tasks
            .add("late", sleeper(MS, MS))
            .with(|task| (task.start_ns, task.cgroup) = (10 * i * MS, 2));
    }
    let mut machine = Machine::new(two_nodes(), tasks.workload, 1).expect("a machine");
    machine.advance(MS, &mut Vec::new());
    let mut run = Run::new(machine, "calls", &[]);
    for (name, value) in [
        ("pre", 1_24_25_26),
        ("post", 25_24_26_01),
        ("up", 25_24_01),
        ("children", 25),
        ("bad_order", u64::MAX),
        // One of the four is init_task, which is the idle task of CPU 0.
        ("threads", 4),
        ("thread_pids", 123),
        ("leaders", 3),
        ("leader_pids", 12),
        ("of_process", 2),
        // This iteration visits only the threads that follow the given task in its process.
        ("of_process_rest", 1),
        ("no_task", -22i64 as u64),
        ("no_order", -22i64 as u64),
        ("nodes", 2),
        ("node_of_3", 1),
        ("cap", 700),
        ("cur", 1024),
        ("online", 4),
        ("possible", 4),
        ("cids", 4),
        ("cid_of_2", 2),
        ("topo_llc", 21),
        ("topo_node", 21),
        ("no_pid", 0),
        ("events_beyond", 77),
        ("bypass_activate", 0),
        ("has_stream", 0),
    ] {
        assert_eq!(run.var(name), value, "{name}");
    }
    assert_eq!(run.machine.rq_struct(1).expect("CPU 1").scx.cpuperf_target, 512);
    // The first task has exited, but the policy still holds a reference to its task_struct. No
    // other task may therefore get this task_struct.
    run.run(25 * MS);
    run.assert_alive();
    let held = run.var("held_addr");
    let reused = |run: &Run| {
        run.machine
            .tasks()
            .iter()
            .any(|task| task.pid() >= 4 && task.addr() == held)
    };
    assert_eq!((run.var("held_pid"), run.var("released"), reused(&run)), (1, 0, false));
    run.run(45 * MS);
    run.assert_alive();
    assert_eq!((run.var("released"), reused(&run)), (1, true));
    assert!(run.var("by_tid") >= 2);
    assert!([1, 25, 26].contains(&run.var("task_cgroup")));
}

#[test]
fn idle_tasks_belong_to_no_policy() {
    let mut run = Run::new(
        machine(1, Tasks::default().add("task", sleeper(MS, MS))),
        "idle_task",
        &[],
    );
    run.run(20 * MS);
    run.assert_alive();
    assert!(run.var("nr_tried") > 5);
    for name in ["inserted", "inserted_vtime", "moved", "sliced", "timed"] {
        assert_eq!(run.var(name), 0, "{name}");
    }
    assert_eq!(run.var("not_owned"), 2 * run.var("nr_tried"));
    assert_eq!(run.var("acquired"), run.var("nr_tried"));
}

#[test]
fn a_kernel_thread_with_a_pid_of_its_own_enables_policies() {
    for checked in [false, true] {
        let tasks = Tasks::default().add("task", sleeper(MS, MS));
        let machine = Machine::new(free(1), tasks.workload, sanitizer(checked)).expect("a machine");
        let mut run = Run::new(machine, "enabler", &[]);
        run.run(20 * MS).assert_alive();
        let pid = run.var("pid");
        // The largest pid, which no task of a workload has.
        assert_eq!(pid, (1 << 22) - 1);
        assert_eq!((run.var("tgid"), run.var("own_pid")), (pid, pid));
        assert_eq!(run.var("first_chars"), u64::from_le_bytes(*b"scx_enab"));
        assert!(run.var("nr_found") > 5);
        assert_eq!(run.var("nr_other"), run.var("nr_found"));
    }
}
