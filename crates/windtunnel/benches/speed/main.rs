// SPDX-License-Identifier: GPL-2.0-only
//! Measures the speed of the simulator: long runs, short runs, and runs with many CPUs and tasks.
//! `make bench` runs this benchmark. docs/speed.md has measurements of several versions.
//!
//! Prints tables with the date, the host's CPU and the kind of build. Hosts differ in speed, and a
//! busy host is slower. Therefore the first table also has the ratio of each cost to the cost of a
//! heap's push and pop, which is measured in the same run.

mod large;
mod long;
mod measure;
mod short;

use std::process::Command;

fn main() {
    // scripts/build/fast.sh sets this variable.
    let build = std::env::var("BENCH_BUILD").unwrap_or_else(|_| "plain build".into());
    println!("{}, {}, {build}", first_line("date", &["-I"]), cpu_model());
    // The memory is measured before all other figures, because the peak memory of a process also
    // includes its earlier runs and those of its parent.
    let memory = [long::streamed(), large::memory()];
    long::print();
    println!("\n{}", memory.join("\n"));
    short::print();
    large::print();
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
