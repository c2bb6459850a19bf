// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the sanitizer's rules. The files `policies/rules_*.bpf.c` contain small programs. A
//! program that breaks a rule must end with the message that is in its source. A program that keeps
//! the rules must run to its end. (Complete policies that break a rule are in the negative tests of
//! the command `windtunnel`.)

use crate::policies;
use crate::policies::corpus::{Case, FILES, WITHIN, cases};
use crate::support::*;
use bpf::engine::{Engine, Vm};
use bpf::fault::FaultKind;
use bpf::object::{Object, ProgramKind};
use kernel::Machine;
use kernel::load::{attach, check, open};
use kernel::tracepoint::run_syscall_program;
use profile::Profile;
use std::path::Path;

/// Returns the fault message with which a program ends, or an empty text if it does not fault.
/// Programs of type syscall get 20 bytes of input. All other programs get a task and addresses of
/// memory.
fn end(object: &Object, name: &str, engine: Engine) -> String {
    let tasks = Tasks::default().add("t", vec![run_ms(1)]);
    let mut m = Machine::new(costly(2), tasks.workload, sanitizer(true)).expect("a machine");
    let profile = Profile::default();
    let (image, policy) = open(&m, object, &profile, engine).expect("the policy loads");
    attach(&mut m, &image, policy, &profile).expect("the policy is enabled");
    m.run(MS / 2, &mut Vec::new());
    let program = |name| {
        let program = image.programs.iter().find(|program| program.name == name);
        program.unwrap_or_else(|| panic!("no program {name}"))
    };
    let task = m.layout().first_task_addr();
    let faults = Vm::call_args(&mut m, program("faults").function, &[task, task, task]);
    assert!(faults.is_err_and(|fault| fault.message.starts_with("null-dereference")));
    recreate_element(&m);
    let program = program(name);
    if program.kind == ProgramKind::Syscall {
        let mut input = [7; 20];
        let done = run_syscall_program(&mut m, program, &mut input);
        let message = done.err().map(|error| error.to_string()).unwrap_or_default();
        let prefix = format!("program {name}: ");
        return message.strip_prefix(&prefix).unwrap_or(&message).to_string();
    }
    let vm = m.ext().vm();
    vm.set_contexts(u32::MAX);
    if let Some(ring) = vm.map_by_name("samples") {
        let mut ring = ring.ringbuf().expect("the map is a ring buffer").borrow_mut();
        assert!(ring.produce(m.region(), &7u64.to_le_bytes(), 0));
    }
    let memory = image.sections.iter().find(|section| section.name == ".data.given");
    let memory = memory.expect("the object has the section .data.given").addr;
    m.region().store(memory, task).expect("the address is in the region");
    let stride = m.layout().task_stride();
    m.region()
        .store(memory + 8, stride)
        .expect("the address is in the region");
    let kernel_memory = m.region().alloc(8).expect("the region has free memory");
    m.region()
        .store(kernel_memory, task)
        .expect("the address is in the region");
    match Vm::call_args(&mut m, program.function, &[task, memory, kernel_memory]) {
        Ok(_) => String::new(),
        Err(fault) => {
            assert_eq!(fault.kind, FaultKind::Check, "{name}: {fault}");
            fault.message.clone()
        }
    }
}

/// Deletes the element of the map `hash` and creates it again, as user space does. The new element
/// has the same memory.
fn recreate_element(m: &Machine) {
    let hash = m.ext().vm().map_by_name("hash").expect("the policy has this map");
    let (key, value) = (1u32.to_le_bytes(), vec![0; hash.def().value_size as usize]);
    assert_eq!(hash.delete(m.region(), &key), Ok(0));
    assert_eq!(hash.update(m.region(), &key, &value, 0, 0), Ok(0));
}

/// Returns one message for each program of a source file that does not end as its source declares.
fn unexpected_ends(file: &str) -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/policies/{file}.bpf.c"));
    let source = std::fs::read_to_string(source).expect("the source can be read");
    let bytes = std::fs::read(policies::compile(file, &[])).expect("an object");
    let object = Object::parse(&bytes, "rules.bpf.o").expect("a BPF object");
    let cases = cases(&source);
    assert!(cases.len() >= 15, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for Case { name, expected } in &cases {
        let message = end(&object, name, Engine::Jit);
        if !message.starts_with(expected) || expected.is_empty() && !message.is_empty() {
            wrong.push(format!("{name}: expected \"{expected}\", found \"{message}\""));
        }
        let other_message = end(&object, name, Engine::Interpreter);
        if message != other_message {
            wrong.push(format!(
                "{name}: the JIT and the interpreter differ: \"{message}\" and \"{other_message}\""
            ));
        }
    }
    wrong
}

/// All programs run in one test, because messages contain addresses. If tests ran in parallel,
/// their regions (the memory for BPF) would be at different addresses.
#[test]
fn each_program_ends_as_its_source_declares() {
    let mut wrong: Vec<String> = FILES.into_iter().flat_map(unexpected_ends).collect();
    wrong.extend(
        WITHIN
            .iter()
            .filter_map(|&(define, expected)| unexpected_end_within(define, expected)),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The programs in which `check` finds an error without running them. They must break a rule.
#[test]
fn the_analysis_of_the_code_finds_errors_only_in_programs_that_break_a_rule() {
    let machine = Machine::new(costly(2), Tasks::default().workload, 1).expect("a machine");
    let mut found = 0;
    for file in FILES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/policies/{file}.bpf.c"));
        let source = std::fs::read_to_string(source).expect("the source can be read");
        let bytes = std::fs::read(policies::compile(file, &[])).expect("an object");
        let object = Object::parse(&bytes, "rules.bpf.o").expect("a BPF object");
        let checked = check(&machine, &object, &Profile::default(), Engine::Interpreter).expect("the object loads");
        let keeps = cases(&source).into_iter().filter(|case| case.expected.is_empty());
        for Case { name, .. } in keeps {
            let place = format!(" in {name} (");
            let wrong = checked.findings.iter().find(|finding| finding.contains(&place));
            assert_eq!(wrong, None, "{name} breaks no rule");
        }
        let broken = cases(&source).into_iter().filter(|case| !case.expected.is_empty());
        for Case { name, expected } in broken {
            let place = format!(" in {name} (");
            let check = expected.split(':').next().unwrap_or_default();
            let named = |finding: &&String| finding.contains(&place) && finding.starts_with(check);
            found += usize::from(checked.findings.iter().any(|finding| named(&finding)));
        }
    }
    assert!(found >= 13, "errors are found in {found} programs");
}

/// Returns a message if a variant of `rules_within` does not end as expected, otherwise `None`.
fn unexpected_end_within(define: &str, expected: &str) -> Option<String> {
    let [jit, interpreter] = [Engine::Jit, Engine::Interpreter].map(|engine| end_within(define, engine));
    let good = match expected {
        "" => jit.is_empty(),
        _ => jit.contains(expected),
    };
    if !good {
        return Some(format!("{define}: expected \"{expected}\", found \"{jit}\""));
    }
    (jit != interpreter)
        .then(|| format!("{define}: the JIT and the interpreter differ: \"{jit}\" and \"{interpreter}\""))
}

/// Returns the message with which a variant of the policy `rules_within` ends. The message is empty
/// if the policy is still loaded at the end of the run.
fn end_within(define: &str, engine: Engine) -> String {
    let task = || vec![run_ms(1), sleep_ms(1), run_ms(1)];
    let tasks = (0..3).fold(Tasks::default(), |tasks, n| tasks.add(&format!("t{n}"), task()));
    let mut m = Machine::new(costly(2), tasks.workload, sanitizer(true)).expect("a machine");
    let bytes = std::fs::read(policies::compile("rules_within", &[define])).expect("an object");
    let object = Object::parse(&bytes, "within.bpf.o").expect("a BPF object");
    let profile = Profile::default();
    let (image, policy) = open(&m, &object, &profile, engine).expect("the policy loads");
    attach(&mut m, &image, policy, &profile).expect("the policy is enabled");
    m.run(10 * MS, &mut Vec::new());
    if image.get(m.region(), "nr_within").is_ok_and(|within| within == "0") {
        return format!("no program ran within another; {:?}", m.ext().exit);
    }
    m.ext().exit.as_ref().map_or(String::new(), |exit| exit.to_string())
}
