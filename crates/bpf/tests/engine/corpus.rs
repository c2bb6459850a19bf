// SPDX-License-Identifier: GPL-2.0-only
//! Runs the corpus: files with small programs and their results. Both engines must return these
//! results.
//!
//! A case consists of a line `== name`, a program, and one line `-> VALUE [insns N]` or `-> fault
//! KIND "part of the message" at PC [insns N]`. At the start of a program, r1 is the address of 4
//! KiB of zeros, r2 is 10, r3 is 0x1122334455667788, r4 is -1, and r5 is the task.

use std::fmt::Write;
use std::path::Path;

use bpf::engine::{Engine, Vm, World};
use bpf::fault::FaultKind;

use crate::asm;
use crate::world::TestWorld;

/// Number of instructions that one call may execute.
const BUDGET: u64 = 100_000;

/// Runs all cases of a file in both engines.
fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(file);
    let text = std::fs::read_to_string(&path).expect("the corpus file exists");
    let mut world = TestWorld::new();
    let mut failures = String::new();
    let mut cases = 0;
    for case in text.split("\n== ").skip(1) {
        let (name, body) = case.split_once('\n').expect("a case has a name and a program");
        let (program, expected) = body.split_once("\n->").expect("a case has a program and a result");
        let expected = expected.lines().next().unwrap_or("").trim();
        for &engine in Engine::AVAILABLE {
            cases += 1;
            let got = run(&mut world, program, engine).unwrap_or_else(|error| format!("error: {error}"));
            if !matches(expected, &got) {
                writeln!(
                    failures,
                    "{file}, {name}, {engine:?}:\n  expected {expected}\n  got      {got}"
                )
                .unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(cases > 0, "{file} has no cases");
}

/// Runs a program in one engine. Returns its result in the notation of the corpus.
fn run(world: &mut TestWorld, text: &str, engine: Engine) -> Result<String, String> {
    let mut program = asm::assemble(text)?;
    for map in &mut program.maps {
        map.handle = world.region.alloc(64).ok_or("memory")?;
    }
    for &(at, map) in &program.map_refs {
        program.code.insns[at].imm = program.maps[map].handle as i64;
    }
    let loaded = world.load(program.code, &program.maps, program.types, engine);
    loaded.map_err(|error| error.to_string())?;
    world.vm().set_budget(BUDGET);
    let before = world.vm().executed();
    let args = [world.memory, 10, 0x1122_3344_5566_7788, u64::MAX, world.task];
    let result = Vm::call(world, 0, args);
    let insns = world.vm().executed() - before;
    Ok(match result {
        Ok(value) => format!("{value:#x} insns {insns}"),
        Err(fault) => {
            let kind = match fault.kind {
                FaultKind::Memory => "memory",
                FaultKind::Budget => "budget",
                FaultKind::Stack => "stack",
                FaultKind::Trap => "trap",
                FaultKind::Func => "func",
                FaultKind::NotAllowed => "not-allowed",
                FaultKind::Check => "check",
                FaultKind::Throw(_) => "throw",
            };
            let pc = fault.pc.map_or("nowhere".into(), |pc| pc.to_string());
            format!("fault {kind} \"{}\" at {pc} insns {insns}", fault.message)
        }
    })
}

/// Compares a result with the expected one. Values are compared as numbers. A message must contain
/// the expected text. The number of instructions is compared only if the corpus gives one.
fn matches(expected: &str, got: &str) -> bool {
    let (want, want_insns) = expected.split_once(" insns ").unwrap_or((expected, ""));
    let (have, have_insns) = got.split_once(" insns ").unwrap_or((got, ""));
    if !want_insns.is_empty() && want_insns != have_insns {
        return false;
    }
    if let (Some(want), Some(have)) = (want.strip_prefix("fault "), have.strip_prefix("fault ")) {
        let parts = |text: &str| -> Option<[String; 3]> {
            let (kind, rest) = text.split_once(" \"")?;
            let (message, at) = rest.rsplit_once("\" at ")?;
            Some([kind.into(), message.into(), at.into()])
        };
        let (Some(want), Some(have)) = (parts(want), parts(have)) else {
            return false;
        };
        return want[0] == have[0] && have[1].contains(&want[1]) && want[2] == have[2];
    }
    let value = |text: &str| -> Option<u64> {
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse::<i64>().ok().map(|v| v as u64),
        }
    };
    value(want).is_some() && value(want) == value(have)
}

macro_rules! corpus {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            check(concat!(stringify!($name), ".txt"));
        }
    )*};
}

corpus! { alu jumps memory atomics calls faults maps objects strings locks_and_timers }

#[test]
fn every_file_is_run() {
    let names = [
        "alu",
        "jumps",
        "memory",
        "atomics",
        "calls",
        "faults",
        "maps",
        "objects",
        "strings",
        "locks_and_timers",
    ];
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for entry in std::fs::read_dir(dir).expect("the corpus exists") {
        let name = entry.expect("the directory can be read").file_name();
        let name = name.to_string_lossy().trim_end_matches(".txt").to_string();
        assert!(names.contains(&name.as_str()), "{name}.txt is not in the list of tests");
    }
}
