// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel diff`: the first decision at which two runs part.

use super::inputs::{Inputs, SIDES, find};
use super::progress::with_progress;
use clap::{Args as ClapArgs, ValueEnum};
use std::process::ExitCode;
use windtunnel::console;
use windtunnel::diff::streams::Kind;
use windtunnel::diff::{self, Options};
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::interrupt;
use windtunnel::out;

const AFTER: &str = "\
Two policies, two versions of an object, or one with two sets of parameters (--set A:NAME=VALUE). Both get the same
workload from the same seed: runs of different ones part without anybody having decided differently.

What is compared is decisions, not times: decisions about a task in their order, and what each CPU runs in its
order. A run that takes longer for the same decisions does not part. Chance that a workload draws is drawn in the
order of events, which costs can change: --no-costs takes them away.

Exit status: 0 the same decisions, 1 they part or a policy failed, 2 usage or input.

  windtunnel diff fifo vtime -w closed:n=9,compute=3ms,think=2ms -m smp4
  windtunnel diff fifo fifo --set B:slice_ns=5000000 --only run
  windtunnel diff old/fifo.bpf.o new/fifo.bpf.o -w hackbench --json";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// An object, a policy's name, or `eevdf`
    a: String,
    /// The other one
    b: String,
    #[command(flatten)]
    inputs: Inputs,
    /// What counts as a decision [default: all; cpu and run if one side is eevdf]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KINDS")]
    only: Vec<KindArg>,
    /// Draw the schedules around the parting, so much simulated time; 0s: do not
    #[arg(long, value_parser = duration::parse, default_value = "10ms")]
    window: u64,
    /// Kernel, policies and caches cost nothing: only what is decided can differ
    #[arg(long)]
    no_costs: bool,
    /// Everything as JSON on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// The CPU of a woken or new task
    Cpu,
    /// DSQ, slice and place of an insertion
    Insert,
    /// Which CPU takes a task from which DSQ
    Take,
    /// What a CPU runs next
    Run,
    /// Kicks
    Kick,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Kind {
        match kind {
            KindArg::Cpu => Kind::Cpu,
            KindArg::Insert => Kind::Insert,
            KindArg::Take => Kind::Take,
            KindArg::Run => Kind::Run,
            KindArg::Kick => Kind::Kick,
        }
    }
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let specs = [self.a.clone(), self.b.clone()];
        let mut scenarios = self.inputs.scenarios(&find(&specs)?, &SIDES)?;
        if self.no_costs {
            for scenario in &mut scenarios {
                scenario.machine.costs = machine::Costs::none();
            }
        }
        let Ok(sides) = <[_; 2]>::try_from(scenarios) else {
            unreachable!("a scenario for each policy");
        };
        let kinds = match self.only.as_slice() {
            [] => Kind::ALL.to_vec(),
            only => only.iter().map(|&kind| kind.into()).collect(),
        };
        let options = Options {
            kinds,
            window_ns: self.window,
        };
        interrupt::listen();
        let found = with_progress("diff", |progress| diff::run(&sides, &options, progress))?;
        if self.json {
            let text =
                serde_json::to_string_pretty(&diff::json(&found)).map_err(|error| Error::new(error.to_string()))?;
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
        }
        Ok(ExitCode::from(u8::from(found.first.is_some() || found.failed())))
    }
}
