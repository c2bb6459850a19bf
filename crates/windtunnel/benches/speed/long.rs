// SPDX-License-Identifier: GPL-2.0-only
//! Long runs: the cost of a context switch, and the memory of a run with a trace file.

use crate::measure::{RUNS, median, policy, run, scenario};
use runner::policy::Policy;
use std::collections::BinaryHeap;
use std::time::Instant;

const ROW: &str = "node:2 core:16 pu:2";
const BUSY: &str = "sleepers:n=1000,run=50us,sleep=50us";
const SECOND: u64 = 1_000_000_000;

/// Returns the policy for rows that do not name one. It is scx_simple, a sample scheduler of the
/// kernel, if `make compat` has compiled it. Otherwise it is `vtime`, which has the same structure:
/// one dispatch queue (DSQ) that is ordered by virtual time.
fn usual() -> Policy {
    let found = policy("scx_simple").or_else(|| policy("vtime"));
    found.expect("scripts/build/policies.sh has compiled the policies")
}

pub fn print() {
    let policy = usual();
    println!(
        "\nlong runs: policy {}, median of {RUNS} runs on one CPU, no trace file\n",
        policy.name()
    );
    let heap = heap_ps();
    println!("{:44} {:>14} {:>12} {:>10}", "", "switches/s", "ns/switch", "heaps");
    let row = |name: &str, ns: u64| {
        let heaps = ns * 10_000 / heap.max(1);
        println!(
            "{name:44} {:>14} {ns:>12} {:>8}.{}",
            SECOND / ns.max(1),
            heaps / 10,
            heaps % 10
        );
    };
    row("64 CPUs, 1000 tasks, 1 s", whole(&policy, ROW, BUSY, SECOND));
    row("eevdf, same workload", whole(&Policy::Eevdf, ROW, BUSY, SECOND));
    let few = "sleepers:n=100,run=50us,sleep=50us";
    let small = later(&policy, "core:4 pu:2", few, 2 * SECOND);
    row("8 CPUs, 100 tasks, seconds 3 and 4", small);
    let many = "sleepers:n=100000,run=50us,sleep=50us";
    let large = later(&policy, "node:8 core:64 pu:2", many, SECOND / 5);
    row("1024 CPUs, 100000 tasks, 200 ms to 400 ms", large);
    let percent = large * 100 / small.max(1);
    println!(
        "1024 CPUs / 8 CPUs, cost per switch: {}.{:02} (goal: at most 2)",
        percent / 100,
        percent % 100
    );
    println!(
        "heaps: a push and a pop of a heap with 1000 entries, {}.{} ns",
        heap / 1000,
        heap % 1000 / 100
    );
}

/// Returns the median wall time per switch of a run, in ns.
fn whole(policy: &Policy, machine: &str, workload: &str, ns: u64) -> u64 {
    let scenario = scenario(policy, machine, workload, ns);
    median(|| {
        let result = run(&scenario).result;
        result.wall_ns / result.context_switches.max(1)
    })
}

/// Returns the median wall time per switch between the simulated times `ns` and `2 * ns`, in ns. It
/// is the difference between two runs, so the cost of creating the tasks cancels out.
pub fn later(policy: &Policy, machine: &str, workload: &str, ns: u64) -> u64 {
    let short = scenario(policy, machine, workload, ns);
    let long = scenario(policy, machine, workload, 2 * ns);
    median(|| {
        let (short, long) = (run(&short).result, run(&long).result);
        let switches = long.context_switches - short.context_switches;
        long.wall_ns.saturating_sub(short.wall_ns) / switches.max(1)
    })
}

/// Returns the median wall time of a push and a pop of a heap with 1000 entries, in ps.
fn heap_ps() -> u64 {
    const PAIRS: u64 = 1_000_000;
    let mut random: u64 = 1;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut heap: BinaryHeap<u64> = (0..1000).map(|_| next()).collect();
    median(|| {
        let began = Instant::now();
        for _ in 0..PAIRS {
            heap.push(next());
            std::hint::black_box(heap.pop());
        }
        began.elapsed().as_nanos() as u64 * 1000 / PAIRS
    })
}

/// Simulates 60 seconds and writes a trace file. Returns a text with the size of the file and the
/// peak memory of the process.
pub fn streamed() -> String {
    let path = std::env::temp_dir().join(format!("windtunnel-bench-{}.wtt", std::process::id()));
    let tasks = "sleepers:n=50,run=50us,sleep=50us";
    let mut long = scenario(&usual(), "node:2 core:2 pu:2", tasks, 60 * SECOND);
    long.trace = Some(path.clone());
    let outcome = run(&long);
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    // The temporary file may already be gone, so a failure to remove it is ignored.
    let _ = std::fs::remove_file(&path);
    format!(
        "60 simulated seconds with a streamed trace: {} switches, {} MB trace, peak memory {} MB (goal: at most 100)",
        outcome.result.context_switches,
        bytes / 1_000_000,
        peak_kib() / 1024,
    )
}

/// Returns the peak memory of this process (VmHWM) in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.unwrap_or(0)
}
