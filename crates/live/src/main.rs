// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel live`: loads policies into the running kernel and executes workloads on this
//! machine.
//!
//! This is a separate program, `windtunnel-live`, which the command `windtunnel live` starts. For
//! this reason, the simulator does not depend on libbpf and needs no privileges.
//!
//! The exit status is
//! - 0 after success,
//! - 1 if the policy failed: the verifier rejected it, or the kernel ejected it,
//! - 2 if the command cannot be executed: the input is wrong, a privilege is missing, or the kernel
//!   lacks a feature.

mod compare;
mod globals;
mod journal;
mod kernel;
mod load;
mod policy;
mod record;
mod run;
mod session;
mod statistics;
mod stop;
mod study;
mod verifier;

use clap::{Parser, Subcommand};
use windtunnel::console;
use windtunnel::errln;
use windtunnel::error::Error;
use windtunnel::exit::ExitStatus;

const NAME: &str = "windtunnel live";

/// Policies and workloads on the running kernel.
#[derive(Parser)]
#[command(
    name = "windtunnel live",
    bin_name = "windtunnel live",
    version,
    max_term_width = 100
)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Load a policy into this kernel and schedule with it until Ctrl-C
    Load(load::Args),
    /// Print the kernel's sched_ext state and the loaded policy's parameters and counters
    Status,
    /// Change a parameter of the running policy
    Set(session::SetArgs),
    /// Unload the policy that `live load` loaded
    Unload,
    /// Execute a workload on this machine under its current scheduler
    Run(run::Args),
    /// Record what this machine's scheduler does into a trace file
    Record(record::Args),
    /// Execute experiments on this machine and show the published figures beside the measured ones
    Study(study::Args),
    /// Simulate and execute the same workload under the same policy, and compare the results
    Compare(compare::Args),
    /// Explain the difference between two traces of the same workload, simulated and live
    Why(compare::why::Args),
}

fn main() -> std::process::ExitCode {
    run_command().into()
}

fn run_command() -> ExitStatus {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == run::exec::WORD) {
        run::exec::resume(&words.next().unwrap_or_default().to_string_lossy());
        return ExitStatus::SUCCESS;
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    let command: Command = match console::arguments(&arguments) {
        Ok(command) => command,
        Err(code) => return console::finish(NAME, code),
    };
    let done: Result<ExitStatus, Error> = match command.action {
        Action::Load(args) => args.run(),
        Action::Status => session::status(),
        Action::Set(args) => args.run(),
        Action::Unload => session::unload(),
        Action::Run(args) => args.run(),
        Action::Record(args) => args.run(),
        Action::Study(args) => args.run(),
        Action::Compare(args) => args.run(),
        Action::Why(args) => args.run(),
    };
    let code = done.unwrap_or_else(|error| {
        errln!("{NAME}: {error}");
        ExitStatus::from(2)
    });
    console::finish(NAME, code)
}
