// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel live`: a command of its own beside this one, so that the simulator needs no libbpf.

use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use windtunnel::error::Error;

const COMMAND: &str = "windtunnel-live";

#[derive(ClapArgs)]
pub struct Args {
    /// What `windtunnel live --help` tells of
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Error> {
        exec(self.rest)
    }
}

/// Replaces this process by `windtunnel-live` with these arguments.
///
/// # Errors
/// If that command is not there.
pub fn exec(arguments: Vec<OsString>) -> Result<ExitCode, Error> {
    let this = std::env::current_exe().map_err(|error| Error::new(format!("{COMMAND}: {error}")))?;
    let error = Command::new(this.with_file_name(COMMAND)).args(arguments).exec();
    Err(Error::new(format!("{COMMAND} does not start: {error}"))
        .hint("it lies beside windtunnel once built: cargo build --release -p live (needs libelf-dev and zlib1g-dev)"))
}
