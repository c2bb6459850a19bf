// SPDX-License-Identifier: GPL-2.0-only
//! Tests of NUMA balancing.

use super::*;
use crate::sched::fair::state::numa::{Connection, connection};
use crate::simulation::rng::Rng;
use crate::testbed::*;
use machine::MachineSpec;
use trace::{Event, Record};
use workload::{Action, Dist, Op, SchedPolicy};

const MIB: u64 = 1 << 20;
/// Number of pages of a footprint of 64 MiB.
const PAGES: u64 = 64 * MIB / PAGE_BYTES;

/// Returns a machine with `nodes` nodes of `cores` cores. Tasks touch 4000 MB/s of their working
/// sets. A byte takes 100 ps from the node's own memory and 200 ps from another node.
fn numa_spec(nodes: u32, cores: u32, balancing: bool) -> MachineSpec {
    let mut spec = spec(nodes, 1, cores, 1);
    spec.costs.reload_llc_ps = 40;
    spec.costs.reload_memory_ps = 100;
    spec.costs.reload_remote_ps = 200;
    spec.costs.touch_mbps = 4000;
    spec.kernel.no_numa_balancing = !balancing;
    spec
}

/// Returns the CPU times in which a task does the first to fourth second of its work on node 1. It
/// first ran on node 0, so its memory is there.
fn seconds_on_the_wrong_node(balancing: bool) -> (Machine, Vec<u64>) {
    let mut bed = Bed::default();
    let mut ops = vec![Op::Run(Dist::Fixed(MS)), Op::SetAffinity(Some(vec![2, 3]))];
    for _ in 0..4 {
        ops.extend([Op::Run(Dist::Fixed(SECOND)), Op::Sleep(Dist::Fixed(MS))]);
    }
    bed.pinned(0, ops).footprint_bytes = 64 * MIB;
    let (m, records) = bed.run(numa_spec(2, 2, balancing), 10 * SECOND);
    m.verify();
    assert_eq!(m.nr_alive, 0);
    let there: Vec<Record> = records.into_iter().filter(|r| r.cpu >= 2).collect();
    let seconds = stretches(&there, 1)[..4].to_vec();
    (m, seconds)
}

#[test]
fn pages_on_the_wrong_node_slow_a_task_until_they_have_moved() {
    let (m, without) = seconds_on_the_wrong_node(false);
    assert_eq!((m.numa.faults, m.numa.migrated), (0, 0));
    // Half of the footprint is in the LLC. The other half is loaded at 2000 bytes per us, which
    // takes 100 ps longer per byte than from the node of the CPU: 1.2 s for each second of work.
    for time in &without {
        assert!((1_199 * MS..1_225 * MS).contains(time), "{without:?}");
    }
    let (m, with) = seconds_on_the_wrong_node(true);
    // The first scan is after 1 s of CPU time. The faults then move all pages.
    assert!((1_190 * MS..1_290 * MS).contains(&with[0]), "{with:?}");
    for time in &with[2..] {
        assert!((1_000 * MS..1_040 * MS).contains(time), "{with:?}");
    }
    assert_eq!(m.numa.migrated, PAGES);
    assert!(m.numa.faults >= PAGES && m.numa.faults <= 3 * PAGES);
}

#[test]
fn the_first_scan_is_after_a_second_of_cpu_time_and_the_second_two_seconds_later() {
    let mut bed = Bed::default();
    bed.task(0, hog()).footprint_bytes = 64 * MIB;
    let mut m = bed.machine(numa_spec(2, 1, true));
    let mut records = Vec::new();
    let mut faults = Vec::new();
    for at in [990, 1200, 2900, 3200, 5500, 5800] {
        m.advance(at * MS, &mut records);
        faults.push((m.numa.faults, m.numa.local_faults));
    }
    // The period doubles after the first scan, because there were no faults before it. It then
    // grows by three tenths, because all faults are local.
    let scans = [0, 1, 1, 2, 2, 3].map(|scans| (scans * PAGES, scans * PAGES));
    assert_eq!(faults, scans);
    assert_eq!(m.numa.migrated, 0);
    m.verify();
}

#[test]
fn a_settled_task_returns_to_its_memory() {
    let mut bed = Bed::default();
    bed.task(0, hog()).footprint_bytes = 64 * MIB;
    let mut m = bed.machine(numa_spec(2, 1, true));
    let mut records = Vec::new();
    m.advance(20 * SECOND, &mut records);
    assert_eq!(m.numa_preferred(nth(0)), 0);
    m.enter(cpu_id(0));
    m.migrate_running(nth(0), cpu_id(1), trace::MigrateReason::Balance);
    m.leave();
    m.advance(20 * SECOND + MS, &mut records);
    assert_eq!(m.tasks[nth(0)].cpu(), 1);
    // The next scan is not before the time that was planned before the move.
    m.advance(27 * SECOND, &mut records);
    assert_eq!(m.tasks[nth(0)].cpu(), 0, "the task has gone back to its preferred node");
    assert_eq!(m.numa.migrated, 0, "its pages have stayed there");
    m.verify();
}

/// Runs two tasks on two nodes of one CPU each until they have settled, makes them change places,
/// and returns the machine 6 s later.
fn exchanged(balancing: bool) -> Machine {
    let mut bed = Bed::default();
    bed.task(0, hog()).footprint_bytes = 64 * MIB;
    bed.task(1, hog()).footprint_bytes = 64 * MIB;
    let mut m = bed.machine(numa_spec(2, 1, balancing));
    let mut records = Vec::new();
    m.advance(20 * SECOND, &mut records);
    assert!(m.tasks[nth(0)].cpu() == 0 && m.tasks[nth(1)].cpu() == 1);
    m.enter(cpu_id(0));
    m.migrate_swap(nth(0), nth(1));
    m.leave();
    m.verify();
    m.advance(20 * SECOND + 10 * MS, &mut records);
    assert!(m.tasks[nth(0)].cpu() == 1 && m.tasks[nth(1)].cpu() == 0);
    m.advance(26 * SECOND, &mut records);
    m.verify();
    m
}

#[test]
fn two_tasks_on_each_others_node_change_places() {
    let m = exchanged(true);
    assert!(
        m.tasks[nth(0)].cpu() == 0 && m.tasks[nth(1)].cpu() == 1,
        "both are back"
    );
    assert_eq!(m.numa.migrated, 0, "no page has moved");
    let m = exchanged(false);
    assert!(m.tasks[nth(0)].cpu() == 1 && m.tasks[nth(1)].cpu() == 0, "both stay");
}

#[test]
fn load_balancing_prefers_tasks_whose_memory_is_elsewhere() {
    use crate::sched::fair::lb_env::{Env, IdleType, Migrate, Preference};
    let mut bed = Bed::default();
    for _ in 0..2 {
        bed.task(0, hog()).footprint_bytes = 64 * MIB;
    }
    let mut m = bed.machine(numa_spec(2, 1, true));
    let mut records = Vec::new();
    m.advance(MS, &mut records);
    for (task, preferred) in [(0, 0), (1, 1)] {
        let numa = state(&mut m, nth(task));
        (numa.preferred, numa.total) = (preferred, 10);
        numa.faults = vec![0; 2];
        numa.faults[preferred as usize] = 10;
        m.tasks[nth(task)].set_cpu(cpu_id(0));
    }
    let env = Env {
        dst_cpu: cpu_id(1),
        cpu: cpu_id(1),
        level: 0,
        idle: IdleType::Busy,
        kind: Migrate::Task,
        imbalance: 1,
        src_cpu: cpu_id(0),
        preference: Preference::All,
        excluded: Vec::new(),
    };
    let order = |m: &Machine, task, queued| degrades_locality(m, &env, nth(task), queued);
    assert_eq!(order(&m, 0, 2), std::cmp::Ordering::Greater);
    assert_eq!(order(&m, 1, 2), std::cmp::Ordering::Less);
    assert_eq!(order(&m, 0, 1), std::cmp::Ordering::Equal, "the only task may leave");
    assert_eq!(classify(3, (2, 1)), Preference::Regular);
    assert_eq!(classify(2, (2, 1)), Preference::Remote);
    assert_eq!(classify(2, (2, 2)), Preference::All);
}

#[test]
fn a_waiting_task_is_pulled_only_towards_its_memory() {
    use crate::sched::fair::detach::{Detach, can_migrate_task};
    use crate::sched::fair::lb_env::{Env, IdleType, Migrate, Preference};
    let mut bed = Bed::default();
    for cpu in [0, 0, 1] {
        bed.task(cpu, hog()).footprint_bytes = 64 * MIB;
    }
    let mut m = bed.machine(numa_spec(2, 1, true));
    m.advance(MS, &mut Vec::new());
    let waiting = |m: &Machine, task: &TaskId| m.tasks[*task].cpu() == 0 && !m.tasks[*task].on_cpu();
    let task = [nth(0), nth(1)].into_iter().find(|task| waiting(&m, task));
    let task = task.expect("one of two tasks waits for CPU 0");
    let mut pulls = |preferred: u32, others: u32| {
        for task in [nth(0), nth(1)] {
            let numa = state(&mut m, task);
            (numa.preferred, numa.faults, numa.total) = (others, vec![5; 2], 10);
        }
        state(&mut m, task).preferred = preferred;
        let env = Env {
            dst_cpu: cpu_id(1),
            cpu: cpu_id(1),
            level: 0,
            idle: IdleType::NewlyIdle,
            kind: Migrate::Load,
            imbalance: 1 << 20,
            src_cpu: cpu_id(0),
            preference: Preference::All,
            excluded: Vec::new(),
        };
        // With the failure, a queued task of the destination does not matter.
        m.domains.levels[1][0].nr_balance_failed = 1;
        can_migrate_task(&mut m, &env, &mut Detach::default(), task)
    };
    assert!(!pulls(0, 1), "the task is on its preferred node");
    assert!(pulls(1, 1), "the task would get to its preferred node");
}

#[test]
fn exec_on_another_node_goes_to_the_preferred_node() {
    let placed = |preferred| {
        let mut bed = Bed::default();
        bed.task(0, hog()).footprint_bytes = 64 * MIB;
        let mut m = bed.machine(numa_spec(2, 4, true));
        m.advance(MS, &mut Vec::new());
        state(&mut m, nth(0)).preferred = preferred;
        m.enter(cpu_id(0));
        m.select_task_rq(nth(0), cpu_id(0), crate::sched::class::state::flags::WF_EXEC)
    };
    assert!(placed(NOWHERE) < cpu_id(4));
    assert!(placed(1) >= cpu_id(4));
}

#[test]
fn it_is_off_without_effect_and_on_one_node() {
    let active = |change: &dyn Fn(&mut MachineSpec), nodes, bytes| {
        let mut bed = Bed::default();
        bed.task(0, hog()).footprint_bytes = bytes;
        let mut spec = numa_spec(nodes, 1, true);
        change(&mut spec);
        bed.machine(spec).numa.active()
    };
    assert!(active(&|_| (), 2, MIB));
    assert!(!active(&|_| (), 1, MIB));
    assert!(!active(&|_| (), 2, 0));
    assert!(!active(&|spec| spec.costs.flat_memory = true, 2, MIB));
    assert!(!active(&|spec| spec.costs.touch_mbps = 0, 2, MIB));
    assert!(!active(&|spec| spec.kernel.no_numa_balancing = true, 2, MIB));
}

#[test]
fn nodes_at_different_distances_are_a_mesh_or_have_a_backplane() {
    let connected = |rows: &[&[u32]]| {
        let mut topology = spec(rows.len() as u32, 1, 1, 1).topology;
        topology.node_distances = rows.iter().map(|row| row.to_vec()).collect();
        connection(&topology)
    };
    assert_eq!(connected(&[&[10, 20], &[20, 10]]), Connection::Direct);
    let ring: &[&[u32]] = &[
        &[10, 20, 30, 20],
        &[20, 10, 20, 30],
        &[30, 20, 10, 20],
        &[20, 30, 20, 10],
    ];
    assert_eq!(connected(ring), Connection::GluelessMesh);
    let groups: &[&[u32]] = &[
        &[10, 15, 30, 30],
        &[15, 10, 30, 30],
        &[30, 30, 10, 15],
        &[30, 30, 15, 10],
    ];
    assert_eq!(connected(groups), Connection::Backplane);
}

/// Runs random tasks with footprints on a random machine. Returns the number of migrated pages.
fn random_run(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let nodes = 2 + rng.below(3) as u32;
    let mut spec = numa_spec(nodes, 1 + rng.below(2) as u32, true);
    spec.costs.touch_mbps = [1, 500, 4000, 1_000_000][rng.below(4) as usize];
    if rng.below(2) == 0 {
        for (a, row) in spec.topology.node_distances.iter_mut().enumerate() {
            for (b, distance) in row.iter_mut().enumerate() {
                let hops = a.abs_diff(b).min(nodes as usize - a.abs_diff(b));
                *distance = 10 + 10 * hops as u32;
            }
        }
    }
    let nr_cpus = spec.topology.nr_cpus();
    let mut bed = Bed::default();
    for _ in 0..1 + rng.below(2 * u64::from(nr_cpus)) {
        let mut ops = vec![
            Op::Run(Dist::Fixed(1 + rng.below(300 * MS))),
            Op::Sleep(Dist::Fixed(rng.below(2) * rng.below(20 * MS))),
        ];
        if rng.below(3) == 0 {
            ops.push(Op::SetAffinity(Some(vec![rng.below(nr_cpus.into()) as u32])));
            ops.push(Op::Run(Dist::Fixed(1 + rng.below(900 * MS))));
            ops.push(Op::SetAffinity(None));
        }
        if rng.below(6) == 0 {
            ops.push(Op::Exec { comm: "new".into() });
        }
        ops.push(Op::LoopBack {
            counter: 0,
            times: None,
            target: 0,
        });
        let cpu = rng.below(nr_cpus.into()) as u32;
        let task = bed.task(cpu, ops);
        let most = [1 << 14, 64 * MIB, 1 << 40][rng.below(3) as usize];
        task.footprint_bytes = rng.below(3) * rng.below(most);
        task.touch_mbps = (rng.below(3) == 0).then(|| rng.below(10_000) as u32);
        if rng.below(8) == 0 {
            task.policy = SchedPolicy::Fifo { rt_priority: 1 };
        }
    }
    if rng.below(3) == 0 {
        let cpu = rng.below(nr_cpus.into()) as u32;
        bed.disturb(4 * SECOND, Action::Hotplug { cpu, online: false });
    }
    let mut m = bed.machine(spec);
    let mut records = Vec::new();
    for at in 1..=40 {
        m.advance(at * 200 * MS, &mut records);
        m.verify();
        records.clear();
    }
    m.numa.migrated
}

#[test]
fn random_tasks_with_footprints_keep_their_pages() {
    let migrated: Vec<u64> = (0..40).map(random_run).collect();
    let some = migrated.iter().filter(|&&pages| pages > 0).count();
    assert!(some >= 10, "pages moved in only {some} runs");
}

#[test]
fn tasks_without_footprints_are_not_scanned() {
    let hash = |balancing| {
        let mut bed = Bed::default();
        for cpu in 0..3 {
            bed.task(cpu % 2, sleeper(3 * MS, MS));
        }
        let mut records = Vec::new();
        let mut m = bed.machine(numa_spec(2, 1, balancing));
        m.run(4 * SECOND, &mut records);
        records
    };
    let (with, without) = (hash(true), hash(false));
    assert!(with.iter().any(|r| matches!(r.event, Event::Switch { .. })));
    assert!(with == without);
}
