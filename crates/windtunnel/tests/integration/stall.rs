// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel stall`: descriptions of dumps, a dump of a simulated run that is searched for again,
//! and wrong input.

use crate::support::{object, windtunnel};

const JOURNAL: &str = "crates/windtunnel/tests/dumps/journal.txt";

#[test]
fn a_dump_is_described_without_a_policy() {
    let ran = windtunnel(&["stall", JOURNAL]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for line in [
        "runnable task stall (web server[1285] failed to run for 6.208s)",
        "4 CPUs; 1 tasks run, and 2 wait",
        "web server[1285] waits 6208 ms on CPU 1; it may use all CPUs",
        "the policy has received it (ops.enqueue) and put it into no DSQ",
        "machine: core:4 pu:1",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
}

#[test]
fn a_run_that_stalls_as_in_a_dump_is_found_and_shrunk() {
    // This policy forgets every hundredth task that it receives.
    let policy = object("crates/windtunnel/tests/negative/loses_task.bpf.c")
        .display()
        .to_string();
    let folder = tempfile::tempdir().expect("a directory");
    let dump = folder.path().join("dump.txt");
    let dump = dump.to_str().expect("the path is UTF-8");
    let ran = windtunnel(&[
        "run",
        &policy,
        "-m",
        "smp4",
        "-w",
        "sleepers:n=6,run=200us,sleep=200us",
        "--for",
        "60s",
        "--dump",
    ]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    std::fs::write(dump, format!("{}{}", ran.stdout, ran.stderr)).expect("a file");
    let ran = windtunnel(&["stall", dump, &policy, "--runs", "64"]);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let finding = "runnable task stall: sleeper";
    assert!(ran.stdout.contains(finding), "{}", ran.stdout);
    assert!(ran.stdout.contains("shrunk to forced switches: 0"), "{}", ran.stdout);
    assert!(ran.stdout.contains("`windtunnel run` shows the same"), "{}", ran.stdout);
    let (_, token) = ran.stdout.split_once("--replay ").expect("a token");
    let replayed = windtunnel(&["explore", "--replay", token.trim()]);
    assert_eq!(replayed.status, 1, "{}", replayed.stderr);
    assert!(replayed.stdout.contains(finding), "{}", replayed.stdout);
    let other = windtunnel(&["stall", dump, "fifo", "--runs", "32"]);
    assert_eq!(other.status, 0, "{}{}", other.stdout, other.stderr);
    assert!(other.stdout.contains("nothing found in 32 runs"), "{}", other.stdout);
}

#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let text = std::fs::read_to_string(crate::support::root().join(JOURNAL)).expect("a file");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let cases = [
        (file("empty.txt", ""), "no dump of sched_ext"),
        (
            file("mask.txt", &text.replace("cpus=2", "cpus=y")),
            "mask.txt:27:1: cpus=y: expected a mask",
        ),
        (
            file("error.txt", &text.replace("kind 1026", "kind 1025")),
            "did not stall: exit kind 1025",
        ),
        ("nosuchfile".to_owned(), "nosuchfile"),
    ];
    for (path, message) in cases {
        let ran = windtunnel(&["stall", &path]);
        assert_eq!(ran.status, 2, "{path}: {}", ran.stdout);
        assert!(ran.stderr.contains(message), "{path}: {}", ran.stderr);
    }
}
