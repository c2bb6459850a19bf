// SPDX-License-Identifier: GPL-2.0-only
//! `policy`, `machine` and `workload`, each with `list` and `show`.

use clap::Subcommand;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use windtunnel::calibrate::calibrate;
use windtunnel::error::Error;
use windtunnel::policy::EEVDF;
use windtunnel::{console, destination, load, policy, search, workloads};
use windtunnel::{errln, out};

#[derive(Subcommand)]
pub enum Policy {
    /// Names and files
    List,
    /// What a policy is for, its parameters, and what of it is not modelled
    Show {
        /// An object or a name
        policy: String,
    },
}

#[derive(Subcommand)]
pub enum Machine {
    /// Names and shapes
    List,
    /// Topology and cost table with its sources
    Show {
        /// Anything that `run --machine` takes
        machine: String,
    },
    /// Measure the machine this runs on and write a machine file
    Calibrate {
        /// The file; without it the text is printed
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub enum Workload {
    /// Files and generators
    List,
    /// A generator's parameters, or the tasks of a workload
    Show {
        /// Anything that `run --workload` takes
        workload: String,
    },
}

impl Policy {
    pub fn run(self) -> Result<ExitCode, Error> {
        match self {
            Policy::List => {
                let mut rows = vec![(EEVDF.to_owned(), "built in: the kernel's fair class".to_owned())];
                rows.extend(policy::list().into_iter().map(|(name, path)| {
                    let idea = policy::header(&name).and_then(|header| policy::idea(&header));
                    (name, idea.unwrap_or_else(|| path.display().to_string()))
                }));
                console::styled(&report::fit::list(&rows, console::surface()));
            }
            Policy::Show { policy } => out!("{}", load::show(&policy::Policy::find(&policy)?)?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Machine {
    pub fn run(self) -> Result<ExitCode, Error> {
        let folders = search::folders("machines");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        match self {
            Machine::List => {
                let (listed, errors) = machine::list(&folders);
                let rows = machine::list_rows(&listed);
                console::styled(&report::fit::list(&rows, console::surface()));
                if let Some(error) = errors.into_iter().next() {
                    return Err(error);
                }
            }
            Machine::Calibrate { output } => {
                destination::check(output.as_deref())?;
                let text = calibrate(&mut |what| errln!("measuring {what}"))?;
                match output {
                    None => out!("{text}"),
                    Some(path) => destination::write(&path, text.as_bytes())?,
                }
            }
            Machine::Show { machine } => out!("{}", machine::show(&machine::define(&machine, &folders)?)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Workload {
    pub fn run(self) -> Result<ExitCode, Error> {
        let folders = search::folders("workloads");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        match self {
            Workload::List => console::styled(&report::fit::list(&workloads::list(&folders), console::surface())),
            Workload::Show { workload } => out!("{}", workloads::show(&workload, &folders)?),
        }
        Ok(ExitCode::SUCCESS)
    }
}
