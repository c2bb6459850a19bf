// SPDX-License-Identifier: GPL-2.0-only
//! A policy from an untrusted source in checked mode: whatever it calls with whatever arguments, the run ends with a named
//! error or goes on, both engines see the same, and what is not the policy's has not changed.
#[path = "hostile/calls.rs"]
mod calls;
mod policies;
mod support;

use bpf::object::Object;
use bpf::vm::Engine;
use calls::Draw;
use kernel::Machine;
use kernel::ext::{Kind, kfuncs};
use kernel::load::{LoadError, attach, open_changed};
use kernel::profile::Profile;
use std::collections::BTreeMap;
use support::*;
use trace::Record;

/// The fuzz target `calls` goes on from here.
const SEEDS: u64 = 200;

/// Says which seed it was if something panics.
struct Seed(u64, Engine);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, {:?}", self.0, self.1);
        }
    }
}

/// How a hostile policy ends, and what happened meanwhile.
fn run(object: &Object, seed: u64, engine: Engine) -> (String, Vec<Record>) {
    let _seed = Seed(seed, engine);
    let tasks = (0..4).fold(Tasks::default(), |tasks, i| {
        tasks.add(&format!("t{i}"), vec![run_ms(1), sleep_ms(1), run_ms(1)])
    });
    let mut m = Machine::new(costly(2), tasks.workload, 1).expect("a machine");
    m.checked = true;
    let table = kfuncs::table(&m.spec.costs);
    let profile = Profile::default();
    let put = |image: &mut _| calls::put(image, &table, &mut Draw::new(seed, &[]));
    let (image, policy) = match open_changed(&m, object, &profile, engine, put) {
        Ok(opened) => opened,
        // What the verifier is known to refuse.
        Err(error) => return (error.to_string(), Vec::new()),
    };
    let constants = image
        .sections
        .iter()
        .find(|section| section.name == ".rodata")
        .expect("constants");
    let constants = (constants.addr, constants.size);
    let before = m.region.bytes(constants.0, constants.1).expect("constants").to_vec();
    let mut records = Vec::new();
    let refused = match attach(&mut m, &image, policy, &profile) {
        Ok(()) => None,
        Err(LoadError::Input(message)) => panic!("{message}"),
        Err(LoadError::Refused(exit)) => Some(exit),
    };
    m.run(10 * MS, &mut records);
    m.verify();
    assert_eq!(m.region.bytes(constants.0, constants.1).expect("constants"), before);
    let exit = refused.as_deref().or(m.ext.exit.as_ref());
    let told = exit.map_or("it goes on".to_string(), |exit| {
        let by_itself = matches!(exit.kind, Kind::None | Kind::Unreg | Kind::UnregBpf);
        assert!(by_itself || !exit.message.is_empty(), "{exit}");
        exit.message.clone()
    });
    (told, records)
}

#[test]
#[allow(clippy::disallowed_methods)] // tests read files
fn a_hostile_policy_does_no_harm() {
    let path = policies::compile("hostile", &[]);
    let bytes = std::fs::read(&path).expect("an object");
    let object = Object::parse(&bytes, "hostile.bpf.o").expect("a BPF object");
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let (told, records) = run(&object, seed, Engine::Jit);
        let (told_too, records_too) = run(&object, seed, Engine::Interpreter);
        assert_eq!(told, told_too, "seed {seed}");
        assert!(records == records_too, "seed {seed}: {told}");
        let kind = told.split(": ").nth(1).unwrap_or("").to_string();
        *ends.entry(kind).or_default() += 1;
    }
    // The draws reach what they are for.
    for check in ["bad-pointer", "not-a-reference", "special-field", "stack-out-of-bounds"] {
        assert!(ends.contains_key(check), "nothing ended with {check}: {ends:#?}");
    }
}
