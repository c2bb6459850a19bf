// SPDX-License-Identifier: GPL-2.0-only
//! Running an experiment: every different run once, on all threads, and what the rows make of them.

use super::Experiment;
use super::cases::{Case, CaseRow, Plan, RunSpec};
use super::measure::{Across, Measure, Quantity};
use super::observe::{Observed, Trail};
use super::statistics::{Estimate, deviation, estimate};
use crate::error::Error;
use crate::parallel::{self, Progress};
use crate::policy::Policy;
use crate::scenario::{Onlooker, Read, Scenario};
use crate::search;
use bpf::engine::Engine;
use machine::MachineSpec;
use report::Better;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};
use workload::Workload;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instead of the definition's.
    pub seeds: Option<u64>,
    /// At once; `None`: as many as there are CPUs.
    pub threads: Option<NonZero<usize>>,
    /// Changed variables.
    pub with: Vec<(String, String)>,
}

/// A value, or why there is none.
pub type Cell = Result<Estimate, String>;

/// One row of the table.
#[derive(Clone, Debug)]
pub struct MeasuredRow {
    pub keys: BTreeMap<String, String>,
    pub cells: BTreeMap<String, Cell>,
    /// From theory.
    pub expected: BTreeMap<String, f64>,
}

/// What running gave.
#[derive(Clone, Debug)]
pub struct Measured {
    pub rows: Vec<MeasuredRow>,
    /// Different runs that are complete.
    pub runs: usize,
    /// Different runs there are: more than complete ones if a signal came.
    pub planned: usize,
    pub wall: Duration,
}

/// One run, with what is wanted of it.
struct Job<'a> {
    spec: &'a RunSpec,
    seed: u64,
    measures: Vec<&'a Measure>,
    at: usize,
}

/// What the measures of a run need to see of it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Globals of the policy, by the time of the look (`None`: at the end).
    pub globals: Vec<(Option<u64>, String)>,
    /// Times at which the queues are looked at, ns.
    pub looks: Vec<u64>,
}

/// Executes a run under a seed and reports the share that is done, in 0..=1000. Returns `None` if a signal ended the run.
///
/// [`simulate`] does it in the simulator; `windtunnel live study` does it on the machine itself.
pub type Execute<'a> =
    dyn Fn(&RunSpec, u64, &Wanted, &mut dyn FnMut(u64)) -> Result<Option<Observed>, Error> + Sync + 'a;

/// The values of a job, in the order of its measures.
struct Done {
    values: Vec<Result<f64, String>>,
    better: Better,
}

impl Plan {
    /// Runs everything. `progress` is told how much of how much is done, a run being a thousand.
    ///
    /// # Errors
    /// What the definition gives cannot work. A policy that fails leaves cells without a value.
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
            for seed in 1..=options.seeds.unwrap_or(case.seeds) {
                for quantity in case.rows.iter().flat_map(|row| row.values.values()) {
                    want(&mut jobs, &case.run, seed, &quantity.measure, case.at);
                    if let Some(baseline) = case.baseline.as_ref().filter(|_| quantity.against.is_some()) {
                        want(&mut jobs, baseline, seed, &quantity.measure, case.at);
                    }
                }
            }
        }
        let run = |job: &Job, tell: &mut dyn FnMut(u64)| job.run(experiment, execute, tell);
        let done = parallel::run_until_interrupted(&jobs, options.threads, progress, run)?;
        let runs = done.iter().flatten().count();
        let results = Results { jobs: &jobs, done };
        let mut rows = Vec::new();
        for case in &self.cases {
            let seeds: Vec<u64> = (1..=options.seeds.unwrap_or(case.seeds)).collect();
            match &self.each_run {
                None => rows.extend(case.rows.iter().map(|row| results.row(case, row, &seeds))),
                Some(column) => {
                    for (seed, row) in seeds
                        .iter()
                        .flat_map(|seed| case.rows.iter().map(move |row| (seed, row)))
                    {
                        let mut measured = results.row(case, row, &[*seed]);
                        measured.keys.insert(column.clone(), seed.to_string());
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

/// Adds a measure to the job of this run, and the job if it is the first.
fn want<'a>(jobs: &mut Vec<Job<'a>>, spec: &'a RunSpec, seed: u64, measure: &'a Measure, at: usize) {
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
    ) -> Result<Option<Done>, Error> {
        let globals = self.measures.iter().filter_map(|measure| measure.global());
        let wanted = Wanted {
            globals: globals.map(|(at_ns, global)| (at_ns, global.to_owned())).collect(),
            looks: self.measures.iter().filter_map(|measure| measure.look()).collect(),
        };
        let seen = execute(self.spec, self.seed, &wanted, progress).map_err(|error| {
            let place = experiment.source.error(self.at, &error.message);
            match error.hint {
                Some(hint) => place.hint(hint),
                None => place,
            }
        })?;
        let Some(seen) = seen else { return Ok(None) };
        let value = |measure: &&Measure| match seen.result.failure() {
            Some(failure) => Err(format!("{} {failure}", seen.result.policy)),
            None => measure.value(&seen),
        };
        Ok(Some(Done {
            values: self.measures.iter().map(value).collect(),
            better: seen.result.score_better,
        }))
    }
}

/// Executes a run in the simulator.
///
/// # Errors
/// If there is no such policy, machine, workload or global.
pub fn simulate(
    spec: &RunSpec,
    seed: u64,
    wanted: &Wanted,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Observed>, Error> {
    let scenario = spec.scenario(seed)?;
    let mut trail = Trail::new(scenario.machine.topology.nr_cpus(), wanted.looks.clone());
    let read = |(at_ns, global): &(Option<u64>, String)| Read {
        at_ns: *at_ns,
        global: global.clone(),
        value: None,
    };
    let mut onlooker = Onlooker {
        sink: &mut trail,
        reads: wanted.globals.iter().map(read).collect(),
        details: false,
    };
    let outcome = scenario.watched(&mut onlooker, progress)?;
    if outcome.result.interrupted {
        return Ok(None);
    }
    let reads = std::mem::take(&mut onlooker.reads);
    trail.finish(outcome.result.simulated_ns);
    let number = |read: Read| Some(((read.at_ns, read.global), read.value?.parse().ok()?));
    Ok(Some(Observed {
        result: outcome.result,
        trail,
        globals: reads.into_iter().filter_map(number).collect(),
    }))
}

impl RunSpec {
    /// # Errors
    /// If there is no such policy, machine or workload.
    pub fn scenario(&self, seed: u64) -> Result<Scenario, Error> {
        Ok(Scenario {
            profile: None,
            policy: Policy::find(&self.policy)?,
            settings: self.settings.clone(),
            engine: Engine::default(),
            checked: false,
            machine: self.machine()?,
            workload: self.workload()?,
            seed,
            for_ns: self.for_ns,
            kernel: kernel::release::Release::default(),
            after_failure: false,
            hotplug: Vec::new(),
            memory: bpf::memory::DEFAULT_LIMIT,
            trace: None,
            draw: None,
        })
    }

    /// # Errors
    /// If there is no such machine.
    pub fn machine(&self) -> Result<MachineSpec, Error> {
        let folders = search::folders("machines");
        let folders: Vec<&Path> = folders.iter().map(std::path::PathBuf::as_path).collect();
        let mut machine = machine::load(&self.machine, &folders)?;
        if !self.costs {
            machine.costs = machine::Costs::none();
        }
        machine.hz = self.hz.unwrap_or(machine.hz);
        Ok(machine)
    }

    /// # Errors
    /// If there is no such workload.
    pub fn workload(&self) -> Result<Workload, Error> {
        let folders = search::folders("workloads");
        let folders: Vec<&Path> = folders.iter().map(std::path::PathBuf::as_path).collect();
        workload::load(&self.workload, &folders)
    }

    /// The command that does the same run.
    pub fn command(&self, seed: u64) -> String {
        let mut words = vec![format!("windtunnel run {}", self.policy)];
        words.push(format!("--machine {} --workload '{}'", self.machine, self.workload));
        words.extend(
            self.settings
                .iter()
                .map(|(name, value)| format!("--set {name}={value}")),
        );
        words.extend(self.for_ns.map(|ns| format!("--for {}", crate::duration::format(ns))));
        words.push(format!("--seed {seed}"));
        if !self.costs || self.hz.is_some() {
            let costs = if self.costs { "" } else { " without costs" };
            let ticks = self.hz.map(|hz| format!(" at {hz} ticks a second")).unwrap_or_default();
            words.push(format!("# but{costs}{ticks}"));
        }
        words.join(" ")
    }
}

struct Results<'a> {
    jobs: &'a [Job<'a>],
    /// `None`: a signal came before the run was complete.
    done: Vec<Option<Done>>,
}

/// Why a value is missing where a signal came before its run.
const INTERRUPTED: &str = "interrupted";

impl Results<'_> {
    fn row(&self, case: &Case, row: &CaseRow, seeds: &[u64]) -> MeasuredRow {
        let cell = |(column, quantity): (&String, &Quantity)| {
            let cell = self.cell(case, quantity, seeds);
            // That it is missing is said once, of the experiment.
            let is_known = cell.as_ref().err().is_none_or(|reason| reason != INTERRUPTED);
            is_known.then(|| (column.clone(), cell))
        };
        MeasuredRow {
            keys: row.keys.clone(),
            cells: row.values.iter().filter_map(cell).collect(),
            expected: row.expected.clone(),
        }
    }

    fn cell(&self, case: &Case, quantity: &Quantity, seeds: &[u64]) -> Cell {
        let value = |seed: &u64| -> Result<f64, String> {
            let (value, better) = self.value(&case.run, *seed, &quantity.measure)?;
            let (Some(against), Some(baseline)) = (quantity.against, &case.baseline) else {
                return Ok(value * quantity.scale);
            };
            let (base, _) = self.value(baseline, *seed, &quantity.measure)?;
            Ok(against.compare(value, base, quantity.better.unwrap_or(better)))
        };
        let values = seeds.iter().map(value).collect::<Result<Vec<f64>, String>>()?;
        let exactly = |value: Option<f64>| value.map(|mean| Estimate { mean, half_width: None });
        let told = match quantity.across {
            Across::Mean => estimate(&values),
            Across::Deviation => exactly(deviation(&values)),
            Across::Least => exactly(values.iter().copied().min_by(f64::total_cmp)),
            Across::Most => exactly(values.iter().copied().max_by(f64::total_cmp)),
            Across::HalfWidth => exactly(estimate(&values).and_then(|told| told.half_width)),
            Across::Count => exactly(Some(values.len() as f64)),
        };
        told.filter(|told| told.mean.is_finite())
            .ok_or_else(|| "too few seeds, or a division by nothing".into())
    }

    fn value(&self, spec: &RunSpec, seed: u64, measure: &Measure) -> Result<(f64, Better), String> {
        let mut of = self.jobs.iter().zip(&self.done);
        let found = of.find(|(job, _)| job.seed == seed && job.spec == spec);
        let (job, done) = found.ok_or("it was not run")?;
        let done = done.as_ref().ok_or(INTERRUPTED)?;
        let place = job.measures.iter().position(|wanted| *wanted == measure);
        let value = done.values[place.ok_or("it was not measured")?].clone()?;
        Ok((value, done.better))
    }
}
