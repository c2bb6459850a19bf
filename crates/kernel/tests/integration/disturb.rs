// SPDX-License-Identifier: GPL-2.0-only
//! Tests of disturbances that delay tasks: interrupts, real-time and deadline tasks, and CPUs that
//! a policy slows down.

use crate::policies::Run;
use crate::support::*;
use kernel::Machine;
use machine::MachineSpec;
use trace::Record;
use workload::{Action, Disturbance, SchedPolicy, Workload};

/// Returns a task that needs 10 ms of CPU time on CPU 0.
fn worker() -> Tasks {
    Tasks::default()
        .add("worker", vec![run_ms(10)])
        .with(|task| task.cpus = Some(vec![0]))
}

fn irq(at: u64, cpu: u32, ns: u64, period_ns: u64, count: Option<u64>) -> Disturbance {
    Disturbance {
        at_ns: at,
        action: Action::Irq {
            cpu,
            ns,
            period_ns,
            count,
        },
    }
}

/// Runs the workload for 100 ms without a policy, so that the fair class schedules its tasks.
fn run_fair(spec: MachineSpec, workload: Workload) -> (Machine, Vec<Record>) {
    let mut machine = Machine::new(spec, workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(100 * MS, &mut records);
    (machine, records)
}

#[test]
fn the_tick_waits_for_the_end_of_an_interrupt() {
    let mut spec = free(1);
    spec.hz = 100;
    let mut workload = worker().workload;
    workload.disturbances = vec![irq(9 * MS, 0, 4 * MS, MS, Some(1))];
    spec.costs.tick_ns = MS as u32;
    // The tick is due at 10 ms, while the interrupt is handled. The CPU spends 9 ms on the task's
    // work, 4 ms on the interrupt, 1 ms on the tick, and 1 ms on the rest of the task's work.
    let (machine, records) = run_fair(spec, workload);
    assert_eq!(
        (stop_ns(&records, 1), machine.rqs()[0].time.overhead_ns),
        (15 * MS, 5 * MS)
    );
}

#[test]
fn interrupts_delay_the_running_task() {
    let end = |disturbances: Vec<Disturbance>| {
        let mut workload = worker().workload;
        workload.disturbances = disturbances;
        let (machine, records) = run_fair(free(2), workload.clone());
        let mut run = Run::new(Machine::new(free(2), workload, 1).expect("a machine"), "perf", &[]);
        run.run(100 * MS).assert_alive();
        let end = stop_ns(&records, 1);
        assert_eq!(
            stop_ns(&run.records, 1),
            end,
            "the task must end at the same time under a policy"
        );
        (end, machine.rqs()[0].time.overhead_ns)
    };
    assert_eq!(end(Vec::new()), (10 * MS, 0));
    assert_eq!(end(vec![irq(2 * MS, 0, MS, 2 * MS, Some(3))]), (13 * MS, 3 * MS));
    // Without a count, the interrupts never stop. Ten of them occur before the task ends.
    assert_eq!(end(vec![irq(MS / 2, 0, MS, 2 * MS, None)]).0, 20 * MS);
    assert_eq!(end(vec![irq(2 * MS, 1, MS, 2 * MS, Some(3))]), (10 * MS, 0));
    // An offline CPU receives no interrupts.
    let offline = Disturbance {
        at_ns: MS,
        action: Action::Hotplug { cpu: 1, online: false },
    };
    let mut workload = worker().workload;
    workload.disturbances = vec![offline, irq(2 * MS, 1, MS, 2 * MS, Some(3))];
    let (machine, records) = run_fair(free(2), workload);
    assert_eq!((stop_ns(&records, 1), machine.rqs()[1].time.overhead_ns), (10 * MS, 0));
}

/// Returns a workload with one task and with disturbances, which are given in the workload format.
fn read(disturbances: &str) -> Workload {
    let text = format!(
        r#"{{"tasks": {{"worker": {{"loop": 1, "cpus": [0], "run": 10000}}}}, "disturbances": [{disturbances}]}}"#
    );
    workload::rtapp::read(&text, "disturbed.json").expect("a workload")
}

#[test]
fn realtime_and_deadline_tasks_take_cpus_from_a_policy() {
    let noise = |kind: &str| format!(r#"{{"at": 2000, "{kind}": [0], "length": 1000, "period": 4000, "count": 2}}"#);
    let released = |kind: &str| {
        let machine = Machine::new(free(2), read(&noise(kind)), 1).expect("a machine");
        let mut run = Run::new(machine, "perf", &[]);
        run.run(100 * MS).assert_alive();
        assert_eq!(stop_ns(&run.records, 1), 12 * MS, "{kind}");
        // The disturbing task runs twice. When it starts for the third time, it only exits.
        assert_eq!(starts(&run.records, 2), [2, 6, 10], "{kind}");
        let counts = run
            .image
            .get(run.machine.region(), "nr_released")
            .expect("the policy has this array");
        counts.replace(' ', "")
    };
    assert_eq!(released("fifo"), "{3,0,0}");
    assert_eq!(released("deadline"), "{0,3,0}");
}

#[test]
fn a_deadline_task_preempts_every_realtime_task() {
    let mut workload = read(r#"{"at": 2000, "deadline": [0], "length": 1000, "period": 4000, "count": 2}"#);
    workload.tasks[0].policy = SchedPolicy::Fifo { rt_priority: 99 };
    let (_, records) = run_fair(free(1), workload);
    assert_eq!((starts(&records, 2), stop_ns(&records, 1)), (vec![2, 6, 10], 12 * MS));
    // The worker now has the highest real-time priority. A disturbing task with the same priority
    // has to wait until the worker has finished. It then runs before the worker is dead.
    let mut workload = read(r#"{"at": 2000, "fifo": [0], "priority": 99, "length": 1000, "period": 4000, "count": 2}"#);
    workload.tasks[0].policy = SchedPolicy::Fifo { rt_priority: 99 };
    let (_, records) = run_fair(free(1), workload);
    assert_eq!((starts(&records, 2)[0], stop_ns(&records, 1)), (10, 11 * MS));
}

/// Returns the time in us at which a task ends that needs 10 ms on CPU 0 at full speed. The CPU has
/// the capacity `capacity`, and its lowest performance level is `min`.
fn end_us(capacity: u32, min: u32, defines: &[&str]) -> u64 {
    let mut spec = free(2);
    spec.cpuperf_min = min;
    let mut cpus = spec.topology.cpus.clone();
    cpus[0].capacity = capacity;
    spec.topology = machine::Topology::new(cpus, Vec::new());
    let mut run = Run::new(
        Machine::new(spec, worker().workload, 1).expect("a machine"),
        "perf",
        defines,
    );
    run.run(200 * MS).assert_alive();
    let (level, cap) = (run.var("level"), run.var("cap"));
    assert_eq!(cap, u64::from(capacity));
    assert!((u64::from(min)..=1024).contains(&level), "{level}");
    stop_ns(&run.records, 1) / US
}

#[test]
fn a_cpu_runs_at_the_policys_performance_target() {
    assert_eq!(end_us(1024, 256, &[]), 10_000);
    // The performance level is 1.25 times the target: 1.25 * 512 = 640 of 1024.
    assert_eq!(end_us(1024, 256, &["TARGET=512"]), 16_000);
    assert_eq!(end_us(1024, 256, &["TARGET=820"]), 10_000);
    assert_eq!(end_us(1024, 256, &["TARGET=0"]), 40_000);
    // The lowest performance level is full speed, so the target has no effect.
    assert_eq!(end_us(1024, 1024, &["TARGET=0"]), 10_000);
    // The target is relative to the CPU's own capacity, which is 512 here.
    assert_eq!(end_us(512, 256, &[]), 20_000);
    assert_eq!(end_us(512, 256, &["TARGET=512"]), 32_000);
    // For five ticks of 1 ms, the CPU runs at a quarter of its speed, so 1.25 ms of the work is
    // done. After that it runs at full speed.
    assert_eq!(end_us(1024, 256, &["TARGET=0", "RAISED=1024"]), 5_000 + 8_750);
}

/// Returns the time in us at which the task of [`end_us`] ends on CPUs of full capacity with a
/// frequency governor.
fn governed_end_us(governor: machine::FrequencyGovernor, transition_us: u64, defines: &[&str]) -> u64 {
    let mut spec = free(2);
    spec.cpuperf_min = 256;
    spec.frequency.governor = governor;
    spec.frequency.transition_ns = transition_us * US;
    let machine = Machine::new(spec, worker().workload, 1).expect("a machine");
    let mut run = Run::new(machine, "perf", defines);
    run.run(200 * MS).assert_alive();
    stop_ns(&run.records, 1) / US
}

#[test]
fn a_governor_decides_about_the_policys_performance_target() {
    use machine::FrequencyGovernor::{Performance, Schedutil};
    assert_eq!(governed_end_us(Performance, 0, &["TARGET=512"]), 10_000);
    assert_eq!(governed_end_us(Schedutil, 0, &["TARGET=512"]), 16_000);
    // For 2 ms, the CPU still runs at full speed. The remaining 8 ms of work take 8 * 1024 / 640.
    assert_eq!(governed_end_us(Schedutil, 2000, &["TARGET=512"]), 2000 + 12_800);
    assert_eq!(
        governed_end_us(Schedutil, 0, &["TARGET=0", "RAISED=1024"]),
        5_000 + 8_750
    );
}

#[test]
fn a_cpu_runs_at_full_speed_after_the_policy_is_unloaded() {
    let mut spec = free(1);
    spec.cpuperf_min = 256;
    let mut run = Run::new(
        Machine::new(spec, worker().workload, 1).expect("a machine"),
        "perf",
        &["TARGET=0"],
    );
    run.machine.advance(8 * MS, &mut run.records);
    run.unload();
    run.run(100 * MS);
    assert_eq!(stop_ns(&run.records, 1), 16 * MS);
}

#[test]
fn invalid_performance_targets_end_the_policy() {
    for (define, expect) in [
        ("WRONG_CPU", "Invalid target CPU 1"),
        ("TOO_MUCH", "Invalid cpuperf target 1025 for CPU 0"),
    ] {
        let mut run = Run::new(
            Machine::new(free(2), worker().workload, 1).expect("a machine"),
            "perf",
            &[define],
        );
        run.run(100 * MS);
        assert!(run.exit().message.contains(expect), "{}", run.exit().message);
    }
}
