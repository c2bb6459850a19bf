// SPDX-License-Identifier: GPL-2.0-only
//! Tests of `--sub`, which attaches sub-schedulers to the cgroups of a workload.

use crate::support::{Ran, variant, windtunnel};
use serde_json::Value;
use std::path::Path;

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

fn sum(list: &Value, key: &str) -> u64 {
    let numbers = list.as_array().expect("a list").iter();
    numbers.map(|one| one[key].as_u64().expect("a number")).sum()
}

#[test]
fn hotspots_list_the_lines_of_sub_schedulers() {
    let root = object("sub_root", &["SUBS_FIRST", "REFUSE"]);
    for (variant, defines) in [
        ("sub_child", vec!["NAME=\"child\""]),
        ("sub_bad", vec!["NAME=\"bad\"", "BAD_DSQ"]),
    ] {
        let child = object(variant, &defines);
        let small = format!("/small={child}");
        let folded = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{variant}.folded"));
        let details = folded.with_extension("details");
        let [folded_name, details_name] = [&folded, &details].map(|path| path.to_string_lossy().into_owned());
        let args = [&root, "--sub", &small, "--details", &details_name, "--json", "-"];
        let parsed = |ran: Ran| -> Value {
            let json: Value =
                serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
            json[0].clone()
        };
        let plain = parsed(run(&args));
        let result = parsed(run(&[&args[..], &["--folded", &folded_name]].concat()));
        assert_eq!(plain["trace_hash"], result["trace_hash"], "{variant}");
        let label = format!("sub-{variant} (/small)");
        let costs = &result["hotspots"];
        assert_eq!(costs["insns"].as_u64(), Some(sum(&costs["lines"], "insns")));
        for (sub, callbacks) in [
            (Value::Null, &result["callbacks"]),
            (label.as_str().into(), &result["sub_schedulers"][0]["callbacks"]),
        ] {
            let lines = costs["lines"].as_array().expect("a list").iter();
            let lines: Vec<&Value> = lines.filter(|line| line["sub"] == sub).collect();
            assert!(sum(callbacks, "count") > 10, "{variant}, {sub}: {callbacks}");
            for callback in callbacks.as_array().expect("a list") {
                let own = lines.iter().filter(|line| line["callback"] == callback["callback"]);
                let own: u64 = own.filter_map(|line| line["insns"].as_u64()).sum();
                assert_eq!(callback["insns"], own, "{variant}, {sub}: {}", callback["callback"]);
            }
        }
        let folded = std::fs::read_to_string(folded).expect("the stacks are written");
        let stack = format!("{label};enqueue;sub_enqueue;sub.bpf.c:");
        assert!(folded.contains(&stack), "no {stack} in:\n{folded}");
        let details = std::fs::read_to_string(details).expect("the details are written");
        assert!(details.contains(&format!("{label}: enqueue ")), "{details}");
        if variant == "sub_child" {
            let fields = costs["fields"].as_array().expect("fields").iter();
            let named: Vec<&str> = fields.filter_map(|field| field["field"].as_str()).collect();
            assert!(
                named.iter().any(|field| *field == format!("{label}: nr_dispatched")),
                "{named:?}"
            );
            assert!(named.contains(&"nr_dispatched"), "{named:?}");
        }
        let ran = run(&[&root, "--sub", &small, "--hotspots", "-"]);
        let has_row = ran
            .stdout
            .lines()
            .any(|line| line.contains("sub.bpf.c:") && line.contains(&label));
        assert!(ran.stdout.contains("  sub-scheduler ") && has_row, "{}", ran.stdout);
    }
}

#[test]
fn the_sanitizer_reports_a_sub_scheduler_by_its_name() {
    let (root, leak) = (
        object("sub_root", &["SUBS_FIRST", "REFUSE"]),
        object("sub_leak", &["NAME=\"leak\"", "LEAK"]),
    );
    let small = format!("/small={leak}");
    let (status, result, errors) = subs(&[&root, "--sub", &small, "--sanitize"]);
    assert_eq!((status, &result[0]["status"]), (1, &"ejected".into()), "{errors}");
    let exit = &result[0]["exit"];
    assert!(
        exit["message"].as_str().is_some_and(|message| message.contains("leak")),
        "{exit}"
    );
    let enqueue = exit["backtrace"].as_array().expect("a backtrace").iter();
    assert!(
        enqueue.into_iter().any(|line| line.to_string().contains("sub_enqueue")),
        "{exit}"
    );
    assert!(
        errors.contains("sub-scheduler sub-sub_leak of cgroup /small ended at "),
        "{errors}"
    );
    let (status, _, errors) = subs(&[&root, "--sub", &small]);
    assert_eq!(status, 0, "{errors}");
}

#[test]
fn a_violated_invariant_names_the_sub_scheduler_of_the_task() {
    let (root, stall) = (
        object("sub_root", &["SUBS_FIRST", "REFUSE"]),
        object("sub_stall", &["NAME=\"stall\"", "STALL"]),
    );
    let small = format!("/small={stall}");
    // The watchdog ends the sub-scheduler after 200 ms.
    let args = [
        "invariants",
        &root,
        "--sub",
        &small,
        "--starvation",
        "150ms",
        "--for",
        "190ms",
    ];
    let ran = windtunnel(&[&args, &LOAD[..4]].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let line = ran.stdout.lines().find(|line| line.starts_with("starvation: "));
    let line = line.unwrap_or_else(|| panic!("{}", ran.stdout));
    assert!(line.contains(" of sub-sub_stall (/small) waited for "), "{line}");
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
