// SPDX-License-Identifier: GPL-2.0-only
//! What a user did that cannot work: a message that names the place, and a hint.

use std::fmt;
use std::io;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub message: String,
    pub hint: Option<String>,
}

impl Error {
    pub fn new(message: impl Into<String>) -> Error {
        Error {
            message: message.into(),
            hint: None,
        }
    }

    /// What the system says of a file that could not be read or written.
    pub fn at(path: &Path, error: &io::Error) -> Error {
        let place = Error::new(format!("{}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::StorageFull => place.hint("make room on the disk, or write to another one"),
            _ => place,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Errors of the other crates carry place and hint in their text already.
macro_rules! from_errors {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::new(error.to_string())
            }
        })*
    };
}

from_errors!(machine::Error, workload::Error);
