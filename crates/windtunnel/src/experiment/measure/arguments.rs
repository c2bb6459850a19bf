// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of a measure: names with texts.

use crate::duration;
use std::collections::BTreeMap;

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

    /// An error if there are others than these.
    pub(super) fn only(&self, known: &[(&str, &str)]) -> Result<(), String> {
        let unknown = self.0.keys().find(|name| !known.iter().any(|(known, _)| known == name));
        let Some(unknown) = unknown else { return Ok(()) };
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let known = match known.as_slice() {
            [] => "none".into(),
            names => names.join(", "),
        };
        Err(format!(
            "it takes no argument '{unknown}'\n  hint: its arguments: {known}, scale and across"
        ))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn needed(&self, name: &str) -> Result<&str, String> {
        self.text(name).ok_or_else(|| format!("it needs the argument '{name}'"))
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let bad = |_| format!("{name} = '{}': expected a number", self.0[name]);
        self.text(name).map(|text| text.parse().map_err(bad)).transpose()
    }

    /// A length of time in ns.
    pub fn time(&self, name: &str) -> Result<Option<u64>, String> {
        let bad = |error: String| format!("{name}: {error}");
        self.text(name)
            .map(|text| duration::parse(text).map_err(bad))
            .transpose()
    }
}
