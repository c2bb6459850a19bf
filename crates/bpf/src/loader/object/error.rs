// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with an object, and where.

use std::fmt;

/// An object cannot be read or linked, or a parameter cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The object's file name; empty when there is none.
    pub file: String,
    /// The ELF section concerned.
    pub section: Option<String>,
    /// Bytes from the start of the section, or of the file when no section is named.
    pub offset: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Error {
    /// An error without a place.
    pub fn new(message: impl Into<String>) -> Error {
        Error {
            file: String::new(),
            section: None,
            offset: None,
            message: message.into(),
            hint: None,
        }
    }

    /// An error at a byte offset of a section.
    pub fn at(section: &str, offset: u64, message: impl Into<String>) -> Error {
        Error {
            section: Some(section.to_string()),
            offset: Some(offset),
            ..Error::new(message)
        }
    }

    /// The same in this file.
    pub fn in_file(self, file: &str) -> Error {
        Error {
            file: file.to_string(),
            ..self
        }
    }

    /// The same in this section.
    pub fn in_section(self, section: &str) -> Error {
        Error {
            section: Some(section.to_string()),
            ..self
        }
    }

    /// The same with advice.
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
