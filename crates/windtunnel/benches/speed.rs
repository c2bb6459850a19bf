// SPDX-License-Identifier: GPL-2.0-only
//! Measures the speed of the simulator. There are three figures: context switches per second of
//! wall time, the cost of a switch on machines of different sizes, and the memory of a long run
//! with a trace file.
//!
//! Prints a table with the host's CPU and the date. Each figure is the median of several runs.
//! `make bench` runs this benchmark. The simulated policy is scx_simple, a sample scheduler of the
//! kernel, if `make compat` has built it. Otherwise it is `vtime`, which has the same structure:
//! one dispatch queue (DSQ) that is ordered by virtual time.

use std::process::Command;
use windtunnel::policy::Policy;
use windtunnel::scenario::{Outcome, Scenario};

const RUNS: usize = 5;

fn main() {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    let policy = ["compat/objects/kernel/scx_simple.bpf.o", "policies/vtime.bpf.o"]
        .iter()
        .find_map(|object| Policy::find(&format!("{built}/{object}")).ok())
        .expect("scripts/policies.sh has built the policies");
    println!(
        "{}, {}, policy {}",
        first_line("date", &["-I"]),
        cpu_model(),
        policy.name()
    );
    // The memory is measured before all other figures, because the peak memory of a process also
    // includes its earlier runs.
    let memory = streamed(&policy);
    println!("median of {RUNS} runs, one core, no trace file\n");
    println!("{:44} {:>14} {:>12} {:>10}", "", "switches/s", "ns/switch", "switches");
    let node = "node:2 core:16 pu:2";
    let busy = "sleepers:n=1000,run=50us,sleep=50us";
    print_row(
        "64 CPUs, 1000 tasks, 1 s",
        measure(&scenario(&policy, node, busy, 1_000_000_000)),
    );
    print_row(
        "eevdf, same workload",
        measure(&scenario(&Policy::Eevdf, node, busy, 1_000_000_000)),
    );
    // Each of the next two rows is the difference between a long and a short run. The difference
    // contains only the additional switches, and not the creation of the tasks.
    let small = measure_later(
        &policy,
        "core:4 pu:2",
        "sleepers:n=100,run=50us,sleep=50us",
        2_000_000_000,
    );
    print_row("8 CPUs, 100 tasks, seconds 3 and 4", small);
    let large = measure_later(
        &policy,
        "node:8 core:64 pu:2",
        "sleepers:n=100000,run=50us,sleep=50us",
        200_000_000,
    );
    print_row("1024 CPUs, 100000 tasks, 200 ms to 400 ms", large);
    let percent = large.1 * 100 / small.1.max(1);
    println!(
        "1024 CPUs / 8 CPUs, cost per switch: {}.{:02} (at most 2)",
        percent / 100,
        percent % 100
    );
    println!("\n{memory}");
}

fn scenario(policy: &Policy, machine: &str, workload: &str, for_ns: u64) -> Scenario {
    Scenario {
        profile: None,
        policy: policy.clone(),
        settings: Vec::new(),
        engine: bpf::engine::Engine::default(),
        sanitizer: false,
        machine: machine::load(machine, &[]).expect("the machine is known"),
        workload: workload::load(workload, &[]).expect("the workload is valid"),
        seed: 1,
        for_ns: Some(for_ns),
        kernel: kernel::release::Release::default(),
        after_failure: false,
        hotplug: Vec::new(),
        memory: bpf::memory::DEFAULT_LIMIT,
        trace: None,
        draw: None,
    }
}

fn print_row(name: &str, (switches, ns): (u64, u64)) {
    println!("{name:44} {:>14} {ns:>12} {switches:>10}", 1_000_000_000 / ns.max(1));
}

/// Returns the number of context switches of a run, and the median wall time per switch in ns.
fn measure(scenario: &Scenario) -> (u64, u64) {
    median(|| {
        let result = run(scenario).result;
        (result.context_switches, result.wall_ns)
    })
}

/// Returns the same two figures as [`measure`], but only for the simulated time from `ns` to
/// `2 * ns`. They are the differences between a run of length `2 * ns` and a run of length `ns`.
fn measure_later(policy: &Policy, machine: &str, workload: &str, ns: u64) -> (u64, u64) {
    let (short, long) = (
        scenario(policy, machine, workload, ns),
        scenario(policy, machine, workload, 2 * ns),
    );
    median(|| {
        let (short, long) = (run(&short).result, run(&long).result);
        (
            long.context_switches - short.context_switches,
            long.wall_ns.saturating_sub(short.wall_ns),
        )
    })
}

/// Repeats `one`, which returns (switches, wall time in ns). Returns the switches and the median
/// time per switch in ns.
fn median(one: impl Fn() -> (u64, u64)) -> (u64, u64) {
    let mut runs: Vec<(u64, u64)> = (0..RUNS)
        .map(|_| one())
        .map(|(switches, ns)| (switches, ns / switches.max(1)))
        .collect();
    runs.sort_by_key(|&(_, ns)| ns);
    runs[RUNS / 2]
}

fn run(scenario: &Scenario) -> Outcome {
    let outcome = scenario.run(&mut |_| {}).expect("the run succeeds");
    assert!(
        outcome.result.exit.is_none(),
        "the policy failed: {:?}",
        outcome.result.exit
    );
    outcome
}

/// Simulates 60 seconds and writes a trace file. Returns a text with the size of the file and the
/// peak memory of the process.
fn streamed(policy: &Policy) -> String {
    let path = std::env::temp_dir().join(format!("windtunnel-bench-{}.wtt", std::process::id()));
    let mut long = scenario(
        policy,
        "node:2 core:2 pu:2",
        "sleepers:n=50,run=50us,sleep=50us",
        60_000_000_000,
    );
    long.trace = Some(path.clone());
    let outcome = run(&long);
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    // The temporary file may already be gone, so an error of the removal is ignored.
    let _ = std::fs::remove_file(&path);
    format!(
        "60 simulated seconds with a streamed trace: {} switches, {} MB trace, peak memory {} MB (at most 100)",
        outcome.result.context_switches,
        bytes / 1_000_000,
        peak_kib() / 1024,
    )
}

/// Returns the peak memory of this process (VmHWM) in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0)
}

fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info
        .lines()
        .find(|line| line.starts_with("model name"))
        .unwrap_or_default();
    line.split_once(": ")
        .map_or_else(|| "unknown CPU".into(), |(_, model)| model.to_owned())
}

fn first_line(command: &str, args: &[&str]) -> String {
    let output = Command::new(command).args(args).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
