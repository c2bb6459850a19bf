// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel tune` and `windtunnel mcp` are parts of the Python package, because they use Python
//! libraries. This file has their options. The command starts them with the Python of the host, and
//! the Python package parses its arguments with [`options`].

use super::Action;
use super::complete;
use clap::{Args as ClapArgs, ValueEnum};
use input::error::Error;
use runner::exit::ExitStatus;
use runner::spec::Phase;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const PYTHON: &str = "python3";

#[derive(ClapArgs, Serialize)]
pub struct Tune {
    /// An object file, the name of a built policy (`policy list`), or `exec: COMMAND`
    #[arg(add = complete::policies())]
    policy: String,
    /// Machine of the search; can be repeated
    #[arg(long, short, required = true, add = complete::machines())]
    machine: Vec<String>,
    /// Workload of the search; can be repeated
    #[arg(long, short, required = true, add = complete::workloads())]
    workload: Vec<String>,
    /// Parameter to search [default: all for which the policy declares a range]
    #[arg(long, value_name = "NAME[=LOW..HIGH|=A,B,C]", add = complete::settings())]
    param: Option<Vec<String>>,
    /// What to improve, a metric of `compare` [default: score]
    #[arg(long, value_name = "METRIC[:min|:max]", add = complete::metrics())]
    objective: Vec<String>,
    /// Bound on the change of a metric, for example 'p99_wakeup <= +5%'; can be repeated
    #[arg(long, value_name = "CONDITION", add = complete::metrics())]
    constraint: Vec<String>,
    /// Gain over all machines and workloads
    #[arg(long, value_enum, default_value_t)]
    robust: Robust,
    /// Number of settings to try
    #[arg(long, value_name = "N", default_value_t = 30)]
    trials: u64,
    /// Number of seeds of the longest runs
    #[arg(long, value_name = "N", default_value_t = 4)]
    seeds: u64,
    /// Simulated time of the longest runs, for example 500ms [default: the workload's own length]
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    for_: Option<String>,
    /// Whether the seed also determines the times of the ticks and of the tasks' starts
    #[arg(long, value_enum, default_value = "random")]
    phase: Phase,
    /// Machine for the check at the end; can be repeated
    #[arg(long, value_name = "MACHINE", add = complete::machines())]
    held_out_machine: Vec<String>,
    /// Number of seeds for the check at the end
    #[arg(long, value_name = "N", default_value_t = 8)]
    held_out_seeds: u64,
    /// Number of fresh seeds that validate the five best settings
    #[arg(long, value_name = "N", default_value_t = 8)]
    validation_seeds: u64,
    /// Keep the trials in FILE, and go on from there
    #[arg(long, value_name = "FILE")]
    storage: Option<PathBuf>,
    /// How settings are chosen
    #[arg(long, value_enum, default_value_t)]
    sampler: Sampler,
    /// Seed of the choice of settings
    #[arg(long, value_name = "N", default_value_t = 1)]
    sampler_seed: u64,
    /// Number of runs at the same time [default: number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<u64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Robust {
    /// The mean
    #[default]
    Mean,
    /// The smallest
    Worst,
}

#[derive(Clone, Copy, Default, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Sampler {
    /// Tree-structured Parzen estimator
    #[default]
    Tpe,
    /// Genetic algorithm for several objectives, which needs about a hundred trials
    Nsga2,
    /// Gaussian process, which needs PyTorch and SciPy
    Gp,
}

#[derive(ClapArgs, Serialize)]
pub struct Mcp {
    /// Directory for the complete results [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Host time in seconds after which a tool is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    seconds: f64,
}

/// Checks a time, and returns its text.
fn some_time(text: &str) -> Result<String, Error> {
    input::duration::parse_some(text).map(|_| text.to_owned())
}

/// Parses the arguments of `tune` or `mcp`, for the Python package. The first argument is the name of
/// the program. Returns the values of all options as JSON.
///
/// # Errors
/// The arguments are wrong, or they ask for help. The message or the help is printed, and the error
/// is the exit status.
pub fn options(arguments: &[OsString]) -> Result<String, ExitStatus> {
    let command = super::parse(arguments)?;
    let json = match &command.action {
        Action::Tune(args) => serde_json::to_string(args),
        Action::Mcp(args) => serde_json::to_string(args),
        _ => return Err(ExitStatus::from(2)),
    };
    json.map_err(|_| ExitStatus::from(2))
}

/// Replaces this process with a command of the Python package.
///
/// # Errors
/// The host has no Python, or Python has no such package.
pub fn exec(command: &str, arguments: Vec<OsString>) -> Result<ExitStatus, Error> {
    let installed = Command::new(PYTHON).args(["-c", "import windtunnel"]).output();
    let missing = match installed {
        Ok(output) if output.status.success() => {
            let error = Command::new(PYTHON)
                .args(["-m", "windtunnel", command])
                .args(arguments)
                .exec();
            format!("{PYTHON} cannot be started: {error}")
        }
        Ok(_) => format!("{PYTHON} has no package windtunnel"),
        Err(error) => format!("{PYTHON} cannot be started: {error}"),
    };
    Err(Error::new(format!("{command}: {missing}")).hint(format!(
        "install the Python package with this part: pip install 'windtunnel[{command}]'"
    )))
}
