// SPDX-License-Identifier: GPL-2.0-only
//! Tests of profiles. A profile is a file with the steps that a policy's user-space part performs
//! after the object was loaded. The steps set map entries, run programs, and store values into
//! memory whose addresses programs return. A step is performed either before or after the policy is
//! enabled.

use crate::policies::{Run, compile};
use crate::support::*;
use bpf::engine::Engine;
use bpf::object::Object;
use kernel::Machine;
use kernel::load::{LoadError, load};
use machine::Topology;
use profile::{Arg, Group, Profile, Properties, Run as RunProgram, Setting};
use workload::{Dist, Op};

/// Returns a machine with two nodes of two CPUs each.
fn machine() -> Machine {
    let mut spec = free(4);
    let mut cpus = spec.topology.cpus.clone();
    for (cpu, info) in cpus.iter_mut().enumerate() {
        (info.node, info.llc, info.package) = (cpu as u32 / 2, cpu as u32 / 2, cpu as u32 / 2);
    }
    spec.topology = Topology::new(cpus, Vec::new());
    let tasks = Tasks::default().add("busy", vec![Op::Run(Dist::Fixed(20 * MS))]);
    Machine::new(spec, tasks.workload, 1).expect("a machine")
}

/// Loads the policy `userspace` with a profile.
fn load_with(profile: &Profile) -> Result<Run, String> {
    let mut machine = machine();
    let bytes = std::fs::read(compile("userspace", &[])).expect("an object");
    let mut object = Object::parse(&bytes, "userspace.bpf.o").expect("a BPF object");
    let facts = Properties::new(machine.spec(), &kernel::release::Release::MODELLED);
    profile.apply(&mut object, facts).map_err(|error| error.to_string())?;
    match load(&mut machine, &object, profile, Engine::default()) {
        Ok(image) => Ok(Run {
            machine,
            image,
            records: Vec::new(),
        }),
        Err(LoadError::Input(error)) => Err(error.to_string()),
        Err(LoadError::Refused(exit)) => panic!("{exit}"),
    }
}

#[test]
fn a_setting_can_depend_on_a_variable_of_the_object() {
    let set = |name: &str, when: &str| Setting {
        when: when.into(),
        ..Setting::new(name, "7")
    };
    let run = load_with(&Profile {
        set: vec![
            set("masks_given", "has(masks_given)"),
            set("absent", "has(absent)"),
            set("far", "has(places) & has(bpf_map_lookup_elem) == 0"),
        ],
        ..Profile::default()
    })
    .expect("the policy loads");
    assert_eq!((run.var("masks_given"), run.var("far")), (7, 7));
    let error = load_with(&Profile {
        set: vec![set("absent", "")],
        ..Profile::default()
    });
    assert!(error.is_err());
}

/// Returns settings for all map entries that the policy reads.
fn map_settings() -> Vec<Setting> {
    [
        ("places[cpu].node", "node"),
        ("places[cpu].cpus[1]", "first_of_node"),
        ("distances[node, other_node]", "distance"),
        ("own[1][cpu].node", "node + 1"),
    ]
    .map(|(path, value)| Setting::new(path, value))
    .into()
}

/// Returns a step that runs a program without arguments.
fn program(name: &str) -> RunProgram {
    RunProgram {
        program: name.into(),
        ..RunProgram::default()
    }
}

#[test]
fn a_profile_sets_map_entries() {
    let run = load_with(&Profile {
        map: map_settings(),
        run: vec![program("look")],
        ..Profile::default()
    })
    .expect("the policy loads");
    let all = |name: &str| -> Vec<u64> { (0..4).map(|cpu| run.var(&format!("{name}[{cpu}]"))).collect() };
    assert_eq!((all("node_of"), all("first_of")), (vec![0, 0, 1, 1], vec![0, 0, 2, 2]));
    assert_eq!((all("own_node"), run.var("far")), (vec![1, 1, 2, 2], 20));
}

#[test]
fn a_profile_limits_the_latency_of_idle_states() {
    let load = |limit: &str| {
        load_with(&Profile {
            resume_latency_us: limit.into(),
            ..Profile::default()
        })
    };
    let run = load("8 * nr_cpus").expect("the policy loads");
    for cpu in 0..4 {
        assert_eq!(kernel::native::latency_limit(&run.machine, cpu), Some(32_000));
    }
    let run = load("0").expect("the policy loads");
    assert_eq!(kernel::native::latency_limit(&run.machine, 3), None);
    let error = load("-1").err().unwrap_or_default();
    assert!(
        error.contains("resume_latency_us = -1: expected a number of us"),
        "{error}"
    );
}

#[test]
fn programs_pass_on_results_and_run_before_and_after_enabling() {
    let mut run = load_with(&Profile {
        names: vec![("third".into(), "sizeof(place) / 4".into())],
        map: map_settings(),
        ops: vec![("flags".into(), "flags | SCX_OPS_ENQ_EXITING".into())],
        without: vec!["tick".into()],
        run: vec![
            RunProgram {
                each: Some(Group::Node),
                args: vec!["0:u64".into()],
                result: vec!["mask".into()],
                memory: vec![Setting::new("mask + 8 * word", "cpus_of_node")],
                then: vec![RunProgram {
                    args: vec![
                        "mask:u64".into(),
                        "node".into(),
                        Arg {
                            value: "i + third".into(),
                            times: 3,
                        },
                    ],
                    ..program("keep")
                }],
                ..program("give")
            },
            RunProgram {
                each: Some(Group::Cpu),
                when: "rank == nr_cpus - 1".into(),
                on: "cpu".into(),
                after: true,
                args: vec!["cpu:u64".into()],
                ..program("start")
            },
            RunProgram {
                after: true,
                ..program("look")
            },
            program("look"),
        ],
        ..Profile::default()
    })
    .expect("the policy loads");
    assert_eq!(
        (run.var("masks[0]"), run.var("masks[1]"), run.var("masks_given")),
        (0b11, 0b1100, 2)
    );
    // kept[i] is series[2] * 1000 + 1. Here series[2] = 2 + third, and third = sizeof(struct place)
    // / 4 = 3. The last digit is 1 if keep() got the address that give() had returned.
    assert_eq!(
        (run.var("kept[0]"), run.var("kept[1]"), run.var("kept[2]")),
        (5001, 5001, 0)
    );
    assert_eq!((run.var("started_on"), run.var("started_when")), (3, 2));
    assert_eq!(run.var("order"), 13);
    assert_eq!(run.machine.ext().ops().flags, 16 | 4);
    // The profile removed ops.tick().
    run.run(10 * MS);
    assert_eq!(run.var("order"), 13);
}

#[test]
fn errors_name_the_part_of_a_profile_that_does_not_fit() {
    let check = |profile: Profile, expect: &str| {
        let Err(message) = load_with(&profile) else {
            panic!("the policy loads, but this error was expected: {expect}");
        };
        assert!(message.contains(expect), "{message}");
    };
    let map = |path: &str| Profile {
        map: vec![Setting::new(path, "1")],
        ..Profile::default()
    };
    check(map("nowhere[0]"), "the object has no map nowhere");
    check(map("places"), "expected MAP[KEY]");
    check(map("places[0].nobody"), "no member \"nobody\"");
    check(map("own[0].node"), "the map is a per-CPU map: expected MAP[KEY][cpu]");
    check(map("own[7][0].node"), "an entry cannot be created (-7)");
    check(map("distances[0, 0, 0]"), "a key has 8 bytes, but 6 bytes were given");
    let run = |run: RunProgram| Profile {
        run: vec![run],
        ..Profile::default()
    };
    check(run(program("nothing")), "the object has no program nothing");
    check(
        run(program("look")),
        "the profile does not fit: program look returned -2",
    );
    let on = RunProgram {
        on: "nr_cpus".into(),
        ..program("look")
    };
    check(run(on), "the machine has no CPU 4");
    let elsewhere = RunProgram {
        memory: vec![Setting::new("16", "1")],
        ..RunProgram {
            args: vec!["0:u64".into()],
            ..program("give")
        }
    };
    check(run(elsewhere), "16 = 1: ");
    check(
        Profile {
            without: vec!["nap".into()],
            ..Profile::default()
        },
        "cannot leave out ops.nap",
    );
}
