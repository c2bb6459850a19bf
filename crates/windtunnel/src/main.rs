// SPDX-License-Identifier: GPL-2.0-only
//! The `windtunnel` command: parses the arguments, runs a subcommand and returns its exit status.

mod command;

use std::process::ExitCode;
use windtunnel::{console, errln, interrupt};

fn main() -> ExitCode {
    command::report_panics();
    let done = match console::arguments::<command::Command>() {
        Ok(command) => command.run().unwrap_or_else(|error| {
            errln!("windtunnel: {error}");
            ExitCode::from(2)
        }),
        Err(code) => code,
    };
    let interrupted = interrupt::signal().map(|signal| ExitCode::from(interrupt::status(signal)));
    console::finish("windtunnel", interrupted.unwrap_or(done))
}
