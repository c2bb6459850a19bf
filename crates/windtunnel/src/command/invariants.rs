// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel invariants` checks work conservation, starvation and CPU affinity during a run.

use super::complete;
use super::profiles;
use super::progress::with_progress;
use clap::Args as ClapArgs;
use input::duration;
use input::error::Error;
use lab::invariants::{self, Bounds};
use runner::console;
use runner::destination;
use runner::exit::ExitStatus;
use runner::interrupt;
use runner::spec::RunSpec;
use runner::{errln, outln};
use std::path::PathBuf;

const AFTER: &str = "\
Prints for each invariant whether it holds. A bound that is longer than the run is not tested. For
the first violation of each invariant, draws the schedule around it and prints the command that
repeats the drawing.

Exit status: 0 if no invariant is violated, 1 if one is violated, a policy failed or lost tasks, or
the workload ended in a deadlock, 2 if the usage or an input is wrong.

  windtunnel invariants pmqs fifo -m numa16 -w chat --for 1s --idle 2ms";

#[derive(ClapArgs)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Object files, names of built policies (`policy list`), `exec: COMMAND`, or `eevdf`
    #[arg(required = true, add = complete::policies())]
    policies: Vec<String>,
    #[command(flatten)]
    spec: RunSpec,
    /// Longest time that a CPU may idle while a task waits that may run there
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1ms")]
    idle: u64,
    /// Longest time that a task may wait for a CPU
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "500ms")]
    starvation: u64,
    /// Print the result as JSON, one object for each policy
    #[arg(long)]
    json: bool,
    /// Write the result as an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Args {
    pub fn run(self) -> Result<ExitStatus, Error> {
        let bounds = Bounds {
            idle_ns: self.idle,
            starvation_ns: self.starvation,
        };
        let (mut failed, mut reports, mut shown) = (false, Vec::new(), Vec::new());
        let scenarios = self.spec.scenarios(&self.policies, &[])?;
        interrupt::listen();
        destination::check(self.html.as_deref())?;
        for (index, scenario) in scenarios.iter().enumerate() {
            if interrupt::signal().is_some() {
                errln!("{}: not run (interrupted)", self.policies[index]);
                continue;
            }
            let name = scenario.policy.name();
            let report = with_progress(name, |progress| invariants::check(scenario, bounds, progress))?;
            failed |= report.has_violation() || report.result.failed() || report.result.lost_tasks.is_some();
            let command = |from, to| window_command(&scenario.spec, from, to);
            if self.html.is_some() && !report.result.interrupted {
                shown.push((report.clone(), invariants::violations(&report, &command)));
            }
            if self.json {
                // An interrupted run has no result.
                if !report.result.interrupted {
                    reports.push(invariants::json(&report, &command));
                }
                continue;
            }
            console::styled(&invariants::text(&report, console::surface(), &command));
            for note in profiles::notes(std::slice::from_ref(scenario), &[]) {
                outln!("{note}");
            }
            outln!();
            if let Some(failure) = report.result.failure() {
                outln!("{name} {failure}");
            }
        }
        if let Some(path) = &self.html {
            destination::write(path, invariants::page(&shown).as_bytes())?;
        }
        if self.json {
            let text = serde_json::to_string_pretty(&reports).map_err(|error| Error::new(error.to_string()))?;
            console::json(&text);
        }
        Ok(ExitStatus::from(u8::from(failed)))
    }
}

/// Returns the command line that draws the schedule of a run from `from` to `to` (in ns).
fn window_command(spec: &RunSpec, from: u64, to: u64) -> String {
    let run = RunSpec {
        for_ns: Some(to),
        ..spec.clone()
    };
    let (from, to) = (duration::format(from), duration::format(to));
    format!("{} --draw {from}-{to}", run.command("run"))
}
