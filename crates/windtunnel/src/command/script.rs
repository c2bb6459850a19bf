// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel script` executes scripts, and prints what the scheduler decides.

use clap::Args as ClapArgs;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::{destination, out, scripts};
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct Args {
    /// Files with scripts
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    scripts: Vec<PathBuf>,
    /// Write the log of each script to a file in this directory: NAME.log for NAME.script
    #[arg(long, short, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// Directory with objects, NAME.bpf.o, which are used for policies with these names
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    policies: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        if self.scripts.len() > 1 && self.output.is_none() {
            return Err(
                Error::new("the logs of several scripts cannot be told apart on standard output")
                    .hint("write them to files with --output DIR"),
            );
        }
        for script in &self.scripts {
            let log = scripts::run(script, self.policies.as_deref())?;
            match (&self.output, script.file_stem()) {
                (Some(folder), Some(name)) => {
                    let path = folder.join(name).with_extension("log");
                    destination::write(&path, log.as_bytes())?;
                }
                _ => out!("{log}"),
            }
        }
        Ok(ExitStatus::SUCCESS)
    }
}
