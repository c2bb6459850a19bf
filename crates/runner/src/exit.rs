// SPDX-License-Identifier: GPL-2.0-only
//! Exit statuses of the commands.

use std::process::ExitCode;

/// The exit status of a command. Unlike [`ExitCode`], it can be converted back to a number, which
/// the Python package needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus(u8);

impl ExitStatus {
    pub const SUCCESS: ExitStatus = ExitStatus(0);

    /// Returns the status as shells report it.
    pub fn code(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitStatus {
    fn from(code: u8) -> ExitStatus {
        ExitStatus(code)
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> ExitCode {
        ExitCode::from(status.0)
    }
}
