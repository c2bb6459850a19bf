// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel invariants`: work conservation, starvation, affinity.

use super::inputs::{Inputs, find};
use super::progress::with_progress;
use clap::Args as ClapArgs;
use std::process::ExitCode;
use windtunnel::console;
use windtunnel::duration;
use windtunnel::error::Error;
use windtunnel::interrupt;
use windtunnel::invariants::{self, Bounds};
use windtunnel::{errln, outln};

const AFTER: &str = "\
Tells of each invariant whether it holds, and draws the time around its first violation, with the command that draws
just that again.

Exit status: 0 all hold, 1 one is broken or a policy failed, 2 usage or input.

  windtunnel invariants pmqs fifo -m numa16 -w chat --for 1s --idle 2ms";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Objects, names of built policies, or `eevdf`
    #[arg(required = true)]
    policies: Vec<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// A CPU may idle so long while a task that may run there waits
    #[arg(long, value_parser = duration::parse, default_value = "1ms")]
    idle: u64,
    /// A task may wait so long to run
    #[arg(long, value_parser = duration::parse, default_value = "500ms")]
    starvation: u64,
    /// Everything as JSON on standard output, one object a policy
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        let bounds = Bounds {
            idle_ns: self.idle,
            starvation_ns: self.starvation,
        };
        let (mut bad, mut told) = (false, Vec::new());
        let scenarios = self.inputs.scenarios(&find(&self.policies)?, &[])?;
        interrupt::listen();
        for (index, scenario) in scenarios.iter().enumerate() {
            if interrupt::signal().is_some() {
                errln!("{}: not run: interrupted", self.policies[index]);
                continue;
            }
            let name = scenario.policy.name();
            let report = with_progress(name, |progress| invariants::check(scenario, bounds, progress))?;
            bad |= report.broken() || report.result.failed();
            let command = |from, to| {
                self.inputs
                    .window_command(&self.policies[index], &scenario.settings, from, to)
            };
            if self.json {
                // What is half done is no result.
                if !report.result.interrupted {
                    told.push(invariants::json(&report, &command));
                }
                continue;
            }
            console::styled(&invariants::text(&report, console::surface(), &command));
            outln!();
            if let Some(failure) = report.result.failure() {
                outln!("{name} {failure}");
            }
        }
        if self.json {
            let text = serde_json::to_string_pretty(&told).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        }
        Ok(ExitCode::from(u8::from(bad)))
    }
}
