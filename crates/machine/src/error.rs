// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a machine description, where, and what to do about it.

use std::fmt;

/// A description that cannot become a machine: always the user's input, never a fault of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// `file:line`, a file, or the description itself.
    pub place: String,
    pub message: String,
    pub hint: Option<String>,
}

impl Error {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Error {
        Error {
            place: place.into(),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The candidate that looks most like `name`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (strsim::levenshtein(name, c), c))
        .filter(|&(d, c)| d <= 1 + name.len().min(c.len()) / 3)
        .min()
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let names = ["smp4", "smp8", "numa16", "numa32"];
        assert_eq!(nearest("nuna16", names), Some("numa16"));
        assert_eq!(nearest("smp", names), Some("smp4"));
        assert_eq!(nearest("epyc", names), None);
    }
}
