// SPDX-License-Identifier: GPL-2.0-only
//! Short runs: the CPU time of a run of 0.1 s.

use crate::measure::{RUNS, command, cpu_ns, median, policy, run, scenario};
use runner::policy::Policy;

const MACHINE: &str = "pack:1 l3:1 core:8 pu:1";
const WORKLOAD: &str = "sleepers:n=20";

/// Policies with the goal for one more run of the process, in ms of CPU time.
const POLICIES: [(&str, u64); 5] = [
    ("scx_lavd", 50),
    ("scx_layered", 60),
    ("scx_rusty", 25),
    ("scx_bpfland", 20),
    ("vtime", 4),
];

pub fn print() {
    println!("\nshort runs: ms of CPU time for 100 ms on 8 CPUs with 20 tasks, median of {RUNS} runs\n");
    println!(
        "{:16} {:>10} {:>10} {:>14} {:>14}",
        "", "one more", "goal", "command", "first command"
    );
    for (name, goal) in POLICIES {
        let Some(policy) = policy(name) else {
            println!("{name:16} no object: `make compat` compiles it");
            continue;
        };
        let scenario = scenario(&policy, MACHINE, WORKLOAD, 100_000_000);
        // The first run compiles the policy. The later ones use its code.
        run(&scenario);
        let more = median(|| cpu_ns(|| drop(run(&scenario))));
        let (first, warm) = commands(&policy);
        println!(
            "{name:16} {:>10} {goal:>10} {:>14} {:>14}",
            ms(more),
            ms(warm),
            ms(first)
        );
    }
    println!("command: with code that an earlier command has stored in the cache directory");
}

/// Returns the CPU times in ns of a command whose cache directory is empty, and of a later one.
fn commands(policy: &Policy) -> (u64, u64) {
    let cache = tempfile::tempdir().expect("a temporary directory");
    let object = match policy {
        Policy::Object { path, .. } => path.display().to_string(),
        Policy::Eevdf | Policy::Exec { .. } => policy.name().into(),
    };
    let args = [
        "run",
        &object,
        "--machine",
        MACHINE,
        "--workload",
        WORKLOAD,
        "--for",
        "100ms",
    ];
    let first = command(&args, cache.path()).cpu_ns;
    (first, median(|| command(&args, cache.path()).cpu_ns))
}

/// Returns a time as text in ms with one decimal.
pub fn ms(ns: u64) -> String {
    format!("{}.{}", ns / 1_000_000, ns / 100_000 % 10)
}
