// SPDX-License-Identifier: GPL-2.0-only
//! `live study`: executes the runs of experiments on this machine, under its current scheduler.
//!
//! The definitions, measures and tables are the same as those of `windtunnel experiment`. This
//! machine and its current scheduler replace the machines and policies of the experiment. Cases
//! that differ only in machine or policy therefore share one run.
//!
//! In a simulation, measures read records of the simulator. Here, they read the log that the tasks
//! write, and samples that are taken every 10 ms and show on which CPUs the tasks run or wait.

use crate::run::{self, Executed, LoadSample, Options, launch, write_json};
use crate::{host_kernel, stop};
use input::error::Error;
use lab::experiment::cases::Plan;
use lab::experiment::observe::{Observed, Trail};
use lab::experiment::run::{Wanted, simulate};
use lab::experiment::{self, Comparison, Experiment};
use runner::console;
use runner::exit::ExitStatus;
use runner::inputs::Inputs;
use runner::spec::RunSpec;
use runner::{errln, outln};
use std::collections::BTreeMap;
use std::num::NonZero;
use trace::{Event, Record, Sink};
use windtunnel::live::Study as Args;

/// Time limit of a run if the definition sets none, in ns.
const LONGEST_NS: u64 = 3_600_000_000_000;

pub fn run(args: &Args) -> Result<ExitStatus, Error> {
    let to_stdout = args.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let mut comparisons = Vec::new();
    for experiment in experiments(args)? {
        let plan = experiment.live_plan(&args.with)?;
        let cpus = match cpus(args, &experiment, &plan) {
            Ok(cpus) => cpus,
            Err(error) if args.names.is_empty() => {
                errln!("windtunnel live: {error}; this experiment is left out");
                continue;
            }
            Err(error) => return Err(error),
        };
        for comparison in study(args, &experiment, &plan, &cpus)? {
            if !to_stdout {
                console::styled(&experiment::table(&comparison, console::surface()));
                outln!();
            }
            comparisons.push(comparison);
        }
        if stop::requested() {
            break;
        }
    }
    let json: Vec<serde_json::Value> = comparisons.iter().map(experiment::json).collect();
    write_json(args.json.as_deref(), &json, || {})?;
    Ok(ExitStatus::SUCCESS)
}

fn experiments(args: &Args) -> Result<Vec<Experiment>, Error> {
    if !args.names.is_empty() {
        return args.names.iter().map(|name| Experiment::find(name)).collect();
    }
    let all = experiment::list().into_iter().map(|(name, _)| Experiment::find(&name));
    let all: Vec<Experiment> = all.collect::<Result<_, _>>()?;
    Ok(all
        .into_iter()
        .filter(|known| known.definition.live.is_some())
        .collect())
}

/// Returns the CPUs of this machine that are used instead of the CPUs of the experiment's
/// machine.
fn cpus(args: &Args, experiment: &Experiment, plan: &Plan) -> Result<Vec<u32>, Error> {
    let there = run::affinity();
    let chosen = args.cpus.as_ref().map_or(there.as_slice(), |list| list.0.as_slice());
    let mut needed = 1;
    let inputs = Inputs::default();
    for case in &plan.cases {
        needed = needed.max(inputs.machine(&case.run)?.topology.nr_cpus() as usize);
    }
    match chosen.get(..needed) {
        Some(cpus) => Ok(cpus.to_vec()),
        None => {
            let (name, there) = (&experiment.name, chosen.len());
            Err(
                Error::new(format!("'{name}' needs {needed} CPUs, but only {there} can be used")).hint(
                    "choose more CPUs with --cpus, or an experiment that needs one CPU, for example smp/priorities",
                ),
            )
        }
    }
}

/// Executes an experiment on this machine. With `--simulate`, also simulates it.
fn study(args: &Args, experiment: &Experiment, plan: &Plan, cpus: &[u32]) -> Result<Vec<Comparison>, Error> {
    let options = experiment::Options {
        seeds: Some(args.seeds),
        // Only one run is executed at a time, because parallel runs would disturb each other's
        // measurements.
        threads: Some(NonZero::<usize>::MIN),
        with: Vec::new(),
    };
    let inputs = Inputs::default();
    let execute = |run: &RunSpec, wanted: &Wanted, _: &mut dyn FnMut(u64)| observe(&inputs, run, wanted, cpus);
    let here = plan.clone().with_policy(&host_kernel::scheduler(), "this machine");
    let mut live = experiment.run_plan(&here, &options, &|_, _| {}, &execute)?;
    let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
    live.notes = vec![format!(
        "measured on this machine: kernel {}, scheduler {}, CPUs {}",
        host_kernel::release(),
        host_kernel::scheduler(),
        numbers.join(",")
    )];
    if !args.simulate || live.interrupted() {
        return Ok(vec![live]);
    }
    let policy = match host_kernel::ops() {
        ops if ops.is_empty() => "eevdf".to_owned(),
        ops => ops,
    };
    let machine = args.machine.clone().unwrap_or(format!("core:{} pu:1", cpus.len()));
    let plan = plan.clone().with_policy(&policy, &machine);
    let mut simulated = experiment
        .run_plan(&plan, &options, &|_, _| {}, &|run, wanted, report| {
            simulate(&inputs, run, wanted, report)
        })?
        .with_reference(&live, "live");
    simulated.title += ", simulated";
    simulated.notes = vec![format!("measured in the simulator: policy {policy}, machine {machine}")];
    Ok(vec![live, simulated])
}

/// Executes one run on this machine.
fn observe(inputs: &Inputs, run: &RunSpec, wanted: &Wanted, cpus: &[u32]) -> Result<Option<Observed>, Error> {
    if stop::requested() {
        return Ok(None);
    }
    let workload = inputs.workload(run)?;
    let options = Options {
        for_ns: run.for_ns.or(workload.duration_ns).or(Some(LONGEST_NS)),
        seed: run.seed,
        cpus: cpus.to_vec(),
        watch: !wanted.sample_times.is_empty(),
    };
    let Executed {
        result,
        mut log,
        cpu_ns,
        looks,
        notes,
        ..
    } = launch(workload, &options, None)?;
    if stop::requested() {
        return Ok(None);
    }
    notes.iter().for_each(|note| errln!("windtunnel live: {note}"));
    let end_ns = result.simulated_ns;
    let numbers = number(&mut log);
    let cpu_ns = cpu_ns.iter().filter_map(|(pid, ns)| Some((*numbers.get(pid)?, *ns)));
    let mut trail = Trail::new(cpus.len() as u32, Vec::new());
    trail.take(&log);
    trail.finish(end_ns);
    let lengths = wanted.sample_times.iter().filter(|at| **at <= end_ns);
    let lengths = lengths.filter_map(|&at| Some((at, usual_lengths(&looks, at)?)));
    trail.add_counters(lengths.collect(), &cpu_ns.collect());
    Ok(Some(Observed {
        result,
        trail,
        globals: BTreeMap::new(),
    }))
}

/// Returns the run queue lengths of the CPUs that were sampled most often in the last tenth of the
/// time up to `at`. A single sample would not be reliable, because tasks of other programs disturb
/// it.
fn usual_lengths(looks: &[LoadSample], at: u64) -> Option<Vec<u32>> {
    let mut seen: BTreeMap<&[u32], usize> = BTreeMap::new();
    let mut before = looks.iter().filter(|(time, _)| *time <= at);
    for (_, lengths) in before.clone().filter(|(time, _)| *time >= at - at / 10) {
        *seen.entry(lengths).or_default() += 1;
    }
    let usual = seen
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(lengths, _)| lengths.to_vec());
    usual.or_else(|| before.next_back().map(|(_, lengths)| lengths.clone()))
}

/// Replaces the pids of the tasks by small numbers, in the order in which the tasks appear. Returns
/// the numbers by pid. The numbers must be small, because a
/// [`Trail`](lab::experiment::observe::Trail) has an entry for every pid up to the largest
/// one.
fn number(records: &mut [Record]) -> BTreeMap<u32, u32> {
    let mut numbers = BTreeMap::new();
    for record in records {
        if let Event::TaskNew { pid, .. } | Event::Done { pid, .. } | Event::TaskExit { pid } = &mut record.event {
            let next = numbers.len() as u32 + 1;
            *pid = *numbers.entry(*pid).or_insert(next);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn one_disturbed_sample_does_not_change_the_usual_lengths() {
        let mut looks: Vec<LoadSample> = (1..=100).map(|look| (look * 10 * MS, vec![4, 3])).collect();
        looks[99].1 = vec![1, 6];
        looks[1].1 = vec![7, 0];
        assert_eq!(usual_lengths(&looks, 1000 * MS), Some(vec![4, 3]));
        // The last tenth of the time contains no sample, so an earlier sample is used.
        assert_eq!(usual_lengths(&looks, 20 * MS), Some(vec![7, 0]));
        assert_eq!(usual_lengths(&looks, 29 * MS), Some(vec![7, 0]));
        assert_eq!(usual_lengths(&looks, 9 * MS), None);
    }

    #[test]
    fn pids_are_numbered_in_order_of_appearance() {
        let record = |pid| Record {
            time: 0,
            cpu: 0,
            after: 0,
            event: Event::TaskExit { pid },
        };
        let mut records = [record(4_000_000), record(77), record(4_000_000)];
        let numbers = number(&mut records);
        assert_eq!(records, [record(1), record(2), record(1)]);
        assert_eq!(numbers, BTreeMap::from([(4_000_000, 1), (77, 2)]));
    }
}
