// SPDX-License-Identifier: GPL-2.0-only
//! Whole simulations that are short enough for Miri (scripts/check/miri.sh).

use crate::policies::Run;
use crate::support::*;
use bpf::engine::Engine;
use kernel::Machine;
use workload::Op;

/// Tasks that sleep, compute, and yield.
fn tasks() -> Tasks {
    let us = |run, sleep| sleeper(run * US, sleep * US);
    Tasks::default().add("short", us(30, 70)).add("long", us(250, 50)).add(
        "yields",
        forever(vec![Op::Run(workload::Dist::Fixed(40 * US)), Op::Yield]),
    )
}

#[test]
fn the_fair_class() {
    let mut machine = Machine::new(costly(2), tasks().workload, 1).expect("a machine");
    let mut records = Vec::new();
    machine.run(2 * MS, &mut records);
    assert!(records.len() > 60, "{}", records.len());
}

#[test]
fn a_policy_in_the_interpreter() {
    let machine = Machine::new(costly(2), tasks().workload, sanitizer(true)).expect("a machine");
    let mut run = Run::with_engine(machine, "queues", &[], Engine::Interpreter);
    run.run(MS / 2);
    run.assert_alive();
    assert!(run.records.len() > 15, "{}", run.records.len());
}
