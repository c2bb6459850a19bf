// SPDX-License-Identifier: GPL-2.0-only
//! Errors from reading and linking an object, and from creating what its programs need.

use crate::fault::Fault;
use std::fmt;

/// An error from reading or linking an object, from setting one of its global variables, or from
/// creating a map, a virtual machine or their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// File name of the object, or an empty string.
    pub file: String,
    /// ELF section that contains the error.
    pub section: Option<String>,
    /// Offset in bytes from the start of the section, or of the file if `section` is `None`.
    pub offset: Option<u64>,
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
}

impl Error {
    /// Makes an error without a location.
    pub fn new(message: impl Into<String>) -> Error {
        Error {
            file: String::new(),
            section: None,
            offset: None,
            message: message.into(),
            hint: None,
        }
    }

    /// Makes an error at a byte offset in a section, or adds this place to an error without one.
    pub fn at(section: &str, offset: u64, error: impl Into<Error>) -> Error {
        Error {
            section: Some(section.to_string()),
            offset: Some(offset),
            ..error.into()
        }
    }

    pub fn in_file(self, file: &str) -> Error {
        Error {
            file: file.to_string(),
            ..self
        }
    }

    pub fn in_section(self, section: &str) -> Error {
        Error {
            section: Some(section.to_string()),
            ..self
        }
    }

    pub fn hint(self, hint: impl Into<String>) -> Error {
        Error {
            hint: Some(hint.into()),
            ..self
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        match (&self.section, self.offset) {
            (Some(section), Some(offset)) => write!(f, "section {section}, offset {offset:#x}: ")?,
            (Some(section), None) => write!(f, "section {section}: ")?,
            (None, Some(offset)) => write!(f, "offset {offset:#x}: ")?,
            (None, None) => (),
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
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

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::new(fault.to_string())
    }
}
