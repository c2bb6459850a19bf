// SPDX-License-Identifier: GPL-2.0-only
//! `windtunnel tune` and `windtunnel mcp` are parts of the Python package, because they use Python
//! libraries. This command starts them with the Python of the host.

use crate::error::Error;
use crate::exit::ExitStatus;
use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PYTHON: &str = "python3";

#[derive(ClapArgs)]
pub struct Args {
    /// Arguments of the Python command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

impl Args {
    /// Replaces this process with the command of the Python package.
    pub fn run(self, command: &str) -> Result<ExitStatus, Error> {
        let installed = Command::new(PYTHON).args(["-c", "import windtunnel"]).output();
        let missing = match installed {
            Ok(output) if output.status.success() => {
                let error = Command::new(PYTHON)
                    .args(["-m", "windtunnel", command])
                    .args(self.rest)
                    .exec();
                format!("{PYTHON} cannot be started: {error}")
            }
            Ok(_) => format!("{PYTHON} has no package windtunnel"),
            Err(error) => format!("{PYTHON} cannot be started: {error}"),
        };
        Err(Error::new(format!("{command}: {missing}")).hint(format!(
            "install the Python package with this part: pip install 'windtunnel[{command}]'"
        )))
    }
}
