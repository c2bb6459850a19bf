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
