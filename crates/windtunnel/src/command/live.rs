// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel live` starts the separate command `windtunnel-live`.
//!
//! `windtunnel-live` is a separate program so that the simulator does not depend on libbpf.

use crate::live::Action;
use clap::Args as ClapArgs;
use input::error::Error;
use runner::exit::ExitStatus;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const COMMAND: &str = "windtunnel-live";

#[derive(ClapArgs)]
pub struct Args {
    // `windtunnel-live` parses the arguments again.
    #[command(subcommand)]
    _action: Action,
}

/// Replaces this process with `windtunnel-live` and passes these arguments to it.
///
/// # Errors
/// The command cannot be executed, for example because it is not built.
pub fn exec(arguments: Vec<OsString>) -> Result<ExitStatus, Error> {
    let this = std::env::current_exe().map_err(|error| Error::new(format!("{COMMAND}: {error}")))?;
    let error = Command::new(this.with_file_name(COMMAND)).args(arguments).exec();
    Err(Error::new(format!("{COMMAND} cannot be started: {error}"))
        .hint("build it into windtunnel's directory: cargo build --release -p live (needs libelf-dev and zlib1g-dev)"))
}
