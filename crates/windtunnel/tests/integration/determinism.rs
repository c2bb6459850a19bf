// SPDX-License-Identifier: GPL-2.0-only
//! Tests that the same inputs give the same trace hash in repeated runs, in the JIT and in the
//! interpreter, and in debug and release builds. Some hashes must also equal those in the committed
//! file.
//!
//! WINDTUNNEL in the environment is the path of a different build of the command, which must
//! produce the same hashes; scripts/check/test.sh sets it to the release build. The test compiles the
//! policies, so a compiler other than Debian 12's clang-19 may produce different hashes.

use crate::support::{object, results, results_from, root};
use std::fmt::Write;
use std::path::Path;

/// Policy, machine, workload, length and seed of each run.
const CASES: &[(&str, &str, &str, &str, &str)] = &[
    ("percpu", "numa32", "mixed.json", "200ms", "2"),
    ("fifo", "hybrid", "locks.json", "300ms", "1"),
    ("eevdf", "x6-2", "open:number=200", "2s", "7"),
    ("percpu", "numa16", "chat:rooms=2,messages=20", "200ms", "1"),
    ("fifo", "smp8", "mixed.json", "300ms", "3"),
    ("percpu", "numa32", "mixed.json", "200ms", "1"),
    ("eevdf", "numa32", "mixed.json", "200ms", "1"),
    ("fifo", "numa32", "mixed.json", "200ms", "1"),
    ("vtime", "numa32", "mixed.json", "200ms", "1"),
    ("vtime", "smp4", "hackbench:groups=1,loops=20", "1s", "1"),
    ("eevdf", "epyc-2s", "closed:n=600,compute=2ms,think=1ms", "50ms", "1"),
    ("percpu", "numa16", "fork.json", "500ms", "1"),
    ("vtime", "up", "rt.json", "300ms", "1"),
    ("fifo", "node:2 core:2 pu:2", "pingpong.json", "100ms", "1"),
];

/// Number of cases, counted from the first, whose hashes are committed. These cases cover a machine
/// with several nodes, a machine with two kinds of cores under a workload with locks, the fair
/// class, and two machines without SMT. The tests in schedules.rs check where tasks run. They
/// compare drawings, whose differences can be read.
const COMMITTED: usize = 5;

fn hash(command: &Path, policy: &str, case: &(&str, &str, &str, &str, &str), engine: &str) -> String {
    let (_, machine, workload, length, seed) = case;
    let args = [
        "--machine",
        machine,
        "--workload",
        workload,
        "--for",
        length,
        "--seed",
        seed,
        "--engine",
        engine,
    ];
    let found = results_from(command, &[&[policy], &args[..]].concat());
    assert!(found[0]["exit"].is_null(), "{case:?}: {}", found[0]["exit"]);
    found[0]["trace_hash"].as_str().expect("the hash is a text").to_owned()
}

#[test]
fn hashes_do_not_depend_on_engine_or_build_and_match_the_committed_ones() {
    let this = Path::new(env!("CARGO_BIN_EXE_windtunnel"));
    let other = std::env::var_os("WINDTUNNEL").map(|command| root().join(command));
    let mut text = String::new();
    for (number, case) in CASES.iter().enumerate() {
        let policy = match case.0 {
            "eevdf" => "eevdf".to_owned(),
            name => object(&format!("policies/{name}.bpf.c")).display().to_string(),
        };
        let jit = hash(this, &policy, case, "auto");
        assert_eq!(
            hash(this, &policy, case, "interpreter"),
            jit,
            "{case:?}: interpreter and JIT differ"
        );
        assert_eq!(hash(this, &policy, case, "auto"), jit, "{case:?}: two runs differ");
        if let Some(other) = &other {
            let build = other.display();
            assert_eq!(hash(other, &policy, case, "auto"), jit, "{case:?}: {build} differs");
        }
        if number < COMMITTED {
            let (name, machine, workload, length, seed) = case;
            let _ = writeln!(text, "{jit} {name} {machine} {workload} {length} seed {seed}");
        }
    }
    golden::check!("hashes.txt", &text);
}

#[test]
fn different_seeds_give_different_hashes() {
    let with_seed = |seed| {
        let args = [
            "eevdf",
            "--machine",
            "smp4",
            "--workload",
            "open:number=50",
            "--for",
            "1s",
            "--seed",
            seed,
        ];
        results(&args)[0]["trace_hash"].clone()
    };
    assert_ne!(with_seed("1"), with_seed("2"));
}
