// SPDX-License-Identifier: GPL-2.0-only
//! Measures how the cost of a policy (a sched_ext BPF scheduler) grows with the number of tasks and
//! CPUs. The cost is the number of BPF instructions that a callback of the policy executes.
//!
//! Prints a table for every compiled policy, and writes the numbers to `target/complexity.csv`.
//! `make bench` runs this benchmark.

use runner::policy;
use runner::spec::RunSpec;
use std::path::Path;

const CALLBACKS: [&str; 4] = ["select_cpu", "enqueue", "dispatch", "tick"];
const TASKS: [u32; 3] = [10, 100, 1000];
const MACHINES: [(u32, &str); 3] = [(1, "core:1 pu:1"), (8, "core:8 pu:1"), (64, "core:64 pu:1")];
const SIMULATED_NS: u64 = 20_000_000;

fn main() {
    let mut csv = String::from("policy,cpus,tasks,callback,count,insns_mean,insns_max,exit\n");
    println!("mean BPF instructions per call; each task repeatedly runs 2 ms and sleeps 100 us\n");
    for (name, path) in policy::list() {
        println!(
            "{name:10} {:>5} {:>5} {:>11} {:>11} {:>11} {:>11}",
            "cpus", "tasks", "select_cpu", "enqueue", "dispatch", "tick"
        );
        let object = path.display().to_string();
        for (cpus, machine) in MACHINES {
            for tasks in TASKS {
                csv += &row(&name, &object, cpus, machine, tasks);
            }
        }
        println!();
    }
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/complexity.csv");
    match std::fs::write(&to, csv) {
        Ok(()) => println!("plot data: target/complexity.csv"),
        Err(error) => eprintln!("target/complexity.csv: {error}"),
    }
}

/// Runs a policy and prints one row of the table. Returns the row's lines for the CSV file.
fn row(name: &str, object: &str, cpus: u32, machine: &str, tasks: u32) -> String {
    let workload = format!("sleepers:n={tasks},run=2ms,sleep=100us");
    let spec = RunSpec {
        for_ns: Some(SIMULATED_NS),
        ..RunSpec::new(object, machine, &workload)
    };
    let scenario = spec.resolve().expect("the inputs are valid");
    let result = match scenario.run(&mut |_| {}) {
        Ok(outcome) => outcome.result,
        Err(error) => {
            println!("{:10} {cpus:>5} {tasks:>5} cannot be run: {error}", "");
            return format!("{name},{cpus},{tasks},,0,,,does not run\n");
        }
    };
    let exit = result.exit.as_ref().map_or("", |exit| exit.kind.as_str());
    let mut line = format!("{:10} {cpus:>5} {tasks:>5}", "");
    let mut csv = String::new();
    for callback in CALLBACKS {
        match result.callbacks.iter().find(|called| called.callback == callback) {
            Some(called) => {
                line += &format!(" {:>11.1}", called.insns_mean);
                let (count, mean, max) = (called.count, called.insns_mean, called.insns_max);
                csv += &format!("{name},{cpus},{tasks},{callback},{count},{mean:.1},{max},{exit}\n");
            }
            None => {
                line += &format!(" {:>11}", "-");
                csv += &format!("{name},{cpus},{tasks},{callback},0,,,{exit}\n");
            }
        }
    }
    println!("{line} {exit}");
    csv
}
