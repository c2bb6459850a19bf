// SPDX-License-Identifier: GPL-2.0-only
//! `experiment.toml` as it is written. What it means is `cases`'; experiments/README.md explains it to users.

use input::{Error, Source};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// Names with their values, in the order of their names.
pub type Named = BTreeMap<String, Value>;

/// A key's value as text; `None` for lists and tables.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub title: String,
    pub source: String,
    pub question: String,
    /// What is smaller than in the source, and why the effect does not depend on it.
    pub scale: Option<String>,
    /// The columns of measured.csv. Those in `values` or a row's `values` are measured, the others identify a row.
    pub columns: Spanned<Vec<String>>,
    /// A key column whose values are the runs of a case, one row each, instead of seeds that are averaged over.
    pub each_run: Option<Spanned<String>>,
    #[serde(default)]
    pub values: BTreeMap<String, Spanned<Value>>,
    /// What holds for all cases.
    pub run: Spanned<Run>,
    /// What differs where the runs are executed on a real machine (`windtunnel live study`).
    pub live: Option<Live>,
    /// What `relative_percent` and `speedup_percent` compare a case with; the rest is as in the case.
    pub baseline: Option<Spanned<Run>>,
    #[serde(default, rename = "case")]
    pub cases: Vec<Spanned<Run>>,
    /// Rows of each case; none: one.
    #[serde(default, rename = "row")]
    pub rows: Vec<Spanned<Row>>,
}

/// A run or many, by key: `{name}` in a text stands for the value of a key or variable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub policy: Option<String>,
    pub machine: Option<String>,
    pub workload: Option<String>,
    /// `--set`.
    #[serde(default)]
    pub set: Named,
    /// Simulated time: `--for`.
    #[serde(rename = "for")]
    pub for_time: Option<String>,
    /// Seeds 1 to this.
    pub seeds: Option<u64>,
    /// false: nothing that the kernel does takes time.
    pub costs: Option<bool>,
    /// Ticks per second instead of the machine's.
    pub hz: Option<u32>,
    /// Variables that a user may change (`--with`).
    #[serde(default)]
    pub with: Named,
    /// Keys and variables; a list makes a case of each of its values.
    #[serde(default)]
    pub keys: Named,
    /// Keys and variables that go together; each makes a case.
    #[serde(default)]
    pub each: Vec<Named>,
    /// What theory says, by value column.
    #[serde(default)]
    pub expected: BTreeMap<String, Spanned<Value>>,
}

/// Runs on a real machine take real time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Other values of variables of `[run] with`.
    #[serde(default)]
    pub with: Named,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    #[serde(default)]
    pub keys: Named,
    #[serde(default)]
    pub each: Vec<Named>,
    /// Only for cases with these keys.
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
    /// # Errors
    /// Where the text is not a definition.
    pub fn parse(source: &Source) -> Result<Definition, Error> {
        source.toml().map_err(|error: Error| match error.hint {
            None => error.hint("experiments/README.md lists the keys of an experiment"),
            Some(_) => error,
        })
    }
}
