// SPDX-License-Identifier: GPL-2.0-only
//! Quantities in TOML files. They are texts, because their units are part of them.

use serde::de::{Error, Visitor};
use std::fmt::{self, Display};

/// Reads a text. If the file has a number instead, the error is the message that the function
/// returns for this number.
pub(crate) struct Quoted<'a>(pub &'a dyn Fn(&dyn Display) -> String);

impl Visitor<'_> for Quoted<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Err(E::custom((self.0)(&number)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Err(E::custom((self.0)(&number)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Err(E::custom((self.0)(&number)))
    }
}
