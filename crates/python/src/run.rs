// SPDX-License-Identifier: GPL-2.0-only
//! Runs a policy, and returns its result as JSON and its records as tables.

use crate::error::exception;
use crate::table::Table;
use input::error::Error;
use lab::compare;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use runner::scenario::{Outcome, Scenario};
use runner::spec::RunSpec;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tables::Tables;
use trace::Tee;

/// Simulated time of one step of a run. Ctrl-C can end the run between two steps.
const STEP_NS: u64 = 5_000_000;
/// Interval between two checks for signals. Checks are rare, because each needs the lock of the
/// Python interpreter (GIL).
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The result of a run: the JSON of the result, the figures by name, the warnings, and the tables
/// if they were requested.
type Ran = (String, Py<PyDict>, Vec<String>, Option<Py<PyDict>>);

/// Runs a policy. `spec` is the description of the run ([`RunSpec`]) as JSON. The Python package
/// documents its fields, which are the options of `windtunnel run`.
///
/// # Errors
/// `windtunnel.Error` if an input cannot be used. A failed policy is not an error.
#[pyfunction]
#[pyo3(signature = (spec, *, tables, trace))]
pub fn run(py: Python<'_>, spec: &str, tables: bool, trace: Option<PathBuf>) -> PyResult<Ran> {
    let scenario = || -> Result<Scenario, Error> {
        Ok(Scenario {
            trace,
            ..RunSpec::from_json(spec)?.resolve()?
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
    let notes = scenario.notes.into_iter().map(|(_, note)| note);
    let warnings = notes.chain(outcome.warnings).collect();
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
