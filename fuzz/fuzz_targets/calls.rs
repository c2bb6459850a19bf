// SPDX-License-Identifier: GPL-2.0-only
//! Runs hostile policies (schedulers for sched_ext). The input bytes control the generator of the
//! policies: they decide which functions a policy calls, in which callbacks, and with which
//! arguments.
//!
//! The sanitizer checks every memory access and call of the policy. The interpreter and the JIT
//! must agree: either both end the policy with the same message, or neither ends it. The accounting
//! of the machine must stay consistent. This target needs clang-19 to compile hostile.bpf.c, which
//! declares the maps and callbacks of the policies.
#![no_main]

#[path = "../../crates/kernel/tests/integration/hostile/calls.rs"]
mod calls;

use bpf::engine::Engine;
use bpf::object::Object;
use calls::Draw;
use kernel::kfuncs;
use kernel::load::{LoadError, attach, open_changed};
use kernel::{Machine, Options};
use libfuzzer_sys::fuzz_target;
use machine::MachineSpec;
use profile::Profile;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use trace::Record;
use workload::{Dist, Op, Tasks};

static OBJECT: LazyLock<Object> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kernel/tests/policies/hostile.bpf.c");
    let out = std::env::temp_dir().join(format!("hostile-{}.bpf.o", std::process::id()));
    let done = Command::new("clang-19")
        .args(["-g", "-O2", "-mcpu=v3", "-target", "bpf", "-c"])
        .arg(&source)
        .arg("-o")
        .arg(&out)
        .status()
        .expect("clang-19 is installed");
    assert!(done.success(), "clang-19 compiles {source:?}");
    let bytes = std::fs::read(&out).expect("clang-19 has written the object");
    std::fs::remove_file(&out).expect("the compiled object can be removed");
    Object::parse(&bytes, "hostile.bpf.o").expect("clang-19 writes a valid BPF object")
});

fn run(bytes: &[u8], engine: Engine) -> (String, Vec<Record>) {
    let op = Op::Run(Dist::Fixed(1_000_000));
    let sleep = Op::Sleep(Dist::Fixed(1_000_000));
    let tasks = (0..3).fold(Tasks::default(), |tasks, i| {
        tasks.add(&format!("t{i}"), vec![op.clone(), sleep.clone(), op.clone()])
    });
    let options = Options {
        sanitizer: true,
        ..Options::from(1)
    };
    let machine = Machine::new(MachineSpec::smp(2), tasks.workload, options);
    let mut m = machine.expect("the machine and the workload are valid");
    let table = kfuncs::table(&m.spec.costs);
    let profile = Profile::default();
    let put = |image: &mut _| calls::put(image, &table, &mut Draw::new(0, bytes));
    let (image, policy) = match open_changed(&m, &OBJECT, &profile, engine, put) {
        Ok(opened) => opened,
        Err(error) => return (error.to_string(), Vec::new()),
    };
    let mut records = Vec::new();
    let refused = match attach(&mut m, &image, policy, &profile) {
        Ok(()) => None,
        Err(LoadError::Input(message)) => panic!("{message}"),
        Err(LoadError::Refused(exit)) => Some(exit),
    };
    m.run(5_000_000, &mut records);
    m.verify();
    let exit = refused.as_deref().or(m.ext.exit.as_ref());
    (exit.map_or(String::new(), |exit| exit.message.clone()), records)
}

fuzz_target!(|bytes: &[u8]| {
    let interpreted = run(bytes, Engine::Interpreter);
    // Compiling takes most of the time, so only one input in eight runs on both engines.
    if bytes.first().is_some_and(|first| first % 8 == 0) {
        let compiled = run(bytes, Engine::Jit);
        assert!(
            interpreted == compiled,
            "the interpreter ended with '{}', the JIT with '{}'",
            interpreted.0,
            compiled.0
        );
    }
});
