// SPDX-License-Identifier: GPL-2.0-only
//! What new users type, and the messages that lead them on.

use crate::support::{results, windtunnel};
use std::path::Path;

const LOAD: [&str; 6] = [
    "--machine",
    "smp4",
    "--workload",
    "closed:n=6,compute=1ms,think=1ms",
    "--for",
    "20ms",
];

/// Runs a wrong command line and returns its message.
fn refused(line: &str) -> String {
    let ran = windtunnel(&line.split(' ').collect::<Vec<_>>());
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{line}: {}", ran.stderr);
    ran.stderr
}

#[test]
fn a_number_without_a_unit_is_refused_with_an_example() {
    for (line, message) in [
        (
            "run fifo --for 100",
            "'100' has no unit, expected ns, us, ms, s or min, for example 100ms",
        ),
        (
            "run fifo --memory 512",
            "'512' has no unit, expected B, K, M, G or T, for example 512M",
        ),
        ("run fifo --hotplug 3:off@5", "--hotplug 3:off@5: '5' has no unit"),
        ("run fifo --draw 10-20ms", "--draw 10-20ms: '10' has no unit"),
        (
            "run fifo -w closed:compute=5",
            "compute=5: '5' has no unit, write for example 5ms",
        ),
        ("invariants fifo --idle 2", "'2' has no unit"),
        ("diff fifo rr --window 10", "'10' has no unit"),
        ("top fifo --every 50", "'50' has no unit"),
        ("live load fifo --for 5", "'5' has no unit"),
        ("tune fifo -m smp4 -w chat --for 5", "'5' has no unit"),
        (
            "compare fifo rr --fail-if score>3",
            "write +3% (of A), 3x (times A) or +3 (B - A, in the unit of score)",
        ),
    ] {
        let said = refused(line);
        assert!(said.contains(message), "{line}: {said}");
    }
}

#[test]
fn an_unknown_command_or_option_leads_to_the_right_one() {
    for (line, advice) in [
        ("rnu fifo", "tip: did you mean 'run'?"),
        ("fifo", "tip: to run a policy: windtunnel run fifo"),
        ("list", "`windtunnel policy list`, `windtunnel machine list`"),
        ("simulate fifo", "tip: did you mean `windtunnel run`?"),
        ("version", "tip: did you mean `windtunnel --version`?"),
        ("help nonsense", "tip: `windtunnel --help` lists the commands"),
        ("help policies", "tip: did you mean `windtunnel policy list`?"),
        ("policy lsit", "tip: did you mean 'list'?"),
        ("live laod fifo", "tip: did you mean 'load'?"),
        (
            "run -p fifo",
            "tip: policies are given without an option: windtunnel run fifo",
        ),
        ("run fifo --duration 5s", "tip: simulated time: --for 500ms"),
        ("run fifo --cpus 4", "tip: a machine: --machine smp4"),
        ("run fifo --every 5ms", "tip: this is an option of `windtunnel top`"),
        ("run fifo --sed 3", "tip: a similar argument exists: '--seed'"),
        ("run", "tip: for example: windtunnel run fifo eevdf"),
        ("machine show", "tip: for example: windtunnel machine show epyc-2s"),
        (
            "run fifo --seed x",
            "expected a whole number from 0 to 18446744073709551615, for example 7",
        ),
    ] {
        let said = refused(line);
        assert!(said.contains(advice), "{line}: {said}");
    }
    // clap would suggest an option that only begins with the same letters.
    assert!(!refused("run fifo --duration 5s").contains("--draw"));
}

#[test]
fn a_kind_of_scheduler_leads_to_its_policies() {
    let said = refused("run multilevelqueue");
    assert!(said.contains("hint: did you mean mlfq ("), "{said}");
    assert!(
        said.contains("p9 (Plan 9's scheduler, one queue of 20 priority levels for all CPUs)"),
        "{said}"
    );
    assert!(refused("run cfs").contains("hint: did you mean eevdf (the kernel's fair class, built in)"));
    assert!(refused("compare fifo roundrobin").contains("hint: did you mean rr ("));
}

#[test]
fn two_outputs_on_standard_output_are_refused() {
    for (outputs, message) in [
        (
            ["--json", "-", "--details", "-"],
            "--json and --details both write to standard output",
        ),
        (
            ["--trace", "-", "--html", "-"],
            "--trace and --html both write to standard output",
        ),
        (
            ["--json", "/dev/stdout", "--ftrace", "-"],
            "--json and --ftrace both write to standard output",
        ),
    ] {
        let ran = windtunnel(&[&["run", "fifo"], &LOAD[..], &outputs].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{outputs:?}");
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
    let said = refused("experiment run pmqs/table1 --json --report -");
    assert!(
        said.contains("--json and --report both write to standard output"),
        "{said}"
    );
}

#[test]
fn outputs_create_the_directories_of_their_paths() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-directories");
    let _ = std::fs::remove_dir_all(&folder);
    let path = |name: &str| folder.join(name).display().to_string();
    let paths: Vec<String> = [
        "a/b/run.json",
        "c/d/run.html",
        "e/run.wtt",
        "f/run.txt",
        "g/run.pftrace",
    ]
    .map(path)
    .to_vec();
    let outputs: Vec<&str> = ["--json", "--html", "--trace", "--details", "--perfetto"]
        .iter()
        .zip(&paths)
        .flat_map(|(option, path)| [*option, path.as_str()])
        .collect();
    let ran = windtunnel(&[&["run", "fifo"], &LOAD[..], &outputs].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for path in &paths {
        assert!(std::fs::metadata(path).is_ok_and(|file| file.len() > 0), "{path}");
    }
    // A directory cannot be inside of a file.
    let below = format!("{}/more/run.json", paths[0]);
    let ran = windtunnel(&[&["run", "fifo"], &LOAD[..], &["--json", &below]].concat());
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("Not a directory"), "{}", ran.stderr);
    assert_eq!(results(&[&["fifo"], &LOAD[..]].concat()).len(), 1);
}
