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
mod host_kernel;
mod journal;
mod load;
mod policy;
mod record;
mod run;
mod session;
mod statistics;
mod stop;
mod study;
mod verifier;

use clap::{CommandFactory, FromArgMatches, Parser};
use input::error::Error;
use runner::console;
use runner::errln;
use runner::exit::ExitStatus;
use windtunnel::live::Action;

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
    let matches = console::arguments(Command::command(), &arguments, |_, _, _| {});
    let command =
        matches.and_then(|matches| Command::from_arg_matches(&matches).map_err(|error| console::usage_error(&error)));
    let command = match command {
        Ok(command) => command,
        Err(code) => return console::finish(NAME, code),
    };
    let done: Result<ExitStatus, Error> = match command.action {
        Action::Load(args) => load::run(&args),
        Action::Status => session::status(),
        Action::Set(args) => session::set(&args),
        Action::Unload => session::unload(),
        Action::Run(args) => run::run(&args),
        Action::Record(args) => record::run(&args),
        Action::Study(args) => study::run(&args),
        Action::Compare(args) => compare::run(&args),
        Action::Why(args) => compare::why::run(&args),
    };
    let code = done.unwrap_or_else(|error| {
        errln!("{NAME}: {error}");
        ExitStatus::from(2)
    });
    console::finish(NAME, code)
}
