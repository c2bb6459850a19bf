// SPDX-License-Identifier: GPL-2.0-only
//! Large runs: many CPUs and many tasks. Each figure is of one run, because the runs are long.

use crate::measure::{Used, command, cpu_ns, median, policy, run, scenario};
use crate::short::ms;
use runner::policy::Policy;

/// Machines with 8192 CPUs.
const MACHINES: [&str; 3] = ["pack:64 core:128 pu:1", "pack:2 l3:64 core:64 pu:1", "core:8192 pu:1"];
const MILLION: u64 = 1_000_000;
/// Simulated time in ns that is too short for anything but the creation of the tasks.
const START: u64 = 1000;

pub fn print() {
    println!("\nlarge runs: ms of CPU time\n");
    println!(
        "{:28} {:>14} {:>20} {:>22}",
        "8192 CPUs", "ready", "10 000 under eevdf", "1 000 000 under eevdf"
    );
    for machine in MACHINES {
        let one = scenario(&Policy::Eevdf, machine, "sleepers:n=1", START);
        let ready = median(|| cpu_ns(|| drop(run(&one))));
        let start = |n| {
            ms(cpu_ns(|| {
                drop(run(&scenario(&Policy::Eevdf, machine, &sleepers(n), START)))
            }))
        };
        println!(
            "{machine:28} {:>14} {:>20} {:>22}",
            ms(ready),
            start(10_000),
            start(MILLION)
        );
    }
    println!("goals: 50 ms until the machine is ready, 300 ms for 10 000 tasks, 5 s for a million");
    growth();
    central();
}

fn sleepers(n: u64) -> String {
    format!("sleepers:n={n},run=50us,sleep=50us")
}

/// Returns a text with the memory per task.
pub fn memory() -> String {
    let cache = tempfile::tempdir().expect("a temporary directory");
    let peak = |n| {
        let workload = sleepers(n);
        let args = [
            "run",
            "percpu",
            "--machine",
            MACHINES[0],
            "--workload",
            &workload,
            "--for",
            "1us",
        ];
        let Used { peak_bytes, .. } = command(&args, cache.path());
        peak_bytes
    };
    let few = peak(100_000);
    let bytes = (peak(MILLION) - few) / (MILLION - 100_000);
    format!("memory of a task on a machine with 8192 CPUs, including its task_struct: {bytes} bytes")
}

/// Prints how the cost of a switch grows with the machine.
fn growth() {
    // Under eevdf, the placement of the tasks takes 60 ms of simulated time.
    for (name, from, to) in [("percpu", 10_000_000, 40_000_000), ("eevdf", 60_000_000, 100_000_000)] {
        let policy = policy(name).expect("scripts/build/policies.sh has compiled the policies");
        let cost = |machine, n, from, to| {
            let (mut times, mut switches) = ([0; 2], [0; 2]);
            for (i, ns) in [from, to].into_iter().enumerate() {
                let scenario = scenario(&policy, machine, &sleepers(n), ns);
                times[i] = cpu_ns(|| switches[i] = run(&scenario).result.context_switches);
            }
            times[1].saturating_sub(times[0]) / (switches[1] - switches[0]).max(1)
        };
        let small = cost("core:64 pu:1", 1000, 50_000_000, 1_050_000_000);
        let large = cost(MACHINES[0], MILLION, from, to);
        let percent = large * 100 / small.max(1);
        println!(
            "{name}: {small} ns per switch with 64 CPUs and 1000 tasks, {large} ns with 8192 CPUs and 1 000 000 tasks: {}.{:02} times (goal: at most 2)",
            percent / 100,
            percent % 100
        );
    }
}

/// Prints the CPU time of scx_central, which should grow like the simulated time.
fn central() {
    let Some(policy) = policy("scx_central") else {
        println!("scx_central: no object: `make compat` compiles it");
        return;
    };
    let times = [100, 200, 400].map(|length| {
        let scenario = scenario(&policy, "epyc-2s", "sleepers:n=1000", length * 1_000_000);
        ms(cpu_ns(|| drop(run(&scenario))))
    });
    println!(
        "scx_central on epyc-2s, 1000 tasks, 100, 200 and 400 ms: {}",
        times.join(", ")
    );
}
