// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the kernel objects that policies can access: addresses, the cgroup tree and references.

use crate::layout::*;
use crate::machine::Machine;
use crate::testbed::{self, cpu_id, nth};
use workload::{Cgroup, Dist, Op, Program, TaskSpec, Workload};

fn machine(cgroups: &[&str], programs: Vec<Vec<Op>>) -> Machine {
    let task = |program| {
        let comm = format!("a-name-that-is-too-long-{program}");
        let mut task = TaskSpec::new(comm, program, program);
        task.spawn = program == 0;
        task
    };
    let workload = Workload {
        tasks: (0..programs.len() as u32).map(task).collect(),
        programs: programs.into_iter().map(|ops| Program { ops, counters: 0 }).collect(),
        cgroups: cgroups
            .iter()
            .map(|path| Cgroup {
                path: path.to_string(),
                weight: 100,
            })
            .collect(),
        ..Workload::default()
    };
    Machine::new(testbed::free(testbed::spec(1, 1, 2, 1)), workload, 1).unwrap()
}

fn sleep(ms: u64) -> Op {
    Op::Sleep(Dist::Fixed(ms * testbed::MS))
}

#[test]
fn the_hot_part_of_a_task_is_two_cache_lines() {
    assert!(
        std::mem::offset_of!(task_struct, se) + 8 <= 128,
        "callbacks use more than two cache lines"
    );
    assert!(std::mem::offset_of!(task_struct, cpus_mask) + 8 <= 360);
}

#[test]
fn addresses_map_to_tasks_and_back() {
    let mut m = machine(&["/"], vec![vec![sleep(100)]]);
    m.advance(testbed::MS, &mut Vec::new());
    let addr = m.layout.task_addr(nth(0));
    assert_eq!(m.task_from_addr(addr), Some(nth(0)));
    assert_eq!(m.tasks[0].addr(), addr);
    for wrong in [0, addr + 8, m.layout.idle_addr(cpu_id(0)), m.layout.task_addr(nth(1))] {
        assert_eq!(m.task_from_addr(wrong), None, "{wrong:#x} is not the address of a task");
    }
    assert_eq!(m.layout.idle_from_addr(m.layout.idle_addr(cpu_id(1))), Some(cpu_id(1)));
    assert_eq!(m.curr_addr(cpu_id(1)), m.layout.idle_addr(cpu_id(1)));
    assert_eq!(
        m.tasks[nth(0)].task_struct.comm.map(|byte| byte as u8),
        *b"a-name-that-is-\0"
    );
}

#[test]
fn a_cgroups_parent_is_its_nearest_named_ancestor() {
    let m = machine(&["/", "/a/b", "/a/b/c/d", "/ab"], vec![]);
    let parent = |cgroup: u32| {
        // SAFETY: this is the address of a cgroup of the layout.
        let cgrp = unsafe { &*m.region.host::<cgroup>(m.layout.cgroup_addr(cgroup)) };
        (
            m.layout
                .cgroup_from_addr(cgrp.self_.parent as u64)
                .map(|(cgroup, _)| cgroup),
            cgrp.level,
        )
    };
    assert_eq!(
        [0, 1, 2, 3].map(parent),
        [(None, 0), (Some(0), 1), (Some(1), 2), (Some(0), 1)]
    );
    // Between the root's id and that of the first other cgroup are the files of the root.
    assert_eq!(
        [1, 24, 25, 26].map(|id| m.layout.cgroup_from_id(id)),
        [0, 1, 2, 3].map(Some)
    );
    assert_eq!([0, 2, 23, 27].map(|id| m.layout.cgroup_from_id(id)), [None; 4]);
}

#[test]
fn threads_share_their_mm_and_leader() {
    let fork = |thread| Op::Fork { task: 1, thread };
    let mut m = machine(
        &["/"],
        vec![vec![fork(true), fork(false), sleep(100)], vec![sleep(100)]],
    );
    m.advance(testbed::MS, &mut Vec::new());
    let [first, thread, process] = [1, 2, 3].map(|pid| &m.tasks[m.find_task(pid).unwrap()].task_struct);
    assert_eq!((first.mm, first.group_leader), (thread.mm, thread.group_leader));
    assert_eq!((thread.tgid, process.tgid), (1, 3));
    assert_ne!(first.mm, process.mm);
    assert!(m.region.contains(process.mm as u64));
    assert_eq!(process.real_parent as u64, m.layout.task_addr(m.find_task(1).unwrap()));
    // The parent of a thread is that of the other threads.
    assert_eq!(thread.real_parent, first.real_parent);
}

#[test]
fn exec_replaces_the_mm_and_exit_gives_it_up() {
    let exec = Op::Exec { comm: "new".into() };
    let mut m = machine(&["/"], vec![vec![sleep(1), exec, sleep(1)]]);
    let mm = |m: &Machine| m.tasks[m.find_task(1).unwrap()].task_struct.mm;
    m.advance(testbed::MS / 2, &mut Vec::new());
    let first = mm(&m);
    assert!(!first.is_null());
    m.advance(3 * testbed::MS / 2, &mut Vec::new());
    assert_ne!(mm(&m), first);
    assert!(m.region.contains(mm(&m) as u64));
    let task = m.find_task(1).unwrap();
    m.enter(cpu_id(0));
    m.exit_task(task);
    assert!(mm(&m).is_null());
}

#[test]
fn another_thread_becomes_the_parent_of_a_threads_children() {
    let fork = |task, thread| Op::Fork { task, thread };
    let mut m = machine(
        &["/"],
        vec![
            vec![fork(1, true), sleep(3)],
            vec![fork(2, false), sleep(1)],
            vec![sleep(100)],
        ],
    );
    let parent_of_child = |m: &Machine| m.tasks[m.find_task(3).unwrap()].task_struct.real_parent as u64;
    m.advance(testbed::MS / 2, &mut Vec::new());
    assert_eq!(parent_of_child(&m), m.layout.task_addr(m.find_task(2).unwrap()));
    m.advance(2 * testbed::MS, &mut Vec::new());
    assert_eq!(m.find_task(2), None);
    assert_eq!(parent_of_child(&m), m.layout.task_addr(m.find_task(1).unwrap()));
    m.advance(5 * testbed::MS, &mut Vec::new());
    assert_eq!(m.find_task(1), None);
    assert_eq!(parent_of_child(&m), m.layout.idle_addr(cpu_id(0)));
}

#[test]
fn orphans_become_children_of_init_task() {
    let mut m = machine(
        &["/"],
        vec![vec![Op::Fork { task: 1, thread: false }, sleep(2)], vec![sleep(100)]],
    );
    m.advance(testbed::MS, &mut Vec::new());
    let child = m.find_task(2).unwrap();
    assert_eq!(
        m.tasks[child].task_struct.real_parent as u64,
        m.layout.task_addr(m.find_task(1).unwrap())
    );
    m.advance(5 * testbed::MS, &mut Vec::new());
    assert_eq!(m.find_task(1), None);
    assert_eq!(
        m.tasks[child].task_struct.real_parent as u64,
        m.layout.idle_addr(cpu_id(0))
    );
}

#[test]
fn a_referenced_task_keeps_its_slot() {
    let mut m = machine(&["/"], vec![vec![sleep(2)]]);
    m.advance(testbed::MS, &mut Vec::new());
    m.layout.get_task(nth(0));
    m.advance(5 * testbed::MS, &mut Vec::new());
    assert_eq!(
        (m.task_from_addr(m.layout.task_addr(nth(0))), m.free_tasks.len()),
        (None, 0)
    );
    assert!(m.put_task(nth(0)));
    assert_eq!(m.free_tasks, [nth(0)]);
    assert!(!m.put_task(nth(0)), "a task without references cannot be released");
    assert_eq!(m.free_tasks, [nth(0)], "the slot is freed exactly once");
}

#[test]
fn runqueue_clocks_advance_with_capacity() {
    // SAFETY: zero is a valid value of every field.
    let mut rq: rq = unsafe { std::mem::zeroed() };
    rq.advance(1000, 512, true);
    assert_eq!((rq.clock, rq.clock_task, rq.clock_pelt), (1000, 1000, 1000));
    // At half of the full capacity, clock_pelt advances at half speed. When the CPU is idle, it is
    // set to clock_task.
    rq.advance(1200, 512, false);
    assert_eq!((rq.clock_task, rq.clock_pelt), (1200, 1100));
    rq.advance(1300, 512, true);
    assert_eq!(rq.clock_pelt, 1300);
}
