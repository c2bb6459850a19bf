// SPDX-License-Identifier: GPL-2.0-only
//! The `windtunnel` command: arguments in, text out. What it does is in the library.

mod command;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A closed pipe ends the output, not the run with a panic.
    #[cfg(unix)]
    command::default_sigpipe();
    command::name_bugs();
    match command::Command::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("windtunnel: {error}");
            ExitCode::from(2)
        }
    }
}
