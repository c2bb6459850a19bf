// SPDX-License-Identifier: GPL-2.0-only
//! Which profile a policy gets, and where the command names it.

use crate::support::{Ran, object, results, windtunnel};
use serde_json::Value;
use std::path::{Path, PathBuf};

const LOAD: [&str; 6] = [
    "--machine",
    "smp4",
    "--workload",
    "closed:n=8,compute=50ms",
    "--for",
    "200ms",
];

/// Creates a directory with the object of fifo under another name. Returns the path of the object.
fn copied(folder: &str, name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profiles").join(folder);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    let to = folder.join(format!("{name}.bpf.o"));
    std::fs::copy(object("policies/fifo.bpf.c"), &to).expect("the object can be copied");
    to
}

fn run(policies: &[&str], more: &[&str]) -> Ran {
    windtunnel(&[&["run"], policies, &LOAD[..], more].concat())
}

fn line<'a>(ran: &'a Ran, part: &str) -> &'a str {
    let line = ran.stdout.lines().find(|line| line.contains(part));
    line.unwrap_or_else(|| panic!("no line with '{part}': {}{}", ran.stdout, ran.stderr))
}

#[test]
fn a_profile_beside_the_object_is_applied_and_named() {
    let object = copied("beside", "mine");
    let word = object.display().to_string();
    let without = run(&[&word], &[]);
    assert!(!without.stdout.contains("mine: profile"), "{}", without.stdout);
    let beside = object.with_file_name("mine.toml");
    std::fs::write(&beside, "[set]\nslice_ns = 40_000_000\n").expect("the file can be written");
    let named = beside.display().to_string();
    let with = run(&[&word], &[]);
    assert_eq!(line(&with, "mine: profile"), format!("mine: profile {named}"));
    assert_ne!(line(&with, "trace hash"), line(&without, "trace hash"));
    assert!(
        line(&with, "repeat:").ends_with(&format!("--profile {named}")),
        "{}",
        with.stdout
    );
    let args = [&[word.as_str()], &LOAD[..]].concat();
    assert_eq!(results(&args)[0]["profile"], Value::from(named.as_str()));
    // The option is stronger, and can choose that there is none.
    let none = run(&[&word], &["--profile", "none"]);
    assert_eq!(line(&none, "trace hash"), line(&without, "trace hash"));
    assert!(line(&none, "repeat:").ends_with("--profile none"), "{}", none.stdout);
}

#[test]
fn the_profile_beside_the_object_precedes_the_one_in_the_profiles_directory() {
    let object = copied("order", "steal");
    let word = object.display().to_string();
    // profiles/steal.toml sets variables that fifo does not have.
    let shipped = run(&[&word], &[]);
    assert_eq!(shipped.status, 2, "{}", shipped.stdout);
    assert!(shipped.stderr.contains("profile of steal: "), "{}", shipped.stderr);
    std::fs::write(object.with_file_name("steal.toml"), "").expect("the file can be written");
    let beside = run(&[&word], &[]);
    assert_eq!(beside.status, 0, "{}", beside.stderr);
}

#[test]
fn a_profile_of_the_profiles_directory_is_named_without_a_path() {
    let ran = run(&["steal"], &[]);
    assert_eq!(line(&ran, "steal: profile"), "steal: profile steal.toml");
    assert!(
        line(&ran, "repeat:").ends_with("--profile steal.toml"),
        "{}",
        ran.stdout
    );
    let again = run(&["steal"], &["--profile", "steal.toml"]);
    assert_eq!(line(&again, "trace hash"), line(&ran, "trace hash"));
    assert_eq!(line(&again, "repeat:"), line(&ran, "repeat:"));
}

#[test]
fn each_of_several_policies_can_have_a_profile() {
    let object = copied("several", "mine");
    let word = object.display().to_string();
    let short = object.with_file_name("short.toml").display().to_string();
    std::fs::write(&short, "[set]\nslice_ns = 40_000_000\n").expect("the file can be written");
    let alone = run(&[&word], &["--profile", &short]);
    let ran = run(&[&word, "steal", "rr"], &["--profile", &format!("mine:{short}")]);
    assert_eq!(line(&ran, "mine: trace hash"), line(&alone, "trace hash"));
    let repeat = line(&ran, "repeat:");
    let expected = format!("--profile mine:{short} --profile steal:steal.toml");
    assert!(repeat.ends_with(&expected), "{repeat}");
    let sides = [
        "compare",
        &word,
        &word,
        "--runs",
        "2",
        "--profile",
        &format!("B:{short}"),
    ];
    let compared = windtunnel(&[&sides, &LOAD[..]].concat());
    assert_eq!(line(&compared, "B: profile"), format!("B: profile {short}"));
    assert!(!compared.stdout.contains("A: profile"), "{}", compared.stdout);
    let json = windtunnel(&[&sides, &LOAD[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json.stdout).expect("the output is JSON");
    assert_eq!(json["profiles"]["a"], Value::Null);
    assert_eq!(json["profiles"]["b"], Value::from(short));
}

#[test]
fn a_file_that_is_no_profile_is_reported_with_the_reason_for_reading_it() {
    let object = copied("wrong", "mine");
    let word = object.display().to_string();
    std::fs::write(object.with_file_name("mine.toml"), "policies = ['fifo']\n").expect("the file can be written");
    let ran = run(&[&word], &[]);
    assert_eq!(ran.status, 2);
    for part in [
        "mine.toml:1:1: unknown key 'policies'",
        "beside the object",
        "--profile none",
    ] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    for (wanted, hint) in [
        ("lavd", "did you mean scx_lavd.toml?"),
        ("steel.toml", "did you mean steal.toml?"),
        ("./nothing.toml", "give the path of a profile"),
    ] {
        let ran = run(&["fifo"], &["--profile", wanted]);
        assert_eq!(ran.status, 2);
        assert!(
            ran.stderr
                .contains(&format!("--profile {wanted}: there is no such file")),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
}

#[test]
fn all_misfits_of_a_profile_are_reported_at_once_and_can_be_left_out() {
    let object = copied("misfits", "mine");
    let word = object.display().to_string();
    let profile = object.with_file_name("mine.toml");
    let text = "without = ['tick']\nattach = ['nosuch_program']\ninner_maps = ['nosuch_map']\n\
                [set]\nslice_ns = 40_000_000\nnosuch_global = 1\n'nosuch_array[cpu]' = 'capacity'\n\
                [resize]\nnosuch_table = 'nr_cpus'\n[map]\n'nosuch_counters[cpu]' = 0\n[ops]\nname = 1\n\
                [[run]]\nprogram = 'nosuch_setup'\n";
    std::fs::write(&profile, text).expect("the file can be written");
    let strict = run(&[&word], &[]);
    assert_eq!(strict.status, 2, "{}", strict.stderr);
    let misfits = [
        "resize nosuch_table: ",
        "set 'nosuch_array[cpu]': ",
        "set nosuch_global: ",
        "inner_maps nosuch_map: the object has no map nosuch_map",
        "map nosuch_counters[cpu]: the object has no map nosuch_counters",
        "ops name: a profile can only set flags, ",
        "attach nosuch_program: the object has no program nosuch_program",
        "run nosuch_setup: the object has no program nosuch_setup",
    ]
    .map(|misfit| misfit.replace('\'', ""));
    assert!(
        strict.stderr.contains("profile of mine: 8 parts do not fit"),
        "{}",
        strict.stderr
    );
    assert!(strict.stderr.contains("--profile-fit loose"), "{}", strict.stderr);
    let loose = run(&[&word], &["--profile-fit", "loose"]);
    assert_eq!(loose.status, 0, "{}", loose.stderr);
    for misfit in &misfits {
        assert!(
            strict.stderr.contains(&format!("\n  {misfit}")),
            "no '{misfit}' in {}",
            strict.stderr
        );
        let warning = format!("mine: warning: left out of the profile: {misfit}");
        assert!(loose.stderr.contains(&warning), "no '{warning}' in {}", loose.stderr);
    }
    assert!(
        line(&loose, "repeat:").contains(" --profile-fit loose"),
        "{}",
        loose.stdout
    );
    // The parts that fit are applied.
    let expected = run(&[&word], &["--profile", "none", "--set", "slice_ns=40000000"]);
    assert_eq!(line(&loose, "trace hash"), line(&expected, "trace hash"));
}

#[test]
fn a_profile_gives_values_to_fields_that_are_not_modelled() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profiles/fields");
    std::fs::create_dir_all(&folder).expect("the directory can be created");
    let source = object("crates/windtunnel/tests/policies/task_fields.bpf.c");
    let path = folder.join("task_fields.bpf.o");
    std::fs::copy(source, &path).expect("the object can be copied");
    let word = path.display().to_string();
    let counters = |ran: &Ran| -> Vec<String> {
        let found = ran.stdout.lines().filter(|line| line.starts_with("seen_"));
        found
            .map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let quiet = run(&[&word], &["--details", "-"]);
    assert_eq!(quiet.status, 0, "{}", quiet.stderr);
    assert!(
        quiet.stderr.contains(
            "struct task_struct___unmodelled.nosuch_number is not modelled and reads as 0 ([fields] in a profile"
        ),
        "{}",
        quiet.stderr
    );
    assert!(counters(&quiet).is_empty(), "{}", quiet.stdout);
    let profile = folder.join("values.toml");
    std::fs::write(
        &profile,
        "[fields]\n'task_struct.nosuch_number' = 'nr_cpus'\n'task_struct.nosuch_bit' = 1\n",
    )
    .expect("the file can be written");
    let set = run(
        &[&word],
        &["--details", "-", "--profile", &profile.display().to_string()],
    );
    assert!(!set.stderr.contains("reads as 0"), "{}", set.stderr);
    assert_eq!(counters(&set), ["seen_number 0 4", "seen_bit 0 1"], "{}", set.stdout);
    std::fs::write(&profile, "[fields]\n'task_struct.pid' = 1\n").expect("the file can be written");
    let wrong = run(&[&word], &["--profile", &profile.display().to_string()]);
    assert!(
        wrong
            .stderr
            .contains("task_struct___unmodelled.pid is modelled, so the profile cannot set its value"),
        "{}",
        wrong.stderr
    );
}

/// A pointer that is not modelled has no value that could stand for it.
#[test]
fn a_load_of_a_pointer_that_is_not_modelled_ends_the_policy() {
    let object = object("crates/windtunnel/tests/policies/task_fields.bpf.c");
    let ran = run(&[&object.display().to_string()], &["--set", "follow=1"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("struct task_struct___unmodelled.nosuch_pointer is not modelled in fields_running"),
        "{}",
        ran.stderr
    );
}
