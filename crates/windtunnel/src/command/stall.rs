// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel stall` searches for a run that ends in the stall of a debug dump.

use super::complete;
use super::explore::{Report, progress};
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use input::source::Source;
use kernel::release::Release;
use lab::explore::observe::Target;
use lab::explore::{Limits, explore};
use lab::stall::dump::Dump;
use lab::stall::{describe, rebuild};
use runner::exit::ExitStatus;
use runner::spec::RunSpec;
use runner::{interrupt, out, outln};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

const AFTER: &str = "\
DUMP is the text that a scheduler prints, or the kernel logs, after DEBUG DUMP. Prefixes of lines, as
in a journal, do no harm. The command builds a machine with the CPUs of the dump, and tasks with its
names, affinities and nice values. It then searches for a run of the scheduler in which the same task
stalls, and shrinks this run. A dump does not say what the tasks did before, so each run draws the
times for which they compute and sleep, and adds disturbances. docs/explore.md explains the method.

Exit status: 0 if no run stalls, or without a policy; 1 if a run was found; 2 if the usage or an
input is wrong.";

/// Largest size of a dump, in bytes. A kernel's own limit is the policy's exit_dump_len.
const MAX_BYTES: u64 = 64 << 20;

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// File with the debug dump
    #[arg(value_hint = clap::ValueHint::FilePath)]
    dump: PathBuf,
    /// Object file, or name of a built policy. Without it, the command only describes the dump
    #[arg(add = complete::policies())]
    policy: Option<String>,
    /// Machine of all runs [default: as many CPUs as the dump mentions]
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,
    /// Real time after which no further run begins
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "60s")]
    wall: u64,
    /// Number of runs after which the search ends [default: no limit]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Seed of the search
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not shrink the run
    #[arg(long)]
    no_shrink: bool,
    /// Write the machine, the workload and the command of the run to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Set a parameter of the policy (`policy show`)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Profile, which replaces a policy's user-space part (profiles/README.md)
    #[arg(long, value_name = "FILE")]
    profile: Vec<String>,
    /// Linux release for which objects are loaded
    #[arg(long, value_name = "RELEASE", default_value_t)]
    kernel: Release,
    /// Number of threads [default: one for each CPU of the host]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        interrupt::listen();
        let source = Source::read(&self.dump, MAX_BYTES)?;
        let dump = Dump::read(&source.place, &source.text)?;
        out!("{}", describe(&dump));
        let mut rebuilt = rebuild(&dump).map_err(|error| Error {
            place: source.place.clone(),
            ..error
        })?;
        if let Some(machine) = &self.machine {
            rebuilt.space.machine = Some(machine.clone());
        }
        let Some(policy) = &self.policy else {
            outln!("machine: {}", rebuilt.space.machine.unwrap_or_default());
            outln!("add the object of the scheduler to search for a run that stalls so");
            return Ok(ExitStatus::SUCCESS);
        };
        let spec = RunSpec {
            policy: policy.clone(),
            set: self.set.clone(),
            profile: self.profile.clone(),
            kernel: self.kernel,
            ..RunSpec::default()
        };
        let mut target = Target::new(spec);
        target.stalled = Some(rebuilt.task);
        let limits = Limits {
            runs: self.runs,
            time: Duration::from_nanos(self.wall),
            all: false,
            guided: false,
            threads: self.threads,
        };
        let explored = progress(limits, |each| explore(&target, &rebuilt.space, self.seed, limits, each))?;
        outln!();
        let report = Report {
            shrinks: !self.no_shrink,
            pairs: true,
            out: self.out.as_deref(),
            threads: self.threads,
        };
        report.print(&target, &explored)
    }
}
