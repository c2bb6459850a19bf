// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel diff` finds the first scheduling decision at which two runs differ.

use super::complete;
use super::profiles;
use super::progress::with_progress;
use clap::{Args as ClapArgs, ValueEnum};
use input::duration;
use input::error::Error;
use lab::diff::streams::StreamKind;
use lab::diff::{self, Options};
use runner::console;
use runner::destination;
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::spec::{RunSpec, SIDES};
use runner::{out, outln};
use std::path::PathBuf;

const AFTER: &str = "\
Compares two policies, two versions of an object, or one policy with two sets of parameters
(--set A:NAME=VALUE). Both runs have the same workload and the same seed.

Decisions are compared, not times: the sequence of decisions about each task, and the sequence of
tasks that each CPU runs. A run that makes the same decisions later does not differ. The order of
events determines a workload's random numbers, and costs of the kernel and the policy can change
this order. --no-costs prevents that.

Exit status: 0 if the decisions are the same, 1 if they differ or a policy failed, 2 if the usage
or an input is wrong.";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Object file, name of a built policy (`policy list`), `exec: COMMAND`, or `eevdf`
    #[arg(add = complete::policies())]
    a: String,
    /// Object, policy or `eevdf` to compare with A
    #[arg(add = complete::policies())]
    b: String,
    #[command(flatten)]
    spec: RunSpec,
    /// Kinds of decisions to compare [default: all; cpu and run if one side is eevdf]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KINDS")]
    only: Vec<KindArg>,
    /// Length of the drawing around the first difference, in simulated time. 0s draws nothing
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "10ms")]
    window: u64,
    /// Let the kernel, the policies and caches cost no time, so that only decisions can differ
    #[arg(long)]
    no_costs: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the result as an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// CPU that is selected for a woken or new task
    Cpu,
    /// DSQ, slice and position of an inserted task
    Insert,
    /// CPU that takes a task from a DSQ
    Take,
    /// Task that a CPU runs next
    Run,
    /// CPU that is kicked
    Kick,
}

impl From<KindArg> for StreamKind {
    fn from(kind: KindArg) -> StreamKind {
        match kind {
            KindArg::Cpu => StreamKind::Cpu,
            KindArg::Insert => StreamKind::Insert,
            KindArg::Take => StreamKind::Take,
            KindArg::Run => StreamKind::Run,
            KindArg::Kick => StreamKind::Kick,
        }
    }
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let spec = RunSpec {
            no_costs: self.no_costs,
            ..self.spec
        };
        let Ok(sides) = <[_; 2]>::try_from(spec.scenarios(&[self.a, self.b], &SIDES)?) else {
            unreachable!("scenarios() returns one scenario for each policy");
        };
        let kinds = match self.only.as_slice() {
            [] => StreamKind::ALL.to_vec(),
            only => only.iter().map(|&kind| kind.into()).collect(),
        };
        let options = Options {
            kinds,
            window_ns: self.window,
        };
        interrupt::listen();
        destination::check(self.html.as_deref())?;
        let found = with_progress("diff", |progress| diff::run(&sides, &options, progress))?;
        if self.json {
            let mut json = diff::json(&found);
            json["profiles"] = profiles::json(&sides);
            let text = serde_json::to_string_pretty(&json).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        } else {
            let surface = console::surface();
            out!(
                "{}",
                diff::text(
                    &found,
                    report::Surface {
                        colour: false,
                        ..surface
                    }
                )
            );
            profiles::notes(&sides, &SIDES).iter().for_each(|note| outln!("{note}"));
        }
        if let Some(path) = &self.html {
            let run = &sides[0];
            let facts = format!("{} on {} · seed {}", run.workload.name, run.machine.name, run.spec.seed);
            let repeat = spec.command_for("diff", &sides, &SIDES);
            destination::write(path, diff::page(&found, &facts, &repeat).as_bytes())?;
        }
        Ok(ExitStatus::from(u8::from(found.first.is_some() || found.failed())))
    }
}
