// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel exec` runs the user-space program of a scheduler on a simulated machine.

use super::run::Options;
use clap::Args as ClapArgs;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::policy::EXEC;
use runner::quote::quote;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    options: Options,
    /// Write the settings that the program makes before it attaches its scheduler to this file, as a
    /// profile, and the program's BPF object beside it: FILE.toml and FILE.bpf.o. `run FILE.bpf.o`
    /// then starts as the program did
    #[arg(long, value_name = "FILE.toml")]
    record_profile: Option<PathBuf>,
    /// The program of the scheduler and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Args {
    pub fn run(mut self) -> Result<ExitStatus, Error> {
        self.options.spec.program_output = true;
        self.options.spec.record_profile = self.record_profile;
        let words: Vec<String> = self.command.iter().map(|word| quote(word)).collect();
        self.options.run(&[format!("{EXEC} {}", words.join(" "))])
    }
}
