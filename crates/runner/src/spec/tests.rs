// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the description of a run: its command line, its serialisation, and settings by policy.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Command {
    policies: Vec<String>,
    #[command(flatten)]
    spec: RunSpec,
}

fn parse(line: &str) -> RunSpec {
    let words = line.split(' ').skip(1);
    let command = Command::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    let mut specs = command
        .spec
        .for_policies(&command.policies, &[])
        .expect("the policy exists");
    specs.remove(0)
}

/// A description in which no option has its default.
fn full() -> RunSpec {
    parse(
        "windtunnel run eevdf --machine smp4 --workload closed:n=3 --for 20ms --seed 7 --phase random \
             --set eevdf:a=1 --profile eevdf:none --profile-fit loose --sub /a=b --hotplug 3:off@1ms --memory 1G --kernel 6.12 --noise off --after-failure",
    )
}

#[test]
fn the_command_line_of_a_description_describes_the_same_run() {
    let spec = full();
    assert_eq!(
        spec.command("run"),
        "windtunnel run eevdf --machine smp4 --workload closed:n=3 --for 20ms --seed 7 --phase random \
             --set a=1 --profile none --profile-fit loose --sub /a=b --hotplug 3:off@1ms --memory 1G --kernel 6.12 --noise off --after-failure"
    );
    assert_eq!(parse(&spec.command("run")), spec);
    let minimal = parse("windtunnel run eevdf");
    assert_eq!(minimal, RunSpec::default());
    assert_eq!(
        minimal.command("run"),
        "windtunnel run eevdf --workload mixed.json --seed 1"
    );
}

#[test]
fn changes_that_have_no_option_are_a_comment_of_the_command_line() {
    let spec = RunSpec {
        no_costs: true,
        hz: Some(100),
        sanitize: true,
        ..RunSpec::new("eevdf", "smp4", "mixed.json")
    };
    assert!(
        spec.command("run")
            .ends_with(" --seed 1 --sanitize # but without costs at 100 ticks per second")
    );
    let spec = RunSpec {
        scaled: Some(("cache_line".to_owned(), Factor::Half)),
        ..RunSpec::new("eevdf", "smp4", "mixed.json")
    };
    assert!(spec.command("run").ends_with(" --seed 1 # but with cache_line x0.5"));
}

#[test]
fn a_description_survives_serialisation() {
    let spec = RunSpec {
        scaled: Some(("cache_line".to_owned(), Factor::Half)),
        ..full()
    };
    let json = serde_json::to_value(&spec).expect("it can be written");
    assert_eq!((&json["for"], &json["memory"]), (&"20ms".into(), &"1G".into()));
    assert_eq!(
        (&json["kernel"], &json["noise"], &json["phase"]),
        (&"6.12".into(), &"off".into(), &"random".into())
    );
    assert_eq!(RunSpec::from_json(&json.to_string()).expect("it can be read"), spec);
}

#[test]
fn wrong_fields_of_a_description_are_reported() {
    for (json, expected) in [
        (r#"{"phase": "randm"}"#, "phase randm: expected fixed or random"),
        (r#"{"noise": "sever"}"#, "did you mean 'server'?"),
        (r#"{"kernel": "5.4"}"#, "kernel 5.4: "),
        (r#"{"for": "100"}"#, "'100' has no unit"),
        (r#"{"memory": "x"}"#, "'x' is not a size"),
        (r#"{"machin": "smp4"}"#, "machin: unknown field `machin`"),
        (r#"{"seed": -1}"#, "seed: invalid value: integer `-1`, expected u64"),
        (
            r#"{"sanitize": "yes"}"#,
            "sanitize: invalid type: string \"yes\", expected a boolean",
        ),
        ("[1]", "the description of a run: "),
    ] {
        let error = RunSpec::from_json(json).expect_err(json).to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}

#[test]
fn settings_and_profiles_apply_to_the_policy_or_the_side_that_they_name() {
    let spec = RunSpec {
        set: vec!["A:x=1".into(), "eevdf:y=2".into()],
        profile: vec!["none".into(), "B:other".into()],
        ..RunSpec::default()
    };
    let sides = spec
        .for_policies(&["eevdf".into(), "eevdf".into()], &SIDES)
        .expect("the policies exist");
    assert_eq!(
        (&sides[0].set, &sides[1].set),
        (&vec!["x=1".into(), "y=2".into()], &vec!["y=2".into()])
    );
    assert_eq!(
        (sides[0].profile[0].as_str(), sides[1].profile[0].as_str()),
        ("none", "other")
    );
}
