// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `--sub`, which attaches sub-schedulers to the cgroups of a workload.

use crate::support::{Ran, variant, windtunnel};
use serde_json::Value;

const SOURCE: &str = "crates/kernel/tests/policies/sub.bpf.c";
const LOAD: [&str; 6] = ["-m", "smp4", "-w", "tenants.json", "--for", "100ms"];

fn object(name: &str, defines: &[&str]) -> String {
    let path = variant(SOURCE, name, defines);
    path.to_str().expect("the path is UTF-8").to_owned()
}

fn run(args: &[&str]) -> Ran {
    windtunnel(&[&["run"], args, LOAD.as_slice()].concat())
}

/// Returns the exit status, the sub-schedulers in the JSON, and standard error.
fn subs(args: &[&str]) -> (i32, Value, String) {
    let ran = run(&[args, &["--json", "-"]].concat());
    let json: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    (ran.status, json[0]["sub_schedulers"].clone(), ran.stderr)
}

#[test]
fn a_run_has_the_results_of_its_sub_schedulers() {
    let (root, child) = (
        object("sub_root", &["SUBS_FIRST", "REFUSE"]),
        object("sub_child", &["NAME=\"child\""]),
    );
    let small = format!("/small={child}");
    let (status, result, _) = subs(&[&root, "--sub", &small]);
    assert_eq!(status, 0);
    assert_eq!(result[0]["cgroup"], "/small");
    assert_eq!(result[0]["status"], "ran");

    let bad = object("sub_bad", &["NAME=\"bad\"", "BAD_DSQ"]);
    let refused = object("sub_refused", &["NAME=\"refused\""]);
    let (small, large) = (format!("/small={bad}"), format!("/large={refused}"));
    let (status, result, errors) = subs(&[&root, "--sub", &small, "--sub", &large]);
    assert_eq!(status, 1);
    assert_eq!(
        (&result[0]["status"], &result[1]["status"]),
        (&"ejected".into(), &"refused".into())
    );
    assert_eq!(result[0]["exit"]["message"], "non-existent DSQ 0x4d");
    assert_eq!(result[1]["exit"]["message"], "parent rejected (-13)");
    for line in [
        "of cgroup /small ended at ",
        "of cgroup /large was refused: parent rejected (-13)",
    ] {
        assert!(errors.contains(line), "{errors}");
    }
}

#[test]
fn the_command_line_that_repeats_a_run_has_its_sub_schedulers() {
    let (root, child) = (
        object("sub_root", &["SUBS_FIRST", "REFUSE"]),
        object("sub_child", &["NAME=\"child\""]),
    );
    let name = child.rsplit('/').next().unwrap_or_default().trim_end_matches(".bpf.o");
    let (small, set) = (format!("/small={child}"), format!("{name}:nr_own=7"));
    let ran = run(&[&root, "--sub", &small, "--set", &set]);
    assert!(
        ran.stdout.contains(&format!("--sub {small}")),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert!(ran.stdout.contains(&format!("--set {set}")), "{}", ran.stdout);
}

#[test]
fn wrong_sub_schedulers_are_user_errors() {
    let root = object("sub_root", &["SUBS_FIRST", "REFUSE"]);
    let missing = format!("/huge={root}");
    for (args, message) in [
        (
            vec![root.as_str(), "--sub", "x"],
            "--sub x: expected CGROUP=POLICY, for example /app=child.bpf.o",
        ),
        (vec![&root, "--sub", &missing], "the workload has no cgroup /huge"),
        (
            vec![&root, "--sub", "/small=eevdf"],
            "a sub-scheduler must be an object",
        ),
        (vec!["eevdf", "--sub", &missing], "eevdf accepts no sub-schedulers"),
    ] {
        let ran = run(&args);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}
