// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a description of work, where, and what to do about it.

use std::fmt;

/// A place in a text file, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// A description that cannot become a workload: always the user's input, never a fault of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, the generator's specification, or the workload's name.
    pub place: String,
    /// Where in the file; `None` for what is no file.
    pub position: Option<Position>,
    pub message: String,
    pub hint: Option<String>,
}

impl Error {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Error {
        Error {
            place: place.into(),
            position: None,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn at(mut self, position: Position) -> Error {
        self.position = Some(position);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The candidate that looks most like `name`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long names are no misspelling of ours; comparing them costs time.
    if name.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= 1 + name.len().min(candidate.len()) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// "did you mean 'x'?", or the list of what there is.
pub(crate) fn suggest(name: &str, candidates: &[&str]) -> String {
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("known are {}", candidates.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_place_and_hint() {
        let place = Position { line: 12, column: 5 };
        let error = Error::new("workloads/x.json", "no such event 'rnu'")
            .at(place)
            .hint("did you mean 'run'?");
        assert_eq!(
            error.to_string(),
            "workloads/x.json:12:5: no such event 'rnu'\n  hint: did you mean 'run'?"
        );
    }

    #[test]
    fn suggests_the_nearest_name() {
        assert_eq!(suggest("instances", &["instance", "delay"]), "did you mean 'instance'?");
        assert_eq!(suggest("xyz", &["delay", "loop"]), "known are delay, loop");
    }
}
