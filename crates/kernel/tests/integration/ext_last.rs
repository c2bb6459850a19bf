// SPDX-License-Identifier: GPL-2.0-only
//! Tests with the policy `last`. When the slice of the only runnable task of a CPU ends, the task
//! is enqueued again (SCX_OPS_ENQ_LAST), and the policy kicks the CPU. Further tests check that
//! a callback must test its arguments for NULL if they may be NULL.

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use kernel::load::open;
use profile::Profile;

#[test]
fn a_kick_under_the_cpus_own_runqueue_lock_is_not_lost() {
    let tasks = Tasks::default().add("hog", vec![run_ms(1000)]);
    let machine = Machine::new(costly(1), tasks.workload, 1).expect("a machine");
    let mut run = Run::new(machine, "last", &[]);
    run.run(100 * MS);
    run.assert_alive();
    // The slice of the task ends at every other tick.
    assert!(run.var("nr_last") > 40, "{}", run.var("nr_last"));
    let used = run.machine.tasks()[0].sum_exec_runtime();
    assert!(used > 95 * MS, "{used}");
}

#[test]
fn arguments_that_may_be_null_must_be_tested() {
    let machine = Machine::new(costly(2), Tasks::default().workload, 1).expect("a machine");
    let verdict = |defines: &[&str]| {
        let bytes = std::fs::read(compile("last", defines)).unwrap();
        let object = Object::parse(&bytes, "last.bpf.o").unwrap();
        open(&machine, &object, &Profile::default(), Engine::default()).map(drop)
    };
    let message = verdict(&["USES"]).expect_err("the policy must be rejected").to_string();
    assert!(
        message.contains("ops.dispatch(): R") && message.contains("invalid mem access 'trusted_ptr_or_null_'"),
        "{message}"
    );
    assert!(message.contains("seen = prev->scx.weight"), "{message}");
    for allowed in [&[][..], &["TESTS"]] {
        verdict(allowed).unwrap_or_else(|error| panic!("{allowed:?}: {error}"));
    }
}
