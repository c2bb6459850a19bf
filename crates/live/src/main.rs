// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel live`: the policy that won in the wind tunnel, loaded into the running kernel; the same workload, executed
//! for real.
//!
//! A command of its own, which `windtunnel live` starts, so that the simulator needs neither libbpf nor a privilege.
//! Exit status: 0 done, 1 the policy failed (the verifier rejected it, the kernel ejected it), 2 refused: input, privileges,
//! or a kernel that cannot do it.

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
use std::process::ExitCode;
use windtunnel::console;
use windtunnel::errln;
use windtunnel::error::Error;

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
    /// Load a policy into this kernel and keep it there until Ctrl-C
    Load(load::Args),
    /// What schedules now: the kernel's state, the policy's parameters and counters
    Status,
    /// Change a parameter of the running policy
    Set(session::SetArgs),
    /// Unload the policy that `live load` loaded
    Unload,
    /// Execute a workload for real under the scheduler that this kernel has
    Run(run::Args),
    /// Record what this machine's scheduler does, as a trace file
    Record(record::Args),
    /// Execute experiments on this machine, with what was published beside the figures
    Study(study::Args),
    /// Simulate and execute the same workload under the same policy, and set the results side by side
    Compare(compare::Args),
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == run::exec::WORD) {
        run::exec::go_on(&words.next().unwrap_or_default().to_string_lossy());
        return ExitCode::SUCCESS;
    }
    let command: Command = match console::arguments() {
        Ok(command) => command,
        Err(code) => return console::finish(NAME, code),
    };
    let done: Result<ExitCode, Error> = match command.action {
        Action::Load(args) => args.run(),
        Action::Status => session::status(),
        Action::Set(args) => args.run(),
        Action::Unload => session::unload(),
        Action::Run(args) => args.run(),
        Action::Record(args) => args.run(),
        Action::Study(args) => args.run(),
        Action::Compare(args) => args.run(),
    };
    let code = done.unwrap_or_else(|error| {
        errln!("{NAME}: {error}");
        ExitCode::from(2)
    });
    console::finish(NAME, code)
}
