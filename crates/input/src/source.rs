// SPDX-License-Identifier: GPL-2.0-only
//! A text together with the name of its file. An error in the text contains the line and the column
//! of its position. TOML files are parsed here, too.

use crate::error::{Error, Position};
use crate::number::index;
use crate::suggest;
use serde::de::DeserializeOwned;
use std::path::Path;

/// A text and the name of its file.
#[derive(Clone, Debug)]
pub struct Source {
    pub place: String,
    pub text: String,
}

impl Source {
    pub fn new(place: impl Into<String>, text: impl Into<String>) -> Source {
        Source {
            place: place.into(),
            text: text.into(),
        }
    }

    /// Reads a text file of at most `max_bytes`.
    ///
    /// # Errors
    /// The file cannot be read, is larger than `max_bytes`, or is not UTF-8.
    pub fn read(path: &Path, max_bytes: u64) -> Result<Source, Error> {
        let place = path.display().to_string();
        let size = std::fs::metadata(path).map_err(|error| Error::io(path, &error))?.len();
        if size > max_bytes {
            return Err(Error::at(
                place,
                format!("the file has {size} bytes, but at most {max_bytes} are allowed"),
            ));
        }
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, &error))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Source { place, text }),
            Err(_) => Err(Error::at(place, "not a text file (invalid UTF-8)")),
        }
    }

    /// Returns the line and the column of the byte at offset `at`.
    pub fn position(&self, at: usize) -> Position {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        // Columns count characters. The continuation bytes of UTF-8 are therefore not counted.
        let column = before[line_start..].iter().filter(|&&b| b & 0xc0 != 0x80).count();
        Position {
            line: 1 + index(before.iter().filter(|&&b| b == b'\n').count()),
            column: 1 + index(column),
        }
    }

    /// Creates an error at the byte offset `at`.
    pub fn error(&self, at: usize, message: impl std::fmt::Display) -> Error {
        Error::at(&self.place, message).position(self.position(at))
    }

    /// Reads the text as TOML. For an unknown key, the error has a hint that suggests a known key.
    ///
    /// # Errors
    /// The text is not TOML or does not have the structure of `T`. The error contains the position.
    pub fn toml<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let parser = toml::Deserializer::parse(&self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, format!("not TOML: {}", error.message().replace('\n', ", ")))
        })?;
        T::deserialize(parser).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let (message, hint) = clear(error.message());
            let error = self.error(at, message);
            match hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })
    }
}

/// Translates a message of serde into words for users. For a misspelt key, also returns a hint.
fn clear(message: &str) -> (String, Option<String>) {
    for (start, kind) in [("unknown field", "unknown key"), ("unknown variant", "unknown value")] {
        if let Some(rest) = message.strip_prefix(start) {
            let words = quoted(rest);
            let Some((name, known)) = words.split_first() else {
                break;
            };
            let hint = suggest::hint(name, known);
            return (format!("{kind} '{name}'"), Some(hint));
        }
    }
    if let Some(rest) = message.strip_prefix("missing field") {
        return (format!("the key '{}' is missing", quoted(rest).concat()), None);
    }
    // serde names the expected Rust type, which means nothing to users. The name is therefore
    // replaced.
    let expected = message.rsplit_once("expected ").map_or("", |(_, expected)| expected);
    let words = match expected {
        "u32" => "a whole number below 2^32",
        "u64" => "a whole number of 0 or more",
        "i64" => "a whole number",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    };
    (format!("{}{words}", &message[..message.len() - expected.len()]), None)
}

fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Machine {
        hz: u32,
        #[serde(default)]
        kind: Vec<CpuKind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct CpuKind {
        capacity: u32,
    }

    fn error(text: &str) -> String {
        Source::new("m.toml", text).toml::<Machine>().unwrap_err().to_string()
    }

    #[test]
    fn toml_is_read() {
        let machine: Machine = Source::new("m.toml", "hz = 100\n[[kind]]\ncapacity = 3\n")
            .toml()
            .unwrap();
        assert_eq!((machine.hz, machine.kind[0].capacity), (100, 3));
    }

    #[test]
    fn errors_have_line_column_and_hint() {
        assert_eq!(
            error("hz = 100\nkinds = 3\n"),
            "m.toml:2:1: unknown key 'kinds'\n  hint: did you mean 'kind'?"
        );
        assert_eq!(
            error("hz = 1\n[[kind]]\nspeed = 3\n"),
            "m.toml:3:1: unknown key 'speed'\n  hint: known are capacity"
        );
        assert_eq!(
            error("\n[[kind]]\ncapacity = 1\n"),
            "m.toml:1:1: the key 'hz' is missing"
        );
        assert_eq!(error("hz = 1\n[[kind]]\n"), "m.toml:2:1: the key 'capacity' is missing");
        assert_eq!(
            error("# ä\nhz = 'ä'\n"),
            "m.toml:2:6: invalid type: string \"ä\", expected a whole number below 2^32"
        );
        assert_eq!(
            error("hz = "),
            "m.toml:1:6: not TOML: string values must be quoted, expected literal string"
        );
        assert_eq!(
            error("kind = [7]\nhz = 1"),
            "m.toml:1:9: invalid type: integer `7`, expected a table"
        );
        assert!(error(&format!("hz = {}", "[".repeat(100_000))).starts_with("m.toml:1:"));
    }

    #[test]
    fn columns_count_characters() {
        let source = Source::new("x", "a\näöü");
        assert_eq!(source.position(6), Position { line: 2, column: 3 });
        assert_eq!(source.position(1000), Position { line: 2, column: 4 });
    }
}
