// SPDX-License-Identifier: GPL-2.0-only
//! Tests of idle CPU selection on machines with different topologies.

use super::*;
use crate::simulation::cpuset::CpuSet;
use crate::testbed::{self, cpu_id, nth};
use workload::{Op, Program, TaskSpec, Workload};

/// Returns a machine with one sleeping task. Idle tracking is on, and all CPUs are marked as busy.
/// `shape` contains four numbers: nodes, LLCs per node, cores per LLC and threads per core.
fn machine(shape: [u32; 4], ops_flags: u64) -> Machine {
    let [nodes, llcs, cores, threads] = shape;
    let sleeper = TaskSpec::new("sleeper", 0, 0);
    let program = Program {
        ops: vec![Op::Sleep(workload::Dist::Fixed(testbed::SECOND))],
        counters: 0,
    };
    let workload = Workload {
        tasks: vec![sleeper].into(),
        programs: vec![program],
        ..Workload::default()
    };
    let mut m = Machine::new(testbed::spec(nodes, llcs, cores, threads), workload, 1).unwrap();
    m.advance(testbed::MS, &mut Vec::new());
    enable(&mut m, ops_flags, false);
    for cpu in m.cpus() {
        update(&mut m, cpu, false);
    }
    m
}

fn cpus(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|cpu| cpu.parse().unwrap()).collect()
}

/// A situation, and in `chosen` the CPU that must be selected in it, or "-" if no CPU must be
/// selected. `idle` lists the idle CPUs. `allowed` lists the CPUs that the task may use; an empty
/// text means all CPUs.
struct Case {
    shape: [u32; 4],
    flags: u64,
    idle: &'static str,
    allowed: &'static str,
    prev: u32,
    waker: u32,
    wake_flags: u64,
    pick_flags: u64,
    chosen: &'static str,
}

const CASE: Case = Case {
    shape: [1, 1, 4, 1],
    flags: 0,
    idle: "",
    allowed: "",
    prev: 0,
    waker: 0,
    wake_flags: 0,
    pick_flags: 0,
    chosen: "-",
};

fn check(case: Case) {
    let mut m = machine(case.shape, case.flags);
    for cpu in cpus(case.idle) {
        update(&mut m, cpu_id(cpu), true);
    }
    if !case.allowed.is_empty() {
        m.tasks[0].cpus = CpuSet::from_cpus(m.nr_cpus(), &cpus(case.allowed)).into();
        m.tasks[0].task_struct.nr_cpus_allowed = m.tasks[0].cpus.weight() as i32;
        m.cpus_mask(nth(0)).copy_from(m.tasks[0].cpus.words());
    }
    m.this_cpu = cpu_id(case.waker);
    let chosen = select_cpu_dfl(
        &mut m,
        nth(0),
        cpu_id(case.prev),
        case.wake_flags,
        None,
        case.pick_flags,
    );
    let text = chosen.map_or("-".to_string(), |cpu| cpu.to_string());
    assert_eq!(
        text, case.chosen,
        "wrong CPU on a machine of shape {:?} with the idle CPUs \"{}\" and the previous CPU {}",
        case.shape, case.idle, case.prev
    );
    if let Some(cpu) = chosen {
        let node = m.idle.per_node.then(|| m.spec.topology.cpus[cpu.index()].node);
        assert!(
            !m.idle.cpumask(node).contains(cpu),
            "a chosen CPU must no longer be marked as idle"
        );
    }
}

#[test]
fn without_smt_the_previous_cpu_comes_first() {
    check(Case {
        idle: "1 2 3",
        prev: 2,
        chosen: "2",
        ..CASE
    });
    check(Case {
        idle: "1 3",
        prev: 2,
        chosen: "1",
        ..CASE
    });
    check(Case {
        idle: "",
        prev: 2,
        chosen: "-",
        ..CASE
    });
    check(Case {
        idle: "1 3",
        prev: 1,
        allowed: "0 2 3",
        chosen: "3",
        ..CASE
    });
    check(Case {
        idle: "1",
        prev: 1,
        allowed: "0 2 3",
        chosen: "-",
        ..CASE
    });
}

#[test]
fn with_smt_a_fully_idle_core_comes_first() {
    // The cores are the CPU pairs 0-1, 2-3, 4-5 and 6-7.
    let smt = Case {
        shape: [1, 1, 4, 2],
        ..CASE
    };
    check(Case {
        idle: "2 3 4 5",
        prev: 4,
        chosen: "4",
        ..smt
    });
    check(Case {
        idle: "2 4 5",
        prev: 2,
        chosen: "4",
        ..smt
    });
    check(Case {
        idle: "2 4",
        prev: 2,
        chosen: "2",
        ..smt
    });
    // The idle sibling of the previous CPU is preferred to an idle CPU on another core.
    check(Case {
        idle: "3 4",
        prev: 2,
        chosen: "3",
        ..smt
    });
    check(Case {
        idle: "3 4",
        prev: 2,
        pick_flags: SCX_PICK_IDLE_CORE,
        chosen: "-",
        ..smt
    });
    check(Case {
        idle: "2 4 5",
        prev: 2,
        allowed: "2 3",
        chosen: "2",
        ..smt
    });
}

#[test]
fn an_idle_cpu_in_the_same_llc_comes_first() {
    // LLC 0 has the CPUs 0-3, LLC 1 has the CPUs 4-7.
    let llcs = Case {
        shape: [1, 2, 4, 1],
        ..CASE
    };
    check(Case {
        idle: "1 6",
        prev: 5,
        chosen: "6",
        ..llcs
    });
    check(Case {
        idle: "1 2",
        prev: 5,
        chosen: "1",
        ..llcs
    });
    check(Case {
        idle: "1 6",
        prev: 5,
        allowed: "0 1 2 5",
        chosen: "1",
        ..llcs
    });
    // With SMT, a fully idle core in another LLC is preferred to an idle thread in the task's own
    // LLC. LLC 0 has the CPUs 0-3, LLC 1 has the CPUs 4-7.
    check(Case {
        shape: [1, 2, 2, 2],
        idle: "0 1 7",
        prev: 5,
        chosen: "1",
        ..CASE
    });
    check(Case {
        shape: [1, 2, 2, 2],
        idle: "0 1 6 7",
        prev: 5,
        chosen: "6",
        ..CASE
    });
}

#[test]
fn an_idle_cpu_in_the_same_node_comes_first() {
    // The nodes have the CPUs 0-7 and 8-15. Each LLC has four CPUs.
    let numa = Case {
        shape: [2, 2, 4, 1],
        ..CASE
    };
    check(Case {
        idle: "1 12",
        prev: 9,
        chosen: "12",
        ..numa
    });
    check(Case {
        idle: "1 3",
        prev: 9,
        chosen: "1",
        ..numa
    });
    let per_node = Case {
        flags: SCX_OPS_BUILTIN_IDLE_PER_NODE,
        ..numa
    };
    check(Case {
        idle: "1 12",
        prev: 9,
        chosen: "12",
        ..per_node
    });
    check(Case {
        idle: "1 3",
        prev: 9,
        chosen: "1",
        ..per_node
    });
    check(Case {
        idle: "1 3",
        prev: 9,
        pick_flags: SCX_PICK_IDLE_IN_NODE,
        chosen: "-",
        ..per_node
    });
}

#[test]
fn a_synchronous_wake_up_stays_near_the_waker() {
    let sync = Case {
        shape: [1, 2, 2, 1],
        wake_flags: SCX_WAKE_SYNC,
        ..CASE
    };
    // The previous CPU is idle and in the same LLC as the waker.
    check(Case {
        idle: "0 2 3",
        prev: 3,
        waker: 2,
        chosen: "3",
        ..sync
    });
    // The previous CPU is idle but in another LLC than the waker. The waker's own CPU is chosen.
    check(Case {
        idle: "3",
        prev: 3,
        waker: 0,
        chosen: "0",
        ..sync
    });
    check(Case {
        idle: "",
        prev: 3,
        waker: 0,
        chosen: "-",
        ..sync
    });
    check(Case {
        idle: "3",
        prev: 3,
        waker: 0,
        allowed: "1 2 3",
        chosen: "3",
        ..sync
    });
}

#[test]
fn a_core_is_idle_only_with_all_its_threads() {
    let mut m = machine([1, 1, 2, 2], 0);
    update(&mut m, cpu_id(2), true);
    assert!(!m.idle.smtmask(None).contains(cpu_id(2)));
    update(&mut m, cpu_id(3), true);
    assert!(m.idle.smtmask(None).contains(cpu_id(2)) && m.idle.smtmask(None).contains(cpu_id(3)));
    assert!(test_and_clear_cpu(&mut m, cpu_id(3)));
    assert!(!m.idle.smtmask(None).contains(cpu_id(2)) && m.idle.cpumask(None).contains(cpu_id(2)));
    assert!(!test_and_clear_cpu(&mut m, cpu_id(3)));
}

#[test]
fn picks_rotate_over_a_large_machine() {
    let mut m = machine([2, 8, 64, 1], 0);
    for cpu in [63, 64, 700, 1023] {
        update(&mut m, cpu_id(cpu), true);
    }
    let possible = m.layout.possible;
    let picked: Vec<_> = (0..5).map(|_| pick(&mut m, possible, None, 0)).collect();
    assert_eq!(
        picked,
        [Some(63), Some(64), Some(700), Some(1023), None].map(|nr| nr.map(cpu_id))
    );
    assert_eq!(any_distribute(&mut m, possible), Some(cpu_id(0)));
    assert_eq!(any_distribute(&mut m, possible), Some(cpu_id(1)));
}
