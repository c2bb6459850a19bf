// SPDX-License-Identifier: GPL-2.0-only
//! The commands `list` and `show` for policies, machines and workloads, `policy new` and `machine
//! calibrate`.

use super::{complete, init};
use crate::workloads;
use calibrate::calibrate;
use clap::Subcommand;
use input::error::Error;
use kernel::release::Release;
use runner::exit::ExitStatus;
use runner::policy::EEVDF;
use runner::{console, destination, load, policy, search};
use runner::{errln, out};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub enum Policy {
    /// List names and what the policies do
    List,
    /// Describe a policy: purpose, parameters, and what it uses that is not modelled
    Show {
        /// An object file or a name
        #[arg(add = complete::policies())]
        policy: String,
        /// Linux release to load the object for, 6.12 to 7.3
        #[arg(long, value_name = "RELEASE", default_value_t)]
        kernel: Release,
        /// Print the parameters with their ranges as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a policy to start from, with comments, a workload and a line in the Makefile
    New(init::New),
}

#[derive(Subcommand)]
pub enum Machine {
    /// List names and shapes
    List,
    /// Print the topology, and the cost table with its sources
    Show {
        /// Any machine that `run --machine` accepts
        #[arg(add = complete::machines())]
        machine: String,
    },
    /// Measure this host and write a machine file for it
    Calibrate {
        /// Machine file to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub enum Workload {
    /// List files and generators
    List,
    /// Describe a generator's parameters or the tasks of a workload
    Show {
        /// Any workload that `run --workload` accepts
        #[arg(add = complete::workloads())]
        workload: String,
        /// Print the workload as an rt-app file, for example to change it, or to run it with rt-app
        #[arg(long)]
        rtapp: bool,
    },
}

impl Policy {
    pub fn run(self) -> Result<ExitStatus, Error> {
        match self {
            Policy::List => {
                let mut rows = vec![(EEVDF.to_owned(), "built in: the kernel's fair class".to_owned())];
                rows.extend(policy::list().into_iter().map(|(name, path)| {
                    let idea = policy::header(&name).and_then(|header| policy::idea(&header));
                    (name, idea.unwrap_or_else(|| path.display().to_string()))
                }));
                console::styled(&report::layout::list(&rows, console::surface()));
            }
            Policy::New(new) => return new.run(),
            Policy::Show { policy, json: true, .. } => {
                let json = load::parameters(&policy::Policy::find(&policy)?)?;
                let text = serde_json::to_string_pretty(&json).map_err(|error| Error::new(error.to_string()))?;
                console::json(&text);
            }
            Policy::Show { policy, kernel, .. } => {
                let policy = policy::Policy::find(&policy)?;
                let (text, refused) = load::show(&policy, kernel)?;
                out!("{text}");
                if !refused.is_empty() {
                    for reason in refused {
                        errln!("{}: refused: {reason}", policy.name());
                    }
                    return Ok(ExitStatus::from(1));
                }
            }
        }
        Ok(ExitStatus::SUCCESS)
    }
}

impl Machine {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let folders = search::folders("machines");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        match self {
            Machine::List => {
                let (listed, errors) = machine::list(&folders);
                let rows = machine::list_rows(&listed);
                console::styled(&report::layout::list(&rows, console::surface()));
                if let Some(error) = errors.into_iter().next() {
                    return Err(error);
                }
            }
            Machine::Calibrate { output } => {
                destination::check(output.as_deref())?;
                let text = calibrate(&mut |subject| errln!("measuring {subject}"), &mut |warning| {
                    errln!("windtunnel: warning: {warning}")
                })?;
                match output {
                    None => out!("{text}"),
                    Some(path) => destination::write(&path, text.as_bytes())?,
                }
            }
            Machine::Show { machine } => out!("{}", machine::show(&machine::define(&machine, &folders)?)),
        }
        Ok(ExitStatus::SUCCESS)
    }
}

impl Workload {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let folders = search::folders("workloads");
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        match self {
            Workload::List => console::styled(&report::layout::list(&workloads::list(&folders), console::surface())),
            Workload::Show { workload, rtapp: true } => {
                out!("{}", workload::to_rtapp_json(&workload::load(&workload, &folders)?)?);
            }
            Workload::Show { workload, .. } => out!("{}", workloads::show(&workload, &folders)?),
        }
        Ok(ExitStatus::SUCCESS)
    }
}
