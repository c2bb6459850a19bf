// SPDX-License-Identifier: GPL-2.0-only
//! The subcommands and their arguments.
//!
//! Exit status: 0 done, 1 a policy failed or what was asked to hold does not, 2 usage, input or output, 130 and 143 ended by
//! Ctrl-C and SIGTERM.

mod check;
mod compare;
mod diff;
mod documents;
mod experiment;
mod exports;
mod inputs;
mod invariants;
mod list;
mod live;
mod progress;
mod report;
mod run;
mod suite;
mod top;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use windtunnel::errln;
use windtunnel::error::Error;

/// A wind tunnel for Linux CPU schedulers: runs sched_ext objects on simulated machines.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run one or more policies on a machine under a workload and compare them
    Run(Box<run::Args>),
    /// What trace files and recordings tell
    Report(report::Args),
    /// Two policies over many seeds: effects with confidence intervals, a verdict, and an exit status for CI
    Compare(Box<compare::Args>),
    /// The first decision at which two runs part, and what each of them saw
    Diff(Box<diff::Args>),
    /// Does a CPU idle while a task waits, does a task starve? The first time drawn
    Invariants(Box<invariants::Args>),
    /// Watch a simulation while it runs: CPUs, queues, rates, busiest tasks
    Top(Box<top::Args>),
    /// Load objects and say what of them is not modelled
    Check(check::Args),
    /// Tests of policies as data: objects, what is done to them, what must hold
    Suite(suite::Args),
    /// The policies that are built here
    #[command(subcommand)]
    Policy(list::Policy),
    /// The machines known by name
    #[command(subcommand)]
    Machine(list::Machine),
    /// The workloads: files and generators
    #[command(subcommand)]
    Workload(list::Workload),
    /// Published tables, run again and compared
    #[command(subcommand)]
    Experiment(experiment::Action),
    /// The same policy, the same workload, on the running kernel (`windtunnel live --help`)
    #[command(disable_help_flag = true)]
    Live(live::Args),
    /// Print a script that completes commands and options in a shell
    Completions(documents::Completions),
    /// Write the reference pages and man pages of all commands
    #[command(hide = true)]
    Docs(documents::Documents),
}

impl Command {
    pub fn run(self) -> Result<ExitCode, Error> {
        match self.action {
            Action::Run(args) => args.run(),
            Action::Report(args) => args.run(),
            Action::Compare(args) => args.run(),
            Action::Diff(args) => args.run(),
            Action::Invariants(args) => args.run(),
            Action::Top(args) => args.run(),
            Action::Check(args) => args.run(),
            Action::Suite(args) => args.run(),
            Action::Policy(list) => list.run(),
            Action::Machine(list) => list.run(),
            Action::Workload(list) => list.run(),
            Action::Experiment(action) => action.run(),
            Action::Live(args) => args.run(),
            Action::Completions(args) => args.run(),
            Action::Docs(args) => args.run(),
        }
    }
}

/// A panic is an error of the simulator: say so, and how to repeat it.
pub fn name_bugs() {
    let standard = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        standard(panic);
        let args = std::env::args_os().skip(1);
        let args: Vec<String> = args.map(|arg| inputs::quote(&arg.to_string_lossy())).collect();
        errln!("windtunnel: this is a bug of the simulator, not of the policy. The command that repeats it:");
        errln!("  windtunnel {}", args.join(" "));
    }));
}
