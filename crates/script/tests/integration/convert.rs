// SPDX-License-Identifier: GPL-2.0-only
//! Converts workloads into scripts under EEVDF, and executes the scripts.

use machine::MachineSpec;
use script::{Converted, Script, Source, convert, run};

const NO_POLICY: &str = "no policy is loaded";

/// Converts a workload in rt-app's format on `cpus` CPUs.
fn converted(json: &str, cpus: u32, ms: u64) -> Result<Converted, input::Error> {
    converted_on(&MachineSpec::smp(cpus), json, ms)
}

/// Converts a workload in rt-app's format on a machine.
fn converted_on(machine: &MachineSpec, json: &str, ms: u64) -> Result<Converted, input::Error> {
    let workload = workload::rtapp::read(json, "test").expect("a workload");
    let source = Source {
        machine,
        policy: None,
        workload: &workload,
        for_ns: ms * 1_000_000,
        stall_ns: 500_000_000,
    };
    convert(&source, |_, _, _| panic!("{NO_POLICY}"))
}

fn text(json: &str, cpus: u32, ms: u64) -> String {
    converted(json, cpus, ms).unwrap_or_else(|error| panic!("{error}")).text
}

#[test]
fn tasks_compute_and_sleep_at_the_times_of_their_programs() {
    let json = r#"{ "tasks": {
        "a": { "loop": 2, "cpus": [0], "run": 1000, "sleep": 3000 },
        "b": { "loop": 1, "cpus": [0], "priority": 5, "run": 500 } } }"#;
    let expected = "\
machine cpus=1
create a cpus=1
create b nice=5 cpus=1
wake a from=1
wake b from=1
advance 1200us
exit b
advance 300us
sleep a 3ms
advance 4ms
sleep a 3ms
advance 3ms
exit a
";
    // Task b preempts task a after 0.7 ms.
    assert_eq!(text(json, 1, 20), expected);
}

#[test]
fn the_script_repeats_the_events_of_the_conversion() {
    let json = r#"{ "resources": { "p": { "type": "pipe" } }, "tasks": {
        "hog": { "instance": 3, "loop": 10, "run": 7000 },
        "ask": { "loop": 4, "run": 300, "send": { "ref": "p", "bytes": 1 }, "sleep": 2000 },
        "answer": { "loop": 4, "recv": "p", "run": 200 },
        "forker": { "loop": 2, "run": 100, "fork": "child", "sleep": 900 },
        "child": { "instance": 0, "loop": 1, "run": 400 } },
        "disturbances": [ { "at": 5000, "offline": 1 }, { "at": 9000, "online": 1 } ] }"#;
    let text = text(json, 2, 200);
    for line in [
        "wake answer by=ask sync",
        "block answer",
        "thread forker child_1",
        "exit child_1",
        "hotplug 2 off",
        "exit hog_3",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
    }
    let script = Script::parse("converted", &text).expect("a script");
    let log = run(&script, |_, _, _| panic!("{NO_POLICY}")).expect("the script runs");
    let refused: Vec<&str> = log.lines().filter(|line| line.starts_with('!')).collect();
    assert!(refused.is_empty(), "{refused:?}\n{text}");
}

#[test]
fn a_step_that_a_script_cannot_express_is_named() {
    let json = r#"{ "resources": { "b": { "type": "barrier" } }, "tasks": {
        "a": { "instance": 2, "loop": 2, "run": 10, "barrier": "b" } } }"#;
    let error = converted(json, 2, 20).expect_err("a barrier").to_string();
    assert!(
        error.contains("a script cannot express the step Barrier of task a_1"),
        "{error}"
    );
}

#[test]
fn a_machine_is_described_by_its_sets() {
    let json = r#"{ "tasks": { "a": { "loop": 1, "run": 10 } } }"#;
    let first = |cpus| text(json, cpus, 1).lines().next().map(str::to_owned);
    assert_eq!(first(4), Some("machine cpus=4".to_owned()));
    let error = converted(json, 17, 1).expect_err("too many CPUs").to_string();
    assert!(
        error.contains("a script cannot express a machine with 17 CPUs"),
        "{error}"
    );
}

#[test]
fn the_features_of_the_scheduler_are_part_of_the_machine() {
    let mut machine = MachineSpec::smp(2);
    machine.kernel.features.set(machine::Feature::NextBuddy, true);
    machine.kernel.features.set(machine::Feature::NiRandom, false);
    let json = r#"{ "tasks": { "a": { "loop": 1, "run": 10 } } }"#;
    let text = converted_on(&machine, json, 1).expect("a script").text;
    assert!(
        text.starts_with("machine cpus=2 features=NEXT_BUDDY,NO_NI_RANDOM\n"),
        "{text}"
    );
}
