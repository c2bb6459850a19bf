// SPDX-License-Identifier: GPL-2.0-only
//! Runs a sweep, and returns its table.

use crate::error::exception;
use crate::table::Table;
use input::Source;
use input::error::Error;
use lab::sweep::{Done, Options, Plan, Sweep, rows};
use pyo3::prelude::*;
use report::RunResult;
use runner::interrupt;
use runner::spec::{EngineChoice, RunSpec};
use runner::store::Store;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns, for each run of a sweep, the name of the file that has its result in a store.
///
/// # Errors
/// `windtunnel.Error` if an input cannot be used.
#[pyfunction]
pub fn sweep_names(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
    let names = || -> Result<Vec<String>, Error> {
        let plan = Plan::new(&Sweep::parse(&Source::new("sweep", text))?)?;
        plan.runs.iter().map(|run| Ok(plan.inputs.key(run)?.path())).collect()
    };
    py.detach(names).map_err(|error| exception(&error))
}

/// Returns the descriptions of a sweep's runs ([`RunSpec`]) as JSON.
///
/// # Errors
/// `windtunnel.Error` if an input cannot be used.
#[pyfunction]
pub fn sweep_runs(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
    let runs = || -> Result<Vec<String>, Error> {
        let plan = Plan::new(&Sweep::parse(&Source::new("sweep", text))?)?;
        let json = |run: &RunSpec| serde_json::to_string(run).map_err(|error| Error::new(error.to_string()));
        plan.runs.iter().map(json).collect()
    };
    py.detach(runs).map_err(|error| exception(&error))
}

/// Runs a sweep. `text` is the content of a sweep file. The Python package documents the
/// parameters. `only` has the indices of the runs to execute; by default, all are executed.
///
/// # Errors
/// `windtunnel.Error` if an input cannot be used, and `KeyboardInterrupt` after Ctrl-C.
#[pyfunction]
#[pyo3(signature = (text, *, output, store, threads, only = None))]
pub fn sweep(
    py: Python<'_>,
    text: &str,
    output: Option<PathBuf>,
    store: Option<PathBuf>,
    threads: Option<NonZero<usize>>,
    only: Option<Vec<usize>>,
) -> PyResult<Table> {
    let options = Options {
        store: store.map(Store::new),
        output,
        threads,
        engine: EngineChoice::default(),
    };
    let plan = || Plan::new(&Sweep::parse(&Source::new("sweep", text))?);
    let mut plan = plan().map_err(|error| exception(&error))?;
    if let Some(only) = only {
        plan.runs = only.iter().filter_map(|&index| plan.runs.get(index).cloned()).collect();
    }
    let done = py.detach(|| execute(&plan, &options))?;
    let rows: Vec<(&RunSpec, &RunResult)> = plan.runs.iter().zip(done.results.iter().flatten()).collect();
    Ok(rows::table(&plan, &rows).into())
}

/// Executes the runs on other threads, while this thread checks for signals.
fn execute(plan: &Plan, options: &Options) -> PyResult<Done> {
    const INTERVAL: Duration = Duration::from_millis(20);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            let done = plan.run(options, &|_, _| {});
            ended.store(true, Ordering::Release);
            done
        });
        let mut signal = None;
        while !ended.load(Ordering::Acquire) {
            std::thread::park_timeout(INTERVAL);
            if signal.is_none() {
                signal = Python::attach(|py| py.check_signals()).err();
                if signal.is_some() {
                    interrupt::request();
                }
            }
        }
        let done = runs.join();
        if let Some(signal) = signal {
            interrupt::clear();
            return Err(signal);
        }
        let done = done.unwrap_or_else(|_| Err(Error::new("a run panicked, which is a bug of the simulator")));
        done.map_err(|error| exception(&error))
    })
}
