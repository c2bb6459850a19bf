// SPDX-License-Identifier: GPL-2.0-only
//! Runs a policy, and returns its result as JSON and its records as tables.

use crate::error::exception;
use crate::table::Table;
use bpf::engine::Engine;
use bpf::memory::DEFAULT_LIMIT;
use kernel::release::Release;
use machine::Noise;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tables::Tables;
use trace::Tee;
use windtunnel::error::Error;
use windtunnel::policy::Policy;
use windtunnel::scenario::{Outcome, Scenario};
use windtunnel::{compare, duration, search, size};

/// Simulated time of one step of a run. Ctrl-C can end the run between two steps.
const STEP_NS: u64 = 5_000_000;
/// Interval between two checks for signals. Checks are rare, because each needs the lock of the
/// Python interpreter (GIL).
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of a run: the JSON of the result, the figures by name, the warnings, and the tables
/// if they were requested.
type Ran = (String, Py<PyDict>, Vec<String>, Option<Py<PyDict>>);

/// Runs a policy. The Python package documents the parameters.
///
/// # Errors
/// `windtunnel.Error` if an input cannot be used. A failed policy is not an error.
#[pyfunction]
#[pyo3(signature = (policy, *, machine, workload, seed, settings, for_ns, profile, profile_fit, kernel, noise, phase, sanitize, after_failure, memory, tables, trace))]
#[expect(
    clippy::too_many_arguments,
    reason = "they are the keyword arguments of the Python function"
)]
pub fn run(
    py: Python<'_>,
    policy: &str,
    machine: Option<&str>,
    workload: &str,
    seed: u64,
    settings: Vec<(String, String)>,
    for_ns: Option<&str>,
    profile: Option<PathBuf>,
    profile_fit: &str,
    kernel: Option<&str>,
    noise: Option<&str>,
    phase: &str,
    sanitize: bool,
    after_failure: bool,
    memory: Option<&str>,
    tables: bool,
    trace: Option<PathBuf>,
) -> PyResult<Ran> {
    let mut notes = Vec::new();
    let scenario = || -> Result<Scenario, Error> {
        let workload = workload::load(workload, &paths(&search::folders("workloads")))?;
        let (machine, note) = match machine {
            Some(machine) => (machine.to_owned(), None),
            None => search::default_machine(&workload),
        };
        let definition = machine::define(&machine, &paths(&search::folders("machines")))?;
        notes = note.into_iter().chain(definition.notes).collect();
        let mut machine = definition.spec;
        if let Some(level) = noise {
            machine.noise = Noise::parse(level).map_err(|error| Error::new(format!("noise: {error}")))?;
        }
        Ok(Scenario {
            policy: Policy::find(policy)?,
            profile,
            profile_fit: profile_fit.parse().map_err(Error::new)?,
            settings,
            engine: Engine::default(),
            sanitizer: sanitize,
            machine,
            workload,
            seed,
            phase: phase.parse().map_err(Error::new)?,
            for_ns: for_ns.map(duration::parse_some).transpose().map_err(Error::new)?,
            kernel: kernel.map_or(Ok(Release::default()), |release| {
                release
                    .parse()
                    .map_err(|error| Error::new(format!("kernel {release}: {error}")))
            })?,
            after_failure,
            hotplug: Vec::new(),
            memory: memory.map_or(Ok(DEFAULT_LIMIT), |size| size::parse(size).map_err(Error::new))?,
            trace,
            draw: None,
        })
    };
    let scenario = scenario().map_err(|error| exception(&error))?;
    let (outcome, tables) = py.detach(|| execute(&scenario, tables))?;
    let json = outcome
        .result
        .to_json()
        .map_err(|error| exception(&Error::new(error.to_string())))?;
    let figures = PyDict::new(py);
    for metric in compare::metric::metrics() {
        figures.set_item(metric.name, metric.value(&outcome.result))?;
    }
    let tables = match tables {
        None => None,
        Some(tables) => {
            let named = PyDict::new(py);
            for (name, batch) in tables.finish(outcome.result.simulated_ns) {
                named.set_item(name, Py::new(py, Table { batch })?)?;
            }
            Some(named.unbind())
        }
    };
    let warnings = [notes, outcome.warnings].concat();
    Ok((json.to_string(), figures.unbind(), warnings, tables))
}

/// Runs a scenario without the lock of the Python interpreter (GIL). A signal that raises an
/// exception in Python, such as Ctrl-C, ends the run.
fn execute(scenario: &Scenario, tables: bool) -> PyResult<(Outcome, Option<Tables>)> {
    let failed = |error: Error| exception(&error);
    let mut running = scenario.start().map_err(failed)?;
    let mut tables = tables.then(|| Tables::new(running.machine.nr_cpus() as usize, &scenario.header().ops));
    running.machine.details |= tables.is_some();
    running.count();
    let mut sink = Tee::new();
    if let Some(tables) = &mut tables {
        sink = sink.with(tables);
    }
    let mut looked = Instant::now();
    while !running.ended() {
        running.advance(running.at() + STEP_NS, &mut sink).map_err(failed)?;
        if looked.elapsed() >= SIGNAL_INTERVAL {
            looked = Instant::now();
            Python::attach(|py| py.check_signals()).inspect_err(|_| running.interrupt())?;
        }
    }
    running.end(&mut sink);
    let mut outcome = running.outcome().map_err(failed)?;
    match outcome.unwritten.take() {
        Some(error) => Err(failed(error)),
        None => Ok((outcome, tables)),
    }
}

fn paths(folders: &[PathBuf]) -> Vec<&Path> {
    folders.iter().map(PathBuf::as_path).collect()
}
