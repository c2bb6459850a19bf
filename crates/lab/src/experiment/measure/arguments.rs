// SPDX-License-Identifier: GPL-2.0-only
//! Named arguments of a measure or an equation.

use input::Error;
use input::duration;
use std::collections::BTreeMap;

/// Texts of arguments by name.
#[derive(Clone, Debug, Default)]
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    pub fn new<T: AsRef<str>>(pairs: &[(T, T)]) -> Arguments {
        let text = |text: &T| text.as_ref().to_owned();
        Arguments(pairs.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Checks that there are no arguments but the `known` ones.
    pub(super) fn check_names(&self, known: &[(&str, &str)]) -> Result<(), Error> {
        let unknown = self.0.keys().find(|name| !known.iter().any(|(known, _)| known == name));
        let Some(unknown) = unknown else { return Ok(()) };
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).chain(["scale", "across"]).collect();
        Err(Error::new(format!(
            "unknown argument '{unknown}'\n  hint: the arguments are {}",
            names.join(", ")
        )))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn required(&self, name: &str) -> Result<&str, Error> {
        self.text(name)
            .ok_or_else(|| Error::new(format!("the argument '{name}' is missing")))
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        let bad = |_| Error::new(format!("{name} = '{}': expected a number", self.0[name]));
        self.text(name).map(|text| text.parse().map_err(bad)).transpose()
    }

    /// Returns a duration argument in ns.
    pub fn time(&self, name: &str) -> Result<Option<u64>, Error> {
        let bad = |error: Error| Error::new(format!("{name}: {error}"));
        self.text(name)
            .map(|text| duration::parse(text).map_err(bad))
            .transpose()
    }
}
