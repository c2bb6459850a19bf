// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel exec` runs the user-space program of a scheduler on a simulated machine.

use super::run::Options;
use clap::Args as ClapArgs;
use input::error::Error;
use runner::exit::ExitStatus;
use runner::policy::EXEC;
use runner::quote::quote;

#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    options: Options,
    /// The program of the scheduler and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Args {
    pub fn run(mut self) -> Result<ExitStatus, Error> {
        self.options.spec.program_output = true;
        let words: Vec<String> = self.command.iter().map(|word| quote(word)).collect();
        self.options.run(&[format!("{EXEC} {}", words.join(" "))])
    }
}
