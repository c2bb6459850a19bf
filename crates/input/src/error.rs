// SPDX-License-Identifier: GPL-2.0-only
//! Errors in the user's input. An error contains the file or input, the position in it, a message,
//! and a hint for the next step.

use std::fmt;
use std::io;
use std::path::Path;

/// A position in a text. The first line and the first column are 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// An error in the user's input. A bug of the simulator is a panic instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, or the name of the input. Empty if the message names the input.
    pub place: String,
    /// Position in the file.
    pub position: Option<Position>,
    pub message: String,
    pub hint: Option<String>,
}

impl Error {
    /// Creates an error whose message names the input.
    pub fn new(message: impl fmt::Display) -> Error {
        Error::at("", message)
    }

    /// Creates an error in a file or input.
    pub fn at(place: impl Into<String>, message: impl fmt::Display) -> Error {
        Error {
            place: place.into(),
            position: None,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Creates the error for a file that cannot be read or written.
    pub fn io(path: &Path, error: &io::Error) -> Error {
        let message = Error::at(path.display().to_string(), error);
        match error.kind() {
            io::ErrorKind::StorageFull => message.hint("make room on the disk, or write to another one"),
            _ => message,
        }
    }

    /// Sets the position in the file.
    #[must_use]
    pub fn position(mut self, position: Position) -> Error {
        self.position = Some(position);
        self
    }

    /// Sets the hint, which describes a next step for the user.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        let separator = if self.place.is_empty() { "" } else { ": " };
        write!(f, "{separator}{}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<&str> for Error {
    fn from(message: &str) -> Error {
        Error::new(message)
    }
}

impl From<String> for Error {
    fn from(message: String) -> Error {
        Error::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_place_position_and_hint() {
        let position = Position { line: 12, column: 5 };
        let error = Error::at("workloads/x.json", "no such event 'rnu'").position(position);
        assert_eq!(
            error.hint("did you mean 'run'?").to_string(),
            "workloads/x.json:12:5: no such event 'rnu'\n  hint: did you mean 'run'?"
        );
        assert_eq!(Error::new("no policy 'x'").to_string(), "no policy 'x'");
    }
}
