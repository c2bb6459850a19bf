// SPDX-License-Identifier: GPL-2.0-only
//! Tests of policies that identify CPUs by cid. A cid is a topological CPU number: the CPUs of a
//! core have consecutive cids.

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use kernel::load::check;
use profile::Profile;

/// Returns a machine with four CPUs. CPUs 0 and 2 are one core, CPUs 1 and 3 the other.
fn machine() -> Machine {
    let mut spec = free(4);
    for (cpu, info) in spec.topology.cpus.iter_mut().enumerate() {
        (info.core, info.thread) = (cpu as u32 % 2, cpu as u32 / 2);
    }
    spec.topology = machine::Topology::new(spec.topology.cpus.clone(), Vec::new());
    let tasks = Tasks::default().add("pinned", sleeper(MS, MS)).with(|task| {
        task.cpus = Some(vec![1, 2]);
        task.start_cpu = Some(2);
    });
    let tasks = tasks.add("free", sleeper(MS, MS)).with(|task| task.start_cpu = Some(3));
    Machine::new(spec, tasks.workload, 1).expect("a machine")
}

/// Loads the policy `cid` and returns its run after 50 ms.
fn started(defines: &[&str]) -> Run {
    let mut machine = machine();
    machine.advance(MS / 2, &mut Vec::new());
    let mut run = Run::new(machine, "cid", defines);
    run.run(50 * MS);
    run.assert_alive();
    run
}

#[test]
fn siblings_have_adjacent_cids() {
    let run = started(&[]);
    assert_eq!((run.var("wrong_dispatch"), run.var("wrong_task")), (0, 0));
    // CPU 2 has cid 1 and CPU 1 has cid 2. The affinity mask contains both cids.
    assert_eq!(
        (run.var("mask_bits"), run.var("mask_cids"), run.var("mask_words")),
        (0b0110, 4, 2)
    );
    let place = |i: u32| run.var(&format!("places[{i}]")) as i32;
    assert_eq!((0..7).map(place).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, -1]);
    assert!(run.var("dispatched[1]") > 10 && run.var("dispatched[3]") > 10);
    assert_eq!((run.var("idled[0]"), run.var("cpu_of_0")), (0, 0));
    assert!(run.var("idled[1]") > 10);
}

#[test]
fn init_can_assign_cids() {
    let run = started(&["REVERSE"]);
    assert_eq!(
        (run.var("wrong_dispatch"), run.var("wrong_task"), run.var("cpu_of_0")),
        (0, 0, 3)
    );
    // Here the policy gave CPU 1 the cid 2, and CPU 2 the cid 1. The task that is pinned to CPU 3
    // is on cid 0.
    assert_eq!(run.var("mask_bits"), 0b0110);
    assert!(run.var("dispatched[0]") > 10 && run.var("dispatched[1]") > 10);
    assert_eq!(
        run.var("places[0]") as i32,
        -1,
        "cids that the policy assigned have no topology"
    );
}

#[test]
fn invalid_cids_end_the_policy_with_the_kernels_message() {
    let message = |defines: &[&str]| match Run::load(&mut machine(), "cid", defines) {
        Err(exit) => exit.message,
        Ok(_) => panic!("the policy with {defines:?} was loaded, but must be refused"),
    };
    assert_eq!(message(&["TWICE"]), "cid 3 assigned to multiple cpus");
    assert_eq!(message(&["RANGE"]), "invalid cid 4");
    let no_arena = message(&["NO_ARENA"]);
    assert!(
        no_arena.starts_with("cid-form scheduler must use a BPF arena map"),
        "{no_arena}"
    );
    let mut run = Run::new(machine(), "cid", &["BAD"]);
    run.run(20 * MS);
    assert_eq!(run.exit().message, "invalid cid 99");
}

#[test]
fn kfuncs_with_cpu_numbers_are_rejected() {
    let object = Object::parse(&std::fs::read(compile("cid", &["CPU_ONLY"])).unwrap(), "cid.bpf.o").unwrap();
    let error =
        check(&machine(), &object, &Profile::default(), Engine::default()).expect_err("the policy must be rejected");
    assert!(
        error
            .to_string()
            .contains("calling kernel function scx_bpf_kick_cpu is not allowed"),
        "{error}"
    );
}
