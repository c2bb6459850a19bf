// SPDX-License-Identifier: GPL-2.0-only
//! The compiled part of the Python package `windtunnel`. The package itself is `python/windtunnel`,
//! which documents the functions and checks the types of arguments.

mod error;
mod run;
mod sweep;
mod table;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::Path;

#[pymodule]
mod _windtunnel {
    #[pymodule_export]
    use super::command;
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::folder;
    #[pymodule_export]
    use super::model_error;
    #[pymodule_export]
    use super::options;
    #[pymodule_export]
    use super::run::run;
    #[pymodule_export]
    use super::sweep::sweep;
    #[pymodule_export]
    use super::sweep::sweep_names;
    #[pymodule_export]
    use super::sweep::sweep_runs;
    #[pymodule_export]
    use super::table::Table;
}

/// Runs the command `windtunnel` with these arguments, of which the first is the name of the
/// program. Returns the exit status.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| windtunnel::command::main(arguments).code())
}

/// Parses the arguments of the commands `tune` and `mcp`, of which the first is the name of the
/// program. Returns the options as JSON, or the exit status if the arguments are wrong or ask for
/// help.
#[pyfunction]
fn options(py: Python<'_>, arguments: Vec<OsString>) -> (Option<String>, u8) {
    match py.detach(|| windtunnel::command::options(&arguments)) {
        Ok(json) => (Some(json), 0),
        Err(status) => (None, status.code()),
    }
}

/// Returns the folder with the files that are embedded in the package: policies, machines,
/// workloads, profiles and experiments.
///
/// # Errors
/// `OSError` if the folder cannot be created.
#[pyfunction]
fn folder() -> PyResult<&'static Path> {
    shipped::folder().map_err(|error| PyOSError::new_err(error.to_string()))
}

/// Returns the errors of the model for a figure of `compare` on a machine with this number of CPUs, as
/// JSON with the keys of the command `score`. `None` if the figure was not compared with a kernel.
#[pyfunction]
fn model_error(figure: &str, cpus: u64, workload: &str) -> Option<String> {
    let known = lab::model_error::of(figure, cpus, workload)?;
    Some(known.json().to_string())
}
