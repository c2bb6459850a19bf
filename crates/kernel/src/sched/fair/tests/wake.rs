// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the choice of a CPU for woken and new tasks. A "hog" is a task that never sleeps.

use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::fair::{idle_scan, select_task_rq};
use crate::simulation::id::TaskId;
use crate::testbed::*;
use workload::{Dist, Op, SchedPolicy};

/// Returns the last task of the workload.
fn last(m: &Machine) -> TaskId {
    let comm = format!("t{}", m.workload.tasks.len() - 1);
    m.tasks
        .ids()
        .find(|&t| m.tasks[t].comm() == comm)
        .expect("the task must be alive")
}

/// Returns the CPU that is chosen for the last task of the workload if `waker_cpu` wakes it. The
/// task must be asleep.
fn wake(m: &mut Machine, waker_cpu: u32, wake_flags: u32) -> u32 {
    let task = last(m);
    assert!(!m.tasks[task].on_rq());
    let prev = m.tasks[task].cpu();
    m.enter(cpu_id(waker_cpu));
    select_task_rq(m, task, prev, flags::WF_TTWU | wake_flags).nr()
}

fn naps() -> Vec<Op> {
    vec![Op::Run(Dist::Fixed(10 * US)), Op::Sleep(Dist::Fixed(100 * SECOND))]
}

#[test]
fn a_waker_pulls_the_task_to_its_llc_when_the_previous_llc_is_busy() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    for cpu in 4..8 {
        (0..4).for_each(|_| bed.pinned(cpu, hog()).start_ns = MS);
    }
    bed.task(4, naps());
    let (mut m, _) = bed.run(free(spec(1, 2, 4, 1)), 200 * MS);
    assert_eq!(wake(&mut m, 0, 0), 1);
}

#[test]
fn a_task_returns_to_its_idle_cpu() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.task(5, naps());
    let (mut m, _) = bed.run(free(spec(1, 2, 4, 1)), 20 * MS);
    assert_eq!(wake(&mut m, 0, 0), 5);
}

#[test]
fn a_sync_waker_that_runs_alone_pulls_the_task_to_its_cpu() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    for cpu in 1..4 {
        bed.pinned(cpu, hog()).start_ns = MS;
    }
    bed.task(2, naps());
    let (mut m, _) = bed.run(free(spec(1, 1, 4, 1)), 200 * MS);
    assert_eq!(wake(&mut m, 0, flags::WF_SYNC), 0);
    assert_eq!(wake(&mut m, 0, 0), 2);
}

#[test]
fn an_idle_core_is_better_than_an_idle_thread() {
    let mut bed = Bed::default();
    bed.pinned(0, hog()).start_ns = MS;
    bed.pinned(2, hog());
    bed.task(0, naps());
    let (mut m, _) = bed.run(free(spec(1, 1, 4, 2)), 20 * MS);
    assert_eq!(
        wake(&mut m, 0, 0),
        4,
        "CPU 4 must be chosen: CPUs 1 and 3 share busy cores"
    );
    // No core is fully idle, so the other thread of the previous core is chosen.
    let mut bed = Bed::default();
    for cpu in [0, 2, 4, 6] {
        bed.pinned(cpu, hog()).start_ns = MS;
    }
    bed.task(2, naps());
    let (mut m, _) = bed.run(free(spec(1, 1, 4, 2)), 20 * MS);
    m.domains.llc(cpu_id(0)).has_idle_cores = false;
    let task = last(&m);
    m.enter(cpu_id(6));
    assert_eq!(
        idle_scan::select_idle_sibling(&mut m, task, cpu_id(2), cpu_id(6)),
        cpu_id(3)
    );
}

#[test]
fn the_idle_scan_is_bounded() {
    let mut bed = Bed::default();
    for cpu in 0..6 {
        bed.pinned(cpu, hog()).start_ns = MS;
    }
    bed.task(0, naps());
    let (mut m, _) = bed.run(free(spec(1, 1, 8, 1)), 20 * MS);
    m.domains.llc(cpu_id(0)).nr_idle_scan = 6;
    assert_eq!(wake(&mut m, 0, 0), 6);
    m.domains.llc(cpu_id(0)).nr_idle_scan = 5;
    assert_eq!(wake(&mut m, 0, 0), 0);
    m.domains.llc(cpu_id(0)).nr_idle_scan = 0;
    assert_eq!(wake(&mut m, 0, 0), 0);
}

#[test]
fn the_idle_scan_wraps_around_in_its_llc() {
    // Each LLC has 64 CPUs, so the sets of CPUs have a word for each LLC. The CPU after the last
    // one of an LLC is in the next LLC, or is CPU 0.
    for (llc, idle) in [(0, 0), (0, 5), (1, 3), (2, 63)] {
        let target = 64 * llc + if idle == 63 { 10 } else { 63 };
        let mut bed = Bed::default();
        for cpu in (0..192).filter(|cpu| *cpu != 64 * llc + idle) {
            bed.pinned(cpu, hog()).start_ns = MS;
        }
        bed.task(target, naps());
        let (mut m, _) = bed.run(free(spec(1, 3, 64, 1)), 5 * MS);
        let (task, target) = (last(&m), cpu_id(target));
        m.domains.llc(target).nr_idle_scan = 64;
        m.enter(target);
        let found = idle_scan::select_idle_sibling(&mut m, task, target, target);
        assert_eq!(found, cpu_id(64 * llc + idle), "LLC {llc}");
    }
}

#[test]
fn a_cpu_with_idle_policy_tasks_counts_as_idle() {
    let mut bed = Bed::default();
    for cpu in 0..4 {
        let policy = if cpu == 2 {
            SchedPolicy::Idle
        } else {
            SchedPolicy::Normal { nice: 0 }
        };
        let task = bed.pinned(cpu, hog());
        (task.policy, task.start_ns) = (policy, MS);
    }
    bed.task(0, naps());
    let (mut m, _) = bed.run(free(spec(1, 1, 4, 1)), 20 * MS);
    m.domains.llc(cpu_id(0)).nr_idle_scan = 4;
    assert_eq!(wake(&mut m, 0, 0), 2);
}

#[test]
fn a_waker_of_many_tasks_does_not_gather_them() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    for cpu in 2..4 {
        (0..4).for_each(|_| bed.pinned(cpu, hog()).start_ns = MS);
    }
    bed.task(2, naps());
    let (mut m, _) = bed.run(free(spec(1, 2, 2, 1)), 200 * MS);
    assert_eq!(wake(&mut m, 0, 0), 1);
    m.tasks[0].wakee_flips = 100;
    m.tasks[0].wakee_flip_decay = m.now;
    let wakee = last(&m);
    m.tasks[wakee].wakee_flips = 10;
    assert!((2..4).contains(&wake(&mut m, 0, 0)));
}

#[test]
fn a_cpus_utilization_includes_the_estimate_of_its_queued_tasks() {
    let mut bed = Bed::default();
    bed.pinned(0, sleeper(50 * MS, 150 * MS));
    let mut m = bed.machine(free(spec(1, 1, 1, 1)));
    m.advance(799 * MS, &mut Vec::new());
    m.now = 799 * MS;
    let (cpu, estimate) = (cpu_id(0), m.tasks[0].fair.util_est);
    m.update_blocked_averages(cpu);
    assert!(
        estimate > 600 && m.cpu_util(cpu) < 200,
        "the estimate is {estimate}, the utilization of the CPU is {}",
        m.cpu_util(cpu)
    );
    // The task has just been woken. Its utilization average decayed while it slept, but its
    // estimate did not.
    m.advance(801 * MS, &mut Vec::new());
    assert_eq!(m.cpu_util(cpu), estimate);
    assert_eq!(m.cpu_util_without(cpu, nth(0)), 0);
    // The task has gone to sleep again.
    m.advance(852 * MS, &mut Vec::new());
    assert_eq!(m.rqs[cpu].fair.util_est, 0);
}

#[test]
fn a_big_task_wakes_on_a_fast_cpu() {
    let mut machine = free(spec(1, 1, 4, 1));
    for cpu in &mut machine.topology.cpus[..2] {
        cpu.capacity = 400;
    }
    let mut bed = Bed::default();
    bed.task(0, naps());
    let (mut m, _) = bed.run(machine, 20 * MS);
    m.tasks[0].fair.util_est = 100;
    assert_eq!(wake(&mut m, 0, 0), 0);
    m.tasks[0].fair.util_est = 600;
    assert!(wake(&mut m, 0, 0) >= 2);
}

#[test]
fn forks_spread_over_idle_cpus_and_nodes() {
    let mut bed = Bed::default();
    let mut ops: Vec<Op> = (1..8).map(|task| Op::Fork { task, thread: false }).collect();
    ops.push(Op::Run(Dist::Fixed(SECOND)));
    bed.task(0, ops);
    for _ in 1..8 {
        let child = bed.task(0, hog());
        (child.start_cpu, child.spawn) = (None, false);
    }
    let (m, records) = bed.run(spec(2, 1, 4, 1), 5 * MS);
    assert_eq!(queued(&m), vec![1; 8]);
    let moved = |r: &&trace::Record| matches!(r.event, trace::Event::Balance { .. });
    assert_eq!(
        records.iter().filter(moved).count(),
        0,
        "load balancing must not be necessary"
    );
}

#[test]
fn placement_respects_affinity() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.task(1, naps()).cpus = Some(vec![1, 3]);
    bed.pinned(1, hog()).start_ns = MS;
    let (mut m, _) = bed.run(free(spec(1, 1, 4, 1)), 20 * MS);
    m.enter(cpu_id(0));
    assert_eq!(select_task_rq(&mut m, nth(1), cpu_id(1), flags::WF_TTWU), 3);
    assert!(!idle_scan::available_idle_cpu(&m, cpu_id(0)));
}

#[test]
fn a_core_that_becomes_idle_is_recorded() {
    let mut bed = Bed::default();
    for cpu in 0..4 {
        bed.pinned(cpu, vec![Op::Run(Dist::Fixed(if cpu < 2 { SECOND } else { 10 * MS }))]);
    }
    let mut m = bed.machine(free(spec(1, 1, 2, 2)));
    m.run(5 * MS, &mut Vec::new());
    m.domains.llc(cpu_id(0)).has_idle_cores = false;
    m.run(8 * MS, &mut Vec::new());
    assert!(!m.domains.llc(cpu_id(0)).has_idle_cores);
    // Both threads of the second core are busy and slow each other, so their 10 ms of work take 16
    // ms.
    m.run(18 * MS, &mut Vec::new());
    assert!(m.domains.llc(cpu_id(0)).has_idle_cores);
}

#[test]
fn a_busy_cache_is_scanned_less() {
    for (hogs, scanned) in [(4, 5), (8, 0)] {
        let mut bed = Bed::default();
        for cpu in 0..hogs {
            bed.pinned(cpu, hog());
        }
        let (mut m, _) = bed.run(free(spec(1, 1, 8, 1)), SECOND);
        assert_eq!(m.domains.llc(cpu_id(0)).nr_idle_scan, scanned, "with {hogs} hogs");
    }
}
