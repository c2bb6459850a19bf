// SPDX-License-Identifier: GPL-2.0-only
//! The settings of a program are recorded as a profile.

use super::support::run;
use bpf::engine::Engine;
use bpf::object::Object;
use input::Source;
use kernel::{Machine, Options};
use profile::Properties;

#[test]
fn large_globals_take_little_memory() {
    let outcome = run("large");
    assert_eq!(outcome.failure, None);
    let profile = outcome.recorded.expect("a profile was recorded").profile;
    // The BPF program has read the byte.
    for line in ["\"large[41943040]\" = 3", "\"settings.mask[0]\" = 7"] {
        assert!(
            profile.lines().any(|known| known == line),
            "{line} is missing in:\n{profile}"
        );
    }
}

#[test]
fn limits_of_the_latency_of_idle_states_are_recorded() {
    let recorded = run("latency").recorded.expect("a profile was recorded");
    let absent = recorded.profile.lines().find(|line| line.starts_with("absent"));
    let absent = absent.unwrap_or_default();
    assert!(
        absent.contains("limits of the latency of idle states, which differ"),
        "{absent}"
    );
    let recorded = run("latencies").recorded.expect("a profile was recorded");
    assert!(
        recorded.profile.lines().any(|line| line == "resume_latency_us = 32"),
        "{}",
        recorded.profile
    );
}

#[test]
fn a_run_with_the_profile_starts_as_the_program_did() {
    let recorded = run("run").recorded.expect("a profile was recorded");
    for line in [
        "\"settings.offset\" = -3",
        "\"settings.large\" = -1",
        "\"settings.mask[0]\" = 4",
        "\"settings.mask[2..6]\" = 7",
        "weights = 32",
        "\"weights[5].weight\" = 9",
        "program = \"echo_setup\"",
        "args = [\"4\"]",
        // An element of zeros, and settings that follow the attachment.
        "\"weights[6].weight\" = 0",
        "\"weights[7].weight\" = 1",
        "after = true",
        "args = [\"2\"]",
    ] {
        assert!(
            recorded.profile.lines().any(|known| known == line),
            "{line} is missing in:\n{}",
            recorded.profile
        );
    }
    // The BPF program sets this value, and not the program.
    assert!(!recorded.profile.contains("settings.weight"), "{}", recorded.profile);

    let source = Source::new("echo.toml", recorded.profile.clone());
    let profile = profile::file::parse(&source, &mut |_| unreachable!("the profile includes no other"));
    let profile = profile.expect("the profile is valid");
    let spec = machine::load("smp4", &[]).expect("the machine exists");
    let workload = workload::generator::generate("sleepers:n=6").expect("the workload exists");
    let options = Options::from(1);
    let mut object = Object::parse(&recorded.object, "echo.bpf.o").expect("the object is whole");
    let applied = profile.apply(&mut object, Properties::new(&spec, &options.release));
    applied.expect("the profile fits");
    let mut machine = Machine::new(spec, workload, options).expect("a machine");
    let image = kernel::load::load(&mut machine, &object, &profile, Engine::Interpreter).expect("the policy loads");
    let values = [
        "settings.weight",
        "settings.offset",
        "settings.mask[0]",
        "settings.mask[5]",
    ];
    let values = values.map(|path| image.get(machine.region(), path).expect("the global exists"));
    assert_eq!(values, ["6", "-3", "4", "7"]);
}
