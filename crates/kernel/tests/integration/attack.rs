// SPDX-License-Identifier: GPL-2.0-only
//! Tests of policies that try to use up the computing time or the stack of the host. Each policy
//! must be ended when it reaches a limit. The error message must be the same in the JIT and in the
//! interpreter.

use crate::policies;
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use kernel::load::{LoadError, load};
use profile::Profile;

/// Loads a variant of the policy `attack`. Returns the warnings, and the message with which
/// ops.init() ended.
fn attack(variant: &str, engine: Engine, checked: bool) -> (Vec<String>, String) {
    let object = Object::open(&policies::compile("attack", &[variant])).expect("a BPF object");
    let tasks = Tasks::default().add("t", vec![run_ms(1)]);
    let mut m = Machine::new(costly(2), tasks.workload, sanitizer(checked)).expect("a machine");
    match load(&mut m, &object, &Profile::default(), engine) {
        Ok(image) => (image.warnings, String::new()),
        Err(LoadError::Input(error)) => panic!("{error}"),
        Err(LoadError::Refused(exit)) => (Vec::new(), exit.message.clone()),
    }
}

#[test]
fn an_endless_policy_ends_with_a_policy_error() {
    for variant in ["TREE", "STRSPN", "PROBE_READ", "SNPRINTF"] {
        let [compiled, interpreted] = [Engine::Jit, Engine::Interpreter].map(|engine| attack(variant, engine, false).1);
        assert!(
            compiled.contains("one call executed more than 100000000 BPF instructions"),
            "{variant}: {compiled}"
        );
        assert_eq!(compiled, interpreted, "{variant}");
    }
}

#[test]
fn a_policy_that_the_interpreter_runs_is_reported() {
    let (warnings, message) = attack("LARGE", Engine::Jit, false);
    assert_eq!(message, "");
    let warning =
        "the policy runs in the interpreter, with the same result but many times slower: function attack_init has ";
    assert!(
        warnings.iter().any(|warning_text| warning_text.starts_with(warning)),
        "{warnings:?}"
    );
    assert!(
        warnings
            .iter()
            .any(|warning_text| warning_text.ends_with("the JIT compiles at most 16384"))
    );
    let (warnings, _) = attack("LARGE", Engine::Interpreter, false);
    assert!(
        !warnings.iter().any(|warning_text| warning_text.starts_with(warning)),
        "there must be no warning, because the JIT was not requested"
    );
}
