// SPDX-License-Identifier: GPL-2.0-only
//! The format of `experiment.toml`, as it is written. [`cases`](super::cases) expands it.
//! experiments/README.md documents it for users.

use input::{Error, Source};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// Keys or variables of the definition, by name.
pub type Named = BTreeMap<String, Value>;

/// Returns a value as text, or `None` for lists and tables.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub title: String,
    pub source: String,
    pub question: String,
    /// Differences in scale from the source, and why they do not change the effect.
    pub scale: Option<String>,
    /// Columns of measured.csv. Columns in `values` or a row's `values` are measured. The others
    /// identify a row.
    pub columns: Spanned<Vec<String>>,
    /// A column with the seed. Each run of a case then has its own row, instead of an average over
    /// the seeds.
    pub each_run: Option<Spanned<String>>,
    #[serde(default)]
    pub values: BTreeMap<String, Spanned<Value>>,
    /// Settings of all cases.
    pub run: Spanned<Run>,
    /// Changes for runs on a real machine (`windtunnel live study`).
    pub live: Option<Live>,
    /// Settings of the run that `relative_percent` and `speedup_percent` compare a case with. The
    /// other settings are those of the case.
    pub baseline: Option<Spanned<Run>>,
    #[serde(default, rename = "case")]
    pub cases: Vec<Spanned<Run>>,
    /// Rows of each case. Without this table, a case has one row.
    #[serde(default, rename = "row")]
    pub rows: Vec<Spanned<Row>>,
}

/// Settings of one or more runs. In a text, `{name}` stands for the value of a key or variable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub policy: Option<String>,
    pub machine: Option<String>,
    pub workload: Option<String>,
    /// Parameters of the policy (`--set`).
    #[serde(default)]
    pub set: Named,
    /// Simulated time (`--for`).
    #[serde(rename = "for")]
    pub for_time: Option<String>,
    /// Number of seeds. The seeds are 1 to this number.
    pub seeds: Option<u64>,
    /// Whether the kernel's work takes time. Default: true.
    pub costs: Option<bool>,
    /// Ticks per second, instead of the machine's.
    pub hz: Option<u32>,
    /// Variables, which a user may change with `--with`.
    #[serde(default)]
    pub with: Named,
    /// Keys and variables. A list makes one case for each value.
    #[serde(default)]
    pub keys: Named,
    /// Tables of keys and variables that vary together. Each table makes one case.
    #[serde(default)]
    pub each: Vec<Named>,
    /// Values from theory by measured column.
    #[serde(default)]
    pub expected: BTreeMap<String, Spanned<Value>>,
}

/// Changes for runs on a real machine, where simulated seconds are real ones.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Values of variables that replace those of `[run]`.
    #[serde(default)]
    pub with: Named,
}

/// A table row of each case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    #[serde(default)]
    pub keys: Named,
    #[serde(default)]
    pub each: Vec<Named>,
    /// Restricts the row to cases with these keys.
    #[serde(default)]
    pub when: Named,
    #[serde(default)]
    pub values: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub expected: BTreeMap<String, Spanned<Value>>,
}

/// Largest definition that is read, in bytes.
pub const MAX_BYTES: u64 = 8 << 20;

impl Definition {
    /// Parses a definition.
    ///
    /// # Errors
    /// The position at which the text is not a valid definition.
    pub fn parse(source: &Source) -> Result<Definition, Error> {
        source.toml().map_err(|error: Error| match error.hint {
            None => error.hint("experiments/README.md lists the keys of an experiment"),
            Some(_) => error,
        })
    }
}
