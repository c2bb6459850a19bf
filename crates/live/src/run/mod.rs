// SPDX-License-Identifier: GPL-2.0-only
//! `live run`: executes a workload on this machine under its current scheduler.
//!
//! The results have the same units and JSON keys as those of the simulator. Figures that need a
//! record of every switch are missing, for example callbacks, locks and overhead.

mod attributes;
mod cgroup;
mod channel;
mod children;
mod counts;
pub mod exec;
mod execute;
mod launch;
mod outcome;
mod refusal;
mod shared;
mod sync;
mod watch;

pub use attributes::affinity;
pub use launch::{Executed, Meanwhile, Options, launch};
pub use watch::LoadSample;

use input::error::Error;
use report::{FIELDS, Known, Percentiles, RunResult};
use runner::console;
use runner::destination;
use runner::exit::ExitStatus;
use runner::search;
use runner::{errln, outln};
use std::path::Path;
use windtunnel::live::Run as Args;

pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let workload = search::workload(&args.workload)?;
    let options = Options {
        for_ns: args.for_ns,
        seed: args.seed,
        cpus: args.cpus.as_ref().map(|list| list.0.clone()).unwrap_or_default(),
        watch: false,
    };
    destination::check(args.json.as_deref())?;
    let Executed { result, notes, .. } = launch(workload, &options, None)?;
    for note in notes {
        errln!("windtunnel live: {note}");
    }
    write_json(args.json.as_deref(), &[measured(&result)?], || print(&result))?;
    Ok(ExitStatus::SUCCESS)
}

/// Writes JSON to `path` and calls `print`, which prints the result as text. If `path` is standard
/// output, `print` is not called, so that standard output contains only JSON.
pub fn write_json<T: serde::Serialize>(path: Option<&Path>, value: &T, print: impl FnOnce()) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(value).map_err(|error| Error::new(error.to_string()))?;
    match path {
        Some(path) if destination::is_stdout(path) => console::json(&json),
        Some(path) => {
            destination::write(path, json.as_bytes())?;
            print();
        }
        None => print(),
    }
    Ok(())
}

/// Returns the result as JSON, without the fields that only the simulator measures. With the value
/// 0, these fields would look like measured values.
///
/// # Errors
/// The result cannot be converted to JSON.
fn measured(result: &RunResult) -> Result<serde_json::Value, Error> {
    let mut json = serde_json::to_value(result).map_err(|error| Error::new(error.to_string()))?;
    if let Some(fields) = json.as_object_mut() {
        for field in FIELDS.iter().filter(|field| field.known == Known::Simulated) {
            fields.shift_remove(field.key);
        }
    }
    for task in json["tasks"].as_array_mut().into_iter().flatten() {
        // If no wake-up of a task could be timed, the latency of the task is left out.
        if task["wakeup_latency_p99_ns"] == 0
            && let Some(fields) = task.as_object_mut()
        {
            fields.shift_remove("wakeup_latency_p99_ns");
        }
    }
    Ok(json)
}

/// Executes a workload on all CPUs. Returns the result, and warnings for the user.
pub fn execute(
    workload: workload::Workload,
    for_ns: Option<u64>,
    seed: u64,
) -> Result<(RunResult, Vec<String>), Error> {
    let options = Options {
        for_ns,
        seed,
        ..Options::default()
    };
    let executed = launch(workload, &options, None)?;
    Ok((executed.result, executed.notes))
}

/// Executes a workload on all CPUs, and meanwhile does the work of `meanwhile` when there is any.
pub fn execute_while(
    workload: workload::Workload,
    for_ns: Option<u64>,
    seed: u64,
    meanwhile: Meanwhile,
) -> Result<Executed, Error> {
    let options = Options {
        for_ns,
        seed,
        ..Options::default()
    };
    launch(workload, &options, Some(meanwhile))
}

fn print(r: &RunResult) {
    outln!(
        "{} under {} on {} CPUs for {:.2} s",
        r.workload,
        r.policy,
        r.cpus,
        r.simulated_ns as f64 / 1e9
    );
    match r.score {
        Some(score) => outln!("  score             {score:.3} {}", r.score_unit),
        None => outln!("  score             none: the time was over before the workload ended"),
    }
    outln!(
        "  throughput        {:.1} {}/s ({} in all)",
        r.throughput.per_second,
        r.throughput.unit,
        r.throughput.operations
    );
    let times = |name: &str, t: Percentiles, unit: &str, ns: f64| {
        if t.count > 0 {
            let scaled = |value: u64| value as f64 / ns;
            let (mean, p50, p99, max) = (scaled(t.mean), scaled(t.p50), scaled(t.p99), scaled(t.max));
            outln!("  {name:17} mean {mean:.3} {unit}, p50 {p50:.3}, p99 {p99:.3}, max {max:.3}");
        }
    };
    times("response", r.response_ns, "ms", 1e6);
    times("wake-up latency", r.wakeup_latency_ns, "us", 1e3);
    outln!(
        "  context switches  {}, preemptions {}, migrations {} (of the workload's tasks)",
        r.context_switches,
        r.preemptions,
        r.migrations
    );
    outln!(
        "  busy              {:.1} % of its CPUs (by the workload's tasks)",
        r.busy_percent
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_were_not_measured_are_absent() {
        let mut result = RunResult {
            tasks: vec![report::TaskResult::default(); 2],
            ..RunResult::default()
        };
        result.tasks[1].wakeup_latency_p99_ns = 7;
        let json = measured(&result).expect("the result can be converted to JSON");
        for name in [
            "migrations_by_distance",
            "overhead_ns",
            "lock_wait_ns",
            "locks",
            "trace_hash",
        ] {
            assert!(json.get(name).is_none(), "{name}");
        }
        for name in [
            "context_switches",
            "preemptions",
            "migrations",
            "busy_percent",
            "response_ns",
        ] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert!(json["tasks"][0].get("wakeup_latency_p99_ns").is_none());
        assert_eq!(json["tasks"][1]["wakeup_latency_p99_ns"], 7);
        assert_eq!(
            serde_json::from_value::<RunResult>(json).expect("the JSON contains a result"),
            result
        );
    }
}
