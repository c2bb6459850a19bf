// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the hierarchy of task groups: load on each level, the weights of tasks that follow from
//! it, and groups that stop and start running.

use super::super::{put_prev_task, set_next_task};
use crate::machine::Machine;
use crate::sched::fair::state::entity::{NICE_0_LOAD, NONE};
use crate::simulation::cpuset::CpuSet;
use crate::testbed::*;
use machine::MachineSpec;
use workload::{Dist, Op};

fn cpus(nr: u32) -> MachineSpec {
    free(spec(1, 1, nr, 1))
}

#[track_caller]
fn is_near(value: u64, expected: u64, percent: u64) {
    assert!(
        value.abs_diff(expected) * 100 <= expected * percent,
        "{value} differs from {expected} by more than {percent} %"
    );
}

/// Returns a machine and the number of a cgroup. Three tasks that never sleep ("hogs") run on CPU
/// 0: two in this cgroup and one in the root cgroup.
fn three(spec: MachineSpec) -> (Machine, u32) {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    for cgroup in [a, a, 0] {
        bed.pinned(0, hog()).cgroup = cgroup;
    }
    let mut m = bed.machine(spec);
    m.advance(2 * SECOND, &mut Vec::new());
    (m, a)
}

#[test]
fn a_task_contributes_its_part_of_the_load() {
    let (mut m, _) = three(cpus(1));
    for (task, load) in [(0, 512), (1, 512), (2, 1024)] {
        is_near(m.task_h_load(nth(task)), load, 5);
    }
    is_near(m.cpu_load(cpu_id(0)), 2048, 5);
}

#[test]
fn load_migrates_with_a_task_at_all_levels() {
    let (mut m, a) = three(cpus(2));
    let group = [0, 1].map(|cpu| m.task_groups.id(a, cpu_id(cpu)));
    m.enter(cpu_id(0));
    for task in [0, 1] {
        m.sched_setaffinity(m.pid_of(nth(task)), CpuSet::from_cpus(2, &[1]));
    }
    for (cpu, utils) in [(0, 0..700), (1, 250..1024)] {
        let (entity, root) = (m.se(group[cpu]).avg.util_avg, m.cfs(cpu as u32).avg.util_avg);
        assert!(
            utils.contains(&entity),
            "the utilization of the group on CPU {cpu} is {entity}"
        );
        assert!(utils.contains(&root), "the utilization of CPU {cpu} is {root}");
    }
    assert!(
        m.se(group[0]).avg.util_avg < 50,
        "the utilization must leave CPU 0 together with the tasks"
    );
    assert!(
        m.se(group[0]).avg.load_avg < 50,
        "the load must leave CPU 0 together with the tasks"
    );
    // The group has two tasks, so its shares count twice. A third of them still belongs to CPU 0: the
    // contribution of its queue to the group's load is updated at most once per ms and still has its
    // old value.
    is_near(m.se(group[1]).avg.load_avg, 1365, 10);
}

#[test]
fn a_cpu_that_idles_leaves_its_shares_to_the_others() {
    let mut bed = Bed::default();
    let a = bed.cgroup("/a", 100);
    bed.pinned(0, hog()).cgroup = a;
    bed.pinned(
        1,
        vec![Op::Run(Dist::Fixed(SECOND)), Op::Sleep(Dist::Fixed(100 * SECOND))],
    )
    .cgroup = a;
    let mut m = bed.machine(cpus(2));
    let id = m.task_groups.id(a, cpu_id(0));
    m.advance(900 * MS, &mut Vec::new());
    let shares = m.task_groups.group(id).shares;
    is_near(m.se(id).load, shares / 2, 5);
    m.advance(1400 * MS, &mut Vec::new());
    is_near(m.se(id).load, shares, 3);
}

#[test]
fn a_group_keeps_running_when_its_next_task_follows() {
    let (mut m, a) = three(cpus(1));
    let id = m.task_groups.id(a, cpu_id(0));
    let mut at = m.now;
    while m.rqs[0].curr != nth(0) {
        at += 50 * US;
        m.advance(at, &mut Vec::new());
    }
    m.enter(cpu_id(0));
    put_prev_task(&mut m, cpu_id(0), nth(0), nth(1));
    assert_eq!((m.cfs(0).curr, m.cfs(id).curr), (id, NONE));
    set_next_task(&mut m, cpu_id(0), nth(1));
    assert_eq!((m.cfs(0).curr, m.cfs(id).curr), (id, 1));
    // Switches to the task in the root cgroup and back.
    put_prev_task(&mut m, cpu_id(0), nth(1), nth(2));
    set_next_task(&mut m, cpu_id(0), nth(2));
    assert_eq!((m.cfs(0).curr, m.cfs(id).curr), (2, NONE));
    put_prev_task(&mut m, cpu_id(0), nth(2), nth(0));
    set_next_task(&mut m, cpu_id(0), nth(0));
    assert_eq!((m.cfs(0).curr, m.cfs(id).curr), (id, 0));
}

#[test]
fn a_task_competes_with_its_part_of_the_weight_of_its_groups() {
    // The group has two tasks on one CPU, so each has half of the group's weight.
    let (m, _) = three(cpus(1));
    let weights = [0, 1, 2].map(|n: usize| m.tasks[n].fair.h_load);
    assert_eq!(weights, [NICE_0_LOAD / 2, NICE_0_LOAD / 2, NICE_0_LOAD]);
}
