// SPDX-License-Identifier: GPL-2.0-only
//! Background work of the kernel: kernel threads and interrupts that belong to no workload.

use crate::policies::Run;
use crate::support::*;
use kernel::{Ended, Machine};
use machine::noise::{ACTIVITIES, Scope};
use machine::{MachineSpec, Noise};
use trace::{Event, KTHREADD, Record};
use workload::{Action, Disturbance, Op, Resource};

const PF_KTHREAD: u32 = 0x0020_0000;
const SECOND: u64 = 1_000 * MS;

/// Returns a machine with background work.
fn noisy(spec: MachineSpec, noise: Noise) -> MachineSpec {
    MachineSpec {
        noise: Some(noise),
        ..spec
    }
}

/// Returns a task that sleeps most of the time.
fn idler() -> Tasks {
    Tasks::default().add("idler", sleeper(MS, SECOND))
}

fn run_noisy(spec: MachineSpec, tasks: Tasks, seed: u64, until: u64) -> (Machine, Vec<Record>, Ended) {
    let mut machine = Machine::new(spec, tasks.workload, seed).expect("a machine");
    let mut records = Vec::new();
    let ended = machine.run(until, &mut records);
    (machine, records, ended)
}

/// Returns the CPU time of all kernel threads in ns.
fn kthread_ns(machine: &Machine) -> u64 {
    let kthreads = machine.tasks().iter().filter(|task| task.flags() & PF_KTHREAD != 0);
    kthreads.map(|task| task.sum_exec_runtime()).sum()
}

/// Returns the expected time in ns that tasks or interrupts of the background work take in a
/// second.
fn expected_ns(noise: Noise, interrupts: bool, cpus: u64) -> u64 {
    let activities = ACTIVITIES.iter().filter(|activity| activity.interrupt == interrupts);
    let per_second = |activity: &machine::noise::Activity| {
        let interval = activity.interval_ns(noise, cpus)?;
        let copies = if activity.scope == Scope::Cpu { cpus } else { 1 };
        Some(copies * u64::from(activity.mean_ns) * SECOND / interval)
    };
    activities.filter_map(per_second).sum()
}

#[test]
fn background_work_takes_the_stated_share_of_the_cpus() {
    for (_, noise) in Noise::NAMES {
        let seconds = 100;
        let (machine, _, ended) = run_noisy(noisy(free(4), noise), idler(), 1, seconds * SECOND);
        assert_eq!(ended, Ended::Time);
        let interrupts = machine.rqs().iter().map(|rq| rq.time.overhead_ns).sum::<u64>();
        for (name, found, expected) in [
            ("tasks", kthread_ns(&machine), expected_ns(noise, false, 4)),
            ("interrupts", interrupts, expected_ns(noise, true, 4)),
        ] {
            let found = found / seconds;
            assert!(
                found.abs_diff(expected) * 5 < expected,
                "{noise:?}: {name} take {found} instead of {expected} ns in a second"
            );
        }
    }
}

#[test]
fn without_the_key_there_is_no_background_work() {
    let (machine, records, _) = run_noisy(free(4), idler(), 1, SECOND);
    assert_eq!(machine.tasks().len(), 1);
    let is_kthread = |r: &Record| matches!(r.event, Event::TaskNew { parent: KTHREADD, .. });
    assert!(!records.iter().any(is_kthread));
}

#[test]
fn the_seed_determines_the_background_work() {
    let records = |seed| run_noisy(noisy(costly(4), Noise::Server), idler(), seed, SECOND).1;
    assert_eq!(records(1), records(1));
    assert_ne!(records(1), records(2));
}

/// Returns the times at which the first kernel thread with a name is woken.
fn wakes(machine: &Machine, records: &[Record], comm: &str) -> Vec<u64> {
    let task = machine
        .tasks()
        .iter()
        .find(|task| task.comm() == comm)
        .expect("the task exists");
    let wake = |r: &&Record| matches!(r.event, Event::Wakeup { pid, .. } if pid == task.pid());
    records.iter().filter(wake).skip(1).map(|r| r.time).collect()
}

#[test]
fn the_workload_does_not_change_the_times_of_the_background_work() {
    let hogs = Tasks::default().add_many(1, "hog", &forever(vec![run_ms(1)]));
    let spec = noisy(free(4), Noise::Server);
    let (idle, idle_records, _) = run_noisy(spec.clone(), idler(), 1, SECOND);
    let (busy, busy_records, _) = run_noisy(spec, hogs, 1, SECOND);
    for comm in ["rcu_preempt", "kworker/0:0", "ksoftirqd/3"] {
        let (a, b) = (wakes(&idle, &idle_records, comm), wakes(&busy, &busy_records, comm));
        assert_eq!(a, b, "{comm}");
        assert!(!a.is_empty(), "{comm}");
    }
}

#[test]
fn a_run_ends_with_its_last_task_and_reports_deadlocks() {
    let spec = noisy(costly(2), Noise::Desktop);
    let brief = Tasks::default().add("brief", vec![run_ms(3)]);
    let (machine, _, ended) = run_noisy(spec.clone(), brief, 1, 10 * SECOND);
    assert_eq!(ended, Ended::AllExited);
    assert!(machine.now < 5 * MS, "{}", machine.now);

    let stuck = Tasks::default()
        .add("stuck", vec![run_ms(3), Op::Suspend(0)])
        .resources(vec![Resource::Suspend { name: "s".into() }]);
    let (machine, _, ended) = run_noisy(spec, stuck, 1, 10 * SECOND);
    assert_eq!(ended, crate::programs::deadlock(&[(1, "stuck", "a resume of s")]));
    assert!(machine.now < SECOND, "{}", machine.now);
}

#[test]
fn background_work_survives_hotplug() {
    let mut tasks = idler();
    let hotplug = |at_ns, online| Disturbance {
        at_ns,
        action: Action::Hotplug { cpu: 1, online },
    };
    tasks.workload.disturbances = vec![hotplug(200 * MS, false), hotplug(600 * MS, true)];
    let (machine, records, ended) = run_noisy(noisy(costly(2), Noise::Server), tasks, 1, SECOND);
    assert_eq!(ended, Ended::Time);
    let offline = |r: &Record| r.cpu == 1 && (201 * MS..600 * MS).contains(&r.time);
    let runs = |r: &&Record| matches!(r.event, Event::Switch { next, .. } if next != 0) && offline(r);
    assert_eq!(records.iter().filter(runs).count(), 0);
    assert!(kthread_ns(&machine) > 0);
}

/// The policy puts the last task of a CPU on a shared queue when its slice ends, and does not wake
/// the CPU. Something else must wake it.
#[test]
fn background_work_repairs_a_lost_kick() {
    let worked = |noise| {
        let spec = MachineSpec { noise, ..costly(1) };
        let hog = Tasks::default().add("hog", forever(vec![run_ms(1)]));
        let mut run = Run::new(
            Machine::new(spec, hog.workload, 1).expect("a machine"),
            "last",
            &["SILENT"],
        );
        run.run(SECOND).assert_alive();
        let hog = run.machine.tasks().iter().find(|task| task.comm() == "hog");
        hog.expect("the task exists").sum_exec_runtime()
    };
    // The slice is 1 ms, and the next tick notices that it has ended.
    assert!(worked(None) <= 4 * MS, "{}", worked(None));
    assert!(worked(Some(Noise::Server)) > 10 * MS, "{}", worked(Some(Noise::Server)));
}
