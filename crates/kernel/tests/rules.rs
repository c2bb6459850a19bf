// SPDX-License-Identifier: GPL-2.0-only
//! Each rule of checked mode has a program in `policies/rules_*.bpf.c` that breaks it and ends as is written there; some keep to
//! it. What a whole policy looks like that breaks one is in the command's negative tests.
mod policies;
mod support;

use bpf::func::FaultKind;
use bpf::object::Object;
use bpf::vm::{Engine, Vm};
use kernel::Machine;
use kernel::load::{attach, open};
use kernel::profile::Profile;
use std::path::Path;
use support::*;

/// A program of the file, and how it must end: empty if it goes well.
struct Case {
    name: String,
    expected: String,
}

/// `BREAKS(name, "how it ends")` and `KEEPS(name)` at the beginning of lines, with and without `_SLEEPABLE`.
fn cases(source: &str) -> Vec<Case> {
    let case = |line: &str| {
        let line = line.replace("_SLEEPABLE(", "(");
        if let Some(name) = line.strip_prefix("KEEPS(") {
            let name = name.split(')').next()?.to_string();
            return Some(Case {
                name,
                expected: String::new(),
            });
        }
        let (name, expected) = line.strip_prefix("BREAKS(")?.split_once(", \"")?;
        Some(Case {
            name: name.to_string(),
            expected: expected.rsplit_once('"')?.0.to_string(),
        })
    };
    source.lines().filter_map(case).collect()
}

/// How a program ends with a task and memory of its own as arguments: its fault's message.
fn end(object: &Object, name: &str, engine: Engine) -> String {
    let tasks = Tasks::default().add("t", vec![run_ms(1)]);
    let mut m = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    m.checked = true;
    let profile = Profile::default();
    let (image, policy) = open(&m, object, &profile, engine).expect("it loads");
    attach(&mut m, &image, policy, &profile).expect("it is enabled");
    m.run(MS / 2, &mut Vec::new());
    let program = image.programs.iter().find(|program| program.name == name);
    let function = program.unwrap_or_else(|| panic!("no program {name}")).function;
    let vm = m.ext.vm();
    vm.set_contexts(u32::MAX);
    if let Some(ring) = vm.map_by_name("samples") {
        let mut ring = ring.ringbuf().expect("a ring buffer").borrow_mut();
        assert!(ring.produce(&m.region, &7u64.to_le_bytes()));
    }
    let memory = image.sections.iter().find(|section| section.name == ".data.given");
    let memory = memory.expect("memory to be given").addr;
    let task = m.layout.task_addr(0);
    m.region.store(memory, task).expect("its memory");
    match Vm::call_args(&mut m, function, &[task, memory]) {
        Ok(_) => String::new(),
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Check, "{name}: {fault}");
            fault.message.clone()
        }
    }
}

/// Those of a file that end otherwise.
#[allow(clippy::disallowed_methods)] // tests read files
fn wrong(file: &str) -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/policies/{file}.bpf.c"));
    let source = std::fs::read_to_string(source).expect("a source");
    let bytes = std::fs::read(policies::compile(file, &[])).expect("an object");
    let object = Object::parse(&bytes, "rules.bpf.o").expect("a BPF object");
    let cases = cases(&source);
    assert!(cases.len() >= 30, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for Case { name, expected } in &cases {
        let told = end(&object, name, Engine::Jit);
        if !told.starts_with(expected) || expected.is_empty() && !told.is_empty() {
            wrong.push(format!("{name}: not \"{expected}\" but \"{told}\""));
        }
        let told_too = end(&object, name, Engine::Interpreter);
        if told != told_too {
            wrong.push(format!("{name}: the engines differ: \"{told}\" and \"{told_too}\""));
        }
    }
    wrong
}

/// One test: two at a time would have regions at different addresses, which faults tell of.
#[test]
fn each_rule_is_kept_or_told() {
    let wrong = [wrong("rules_memory"), wrong("rules_held")].concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
