// SPDX-License-Identifier: GPL-2.0-only
//! Executes the runs of an experiment on several threads and computes the table rows. A run that
//! occurs in several cases is executed once.

use super::Experiment;
use super::cases::{Case, CaseRow, Plan};
use super::measure::{Across, Measure, Quantity};
use super::observe::{Observed, Trail};
use super::statistics::{Estimate, deviation, estimate};
use input::error::Error;
use report::Better;
use runner::inputs::Inputs;
use runner::parallel::{self, Progress};
use runner::scenario::{Observer, Read};
use runner::spec::RunSpec;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Options for the execution of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of seeds that replaces the number in the definition.
    pub seeds: Option<u64>,
    /// Number of runs that are executed at the same time. `None` means the number of CPUs.
    pub threads: Option<NonZero<usize>>,
    /// Names and values of the variables that the user changes.
    pub with: Vec<(String, String)>,
}

/// A value with its confidence interval, or the reason why there is no value.
pub type Cell = Result<Estimate, Error>;

/// A measured row of the table.
#[derive(Clone, Debug)]
pub struct MeasuredRow {
    pub keys: BTreeMap<String, String>,
    pub cells: BTreeMap<String, Cell>,
    /// Values that theory predicts.
    pub expected: BTreeMap<String, f64>,
}

/// Result of the execution of all cases.
#[derive(Clone, Debug)]
pub struct Measured {
    pub rows: Vec<MeasuredRow>,
    /// Number of distinct runs that have been completed.
    pub runs: usize,
    /// Number of distinct runs that were planned. After an interruption it is larger than `runs`.
    pub planned: usize,
    pub wall: Duration,
}

/// A run with its seed, and the measures that need it.
struct Job<'a> {
    spec: &'a RunSpec,
    seed: u64,
    measures: Vec<&'a Measure>,
    at: usize,
}

/// Data that the measures of a run need in addition to the run's result.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Global variables of the policy to read, and the times at which they are read. `None` means
    /// the end of the run.
    pub globals: Vec<(Option<u64>, String)>,
    /// Times at which to record queue lengths, in ns.
    pub sample_times: Vec<u64>,
}

/// A function that executes a run. It calls its last argument with the progress, from 0
/// to 1000. It returns `None` if a signal ended the run.
///
/// [`simulate`] executes runs in the simulator. `windtunnel live study` executes them on the kernel
/// of the host.
pub type Execute<'a> = dyn Fn(&RunSpec, &Wanted, &mut dyn FnMut(u64)) -> Result<Option<Observed>, Error> + Sync + 'a;

/// Values that were measured in the run of a job, in the order of the job's measures.
struct JobValues {
    values: Vec<Result<f64, Error>>,
    better: Better,
}

impl Plan {
    /// Executes all runs. `progress` is called with the completed work and the total work. Each run
    /// counts as 1000.
    ///
    /// # Errors
    /// The definition names an input that does not exist. A policy that fails is no error: its
    /// cells have no values.
    pub fn run(
        &self,
        experiment: &Experiment,
        options: &Options,
        progress: &Progress,
        execute: &Execute,
    ) -> Result<Measured, Error> {
        let started = Instant::now();
        let mut jobs = Vec::new();
        for case in &self.cases {
            for seed in case.run_seeds(options) {
                for quantity in case.rows.iter().flat_map(|row| row.values.values()) {
                    add_measure(&mut jobs, &case.run, seed, &quantity.measure, case.at);
                    if let Some(baseline) = case.baseline.as_ref().filter(|_| quantity.against.is_some()) {
                        add_measure(&mut jobs, baseline, seed, &quantity.measure, case.at);
                    }
                }
            }
        }
        let run = |job: &Job, report: &mut dyn FnMut(u64)| job.run(experiment, execute, report);
        let done = parallel::run_until_interrupted(&jobs, options.threads, progress, run)?;
        let runs = done.iter().flatten().count();
        let results = Results { jobs: &jobs, done };
        let mut rows = Vec::new();
        for case in &self.cases {
            let seeds: Vec<u64> = case.run_seeds(options).collect();
            match &self.each_run {
                None => rows.extend(case.rows.iter().map(|row| results.row(case, row, &seeds))),
                Some(column) => {
                    for (seed, row) in seeds
                        .iter()
                        .flat_map(|seed| case.rows.iter().map(move |row| (seed, row)))
                    {
                        let mut measured = results.row(case, row, &[*seed]);
                        let run = seed - case.first_seed + 1;
                        measured.keys.insert(column.clone(), run.to_string());
                        rows.push(measured);
                    }
                }
            }
        }
        Ok(Measured {
            rows,
            runs,
            planned: jobs.len(),
            wall: started.elapsed(),
        })
    }
}

impl Case {
    /// Returns the seeds of the case's runs.
    fn run_seeds(&self, options: &Options) -> Range<u64> {
        self.first_seed..self.first_seed + options.seeds.unwrap_or(self.seeds)
    }
}

/// Adds a measure to the job of a run. Creates the job if it does not exist yet.
fn add_measure<'a>(jobs: &mut Vec<Job<'a>>, spec: &'a RunSpec, seed: u64, measure: &'a Measure, at: usize) {
    let known = jobs.iter_mut().find(|job| job.seed == seed && job.spec == spec);
    match known {
        Some(job) if job.measures.contains(&measure) => {}
        Some(job) => job.measures.push(measure),
        None => jobs.push(Job {
            spec,
            seed,
            measures: vec![measure],
            at,
        }),
    }
}

impl Job<'_> {
    fn run(
        &self,
        experiment: &Experiment,
        execute: &Execute,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Option<JobValues>, Error> {
        let globals = self.measures.iter().filter_map(|measure| measure.global());
        let wanted = Wanted {
            globals: globals.map(|(at_ns, global)| (at_ns, global.to_owned())).collect(),
            sample_times: self
                .measures
                .iter()
                .filter_map(|measure| measure.sample_time())
                .collect(),
        };
        let run = RunSpec {
            seed: self.seed,
            ..self.spec.clone()
        };
        let seen = execute(&run, &wanted, progress).map_err(|error| {
            let located = experiment.source.error(self.at, &error.message);
            match error.hint {
                Some(hint) => located.hint(hint),
                None => located,
            }
        })?;
        let Some(seen) = seen else { return Ok(None) };
        let value = |measure: &&Measure| match seen.result.failure() {
            Some(failure) => Err(Error::new(format!("{} {failure}", seen.result.policy))),
            None => measure.value(&seen),
        };
        Ok(Some(JobValues {
            values: self.measures.iter().map(value).collect(),
            better: seen.result.score_better,
        }))
    }
}

/// Executes a run in the simulator.
///
/// # Errors
/// The policy, machine, workload or global variable does not exist.
pub fn simulate(
    inputs: &Inputs,
    run: &RunSpec,
    wanted: &Wanted,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Observed>, Error> {
    let scenario = inputs.resolve(run)?;
    scenario.print_notes();
    let mut trail = Trail::new(scenario.machine.topology.nr_cpus(), wanted.sample_times.clone());
    let read = |(at_ns, global): &(Option<u64>, String)| Read {
        at_ns: *at_ns,
        global: global.clone(),
        value: None,
    };
    let mut observer = Observer {
        sink: &mut trail,
        reads: wanted.globals.iter().map(read).collect(),
        counters: false,
        details: false,
    };
    let outcome = scenario.run_observed(&mut observer, progress)?;
    if outcome.result.interrupted {
        return Ok(None);
    }
    let reads = std::mem::take(&mut observer.reads);
    trail.finish(outcome.result.simulated_ns);
    let number = |read: Read| Some(((read.at_ns, read.global), read.value?.parse().ok()?));
    Ok(Some(Observed {
        result: outcome.result,
        trail,
        globals: reads.into_iter().filter_map(number).collect(),
    }))
}

/// The results of all jobs.
struct Results<'a> {
    jobs: &'a [Job<'a>],
    /// The values of each job. `None` if a signal came before the run was complete.
    done: Vec<Option<JobValues>>,
}

/// The reason for a missing value if a signal ended the experiment before the run.
const INTERRUPTED: &str = "interrupted";

impl Results<'_> {
    fn row(&self, case: &Case, row: &CaseRow, seeds: &[u64]) -> MeasuredRow {
        let cell = |(column, quantity): (&String, &Quantity)| {
            let cell = self.cell(case, quantity, seeds);
            // An interruption is reported once for the whole experiment instead of in each cell.
            let is_known = cell.as_ref().err().is_none_or(|reason| reason.message != INTERRUPTED);
            is_known.then(|| (column.clone(), cell))
        };
        MeasuredRow {
            keys: row.keys.clone(),
            cells: row.values.iter().filter_map(cell).collect(),
            expected: row.expected.clone(),
        }
    }

    fn cell(&self, case: &Case, quantity: &Quantity, seeds: &[u64]) -> Cell {
        let value = |seed: &u64| -> Result<f64, Error> {
            let (value, better) = self.value(&case.run, *seed, &quantity.measure)?;
            let (Some(against), Some(baseline)) = (quantity.against, &case.baseline) else {
                return Ok(value * quantity.scale);
            };
            let (base, _) = self.value(baseline, *seed, &quantity.measure)?;
            Ok(against.compare(value, base, quantity.better.unwrap_or(better)))
        };
        let values = seeds.iter().map(value).collect::<Result<Vec<f64>, Error>>()?;
        let exactly = |value: Option<f64>| value.map(|mean| Estimate { mean, half_width: None });
        let combined = match quantity.across {
            Across::Mean => estimate(&values),
            Across::Deviation => exactly(deviation(&values)),
            Across::Least => exactly(values.iter().copied().min_by(f64::total_cmp)),
            Across::Most => exactly(values.iter().copied().max_by(f64::total_cmp)),
            Across::HalfWidth => exactly(estimate(&values).and_then(|estimate| estimate.half_width)),
            Across::Count => exactly(Some(values.len() as f64)),
        };
        combined
            .filter(|estimate| estimate.mean.is_finite())
            .ok_or_else(|| "too few seeds, or a division by 0".into())
    }

    fn value(&self, spec: &RunSpec, seed: u64, measure: &Measure) -> Result<(f64, Better), Error> {
        let mut pairs = self.jobs.iter().zip(&self.done);
        let found = pairs.find(|(job, _)| job.seed == seed && job.spec == spec);
        let (job, done) = found.ok_or("the run is missing")?;
        let done = done.as_ref().ok_or(INTERRUPTED)?;
        let index = job.measures.iter().position(|wanted| *wanted == measure);
        let value = done.values[index.ok_or("the measure is missing")?].clone()?;
        Ok((value, done.better))
    }
}
