// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel script` executes scripts and prints what the scheduler decides, or writes a script from a
//! workload.

use super::complete;
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::inputs::Inputs;
use runner::spec::RunSpec;
use runner::{destination, errln, out, scripts};
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct Args {
    /// Files with scripts
    #[arg(required_unless_present = "from", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    scripts: Vec<PathBuf>,
    /// Write the log of each script to a file in this directory: NAME.log for NAME.script
    #[arg(long, short, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    output: Option<PathBuf>,
    /// Directory with objects, NAME.bpf.o, which are used for policies with these names
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    policies: Option<PathBuf>,
    /// Print a script that does what the tasks of this workload do under a policy
    #[arg(long, value_name = "WORKLOAD", requires = "policy", conflicts_with_all = ["scripts", "output", "policies"])]
    from: Option<String>,
    /// With --from: object file, or name of a built policy (`policy list`)
    #[arg(long, requires = "from", add = complete::policies())]
    policy: Option<String>,
    /// With --from: machine of at most 16 CPUs
    #[arg(long, short, requires = "from", value_name = "MACHINE", default_value = "smp4")]
    machine: String,
    /// With --from: time after which the script ends
    #[arg(long = "for", requires = "from", value_name = "TIME", value_parser = duration::parse_some, default_value = "1s")]
    for_ns: u64,
    /// With --from: end the script when a task has waited for a CPU for this long
    #[arg(long, requires = "from", value_name = "TIME", value_parser = duration::parse_some, default_value = "500ms")]
    stall: u64,
    /// With --from: set a parameter of the policy (`policy show`)
    #[arg(long, requires = "from", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        if let Some(workload) = &self.from {
            return self.convert(workload);
        }
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

    /// Prints the script of a workload, and on standard error what its run shows.
    fn convert(&self, workload: &str) -> Result<ExitStatus, Error> {
        let spec = RunSpec {
            policy: self.policy.clone().unwrap_or_default(),
            machine: Some(self.machine.clone()),
            workload: workload.to_owned(),
            for_ns: Some(self.for_ns),
            set: self.set.clone(),
            ..RunSpec::default()
        };
        let scenario = Inputs::default().resolve(&spec)?;
        let converted = scripts::convert(&scenario, self.for_ns, self.stall)?;
        out!("{}", converted.text);
        for part in &converted.left_out {
            errln!("the script leaves out {part}");
        }
        if let Some(stalled) = &converted.stalled {
            let from = stalled.from_ns as f64 / 1e6;
            errln!("{} waits for a CPU from {from:.3} ms on, until the end", stalled.task);
        }
        if let Some(message) = &converted.ended {
            errln!("the policy has ended: {message}");
        }
        Ok(ExitStatus::SUCCESS)
    }
}
