// SPDX-License-Identifier: GPL-2.0-only
//! The format of `experiment.toml`, the definition of an experiment. experiments/README.md
//! describes the format for users, and [`cases`](super::cases) expands a definition into runs.

use input::{Error, Source};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// Keys or variables of the definition, with their values.
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

/// The whole file `experiment.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub title: String,
    pub source: String,
    pub question: String,
    /// Text about how the runs are smaller than the published ones, and why this does not change
    /// the effect.
    pub scale: Option<String>,
    /// Columns of measured.csv. The columns that `values` names, here or in a `[[row]]`, contain
    /// measured values. The other columns identify the row.
    pub columns: Spanned<Vec<String>>,
    /// The column that contains the seed, if each run of a case has its own row. Without it, a row
    /// shows averages over the seeds.
    pub each_run: Option<Spanned<String>>,
    /// Values of key columns that select a baseline row for each other row. With `{ cpus = 1 }`,
    /// for example, the row `cpus = 1, hogs = 4` is the baseline row of `cpus = 2, hogs = 4`. The
    /// comparison of measured and published values also states the error of a simple prediction:
    /// every row has the published value of its baseline row. Columns of relative changes need no
    /// baseline row, because the prediction for them is 0.
    pub no_difference: Option<Spanned<Named>>,
    /// Published values from which a constant of the model was inferred. They do not count as
    /// agreement.
    #[serde(default)]
    pub calibrated: Vec<Spanned<Calibrated>>,
    #[serde(default)]
    pub values: BTreeMap<String, Spanned<Value>>,
    /// Settings of all cases.
    pub run: Spanned<Run>,
    /// Changes for runs on a real machine (`windtunnel live study`).
    pub live: Option<Live>,
    /// Settings of the analysis of constants (`--sensitivity`).
    pub sensitivity: Option<Spanned<Sensitivity>>,
    /// Settings in which the baseline differs from the case. The measures `relative_percent` and
    /// `speedup_percent` compare a case with its baseline.
    pub baseline: Option<Spanned<Run>>,
    #[serde(default, rename = "case")]
    pub cases: Vec<Spanned<Run>>,
    /// Table rows of each case. Without a `[[row]]`, a case has one row.
    #[serde(default, rename = "row")]
    pub rows: Vec<Spanned<Row>>,
}

/// Settings of one or more runs. In the texts of a setting, `{name}` is replaced by the value of a
/// key or variable.
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
    /// Number of seeds. The runs have the seeds 1, 2, ... up to this number.
    pub seeds: Option<u64>,
    /// Whether the kernel's work takes simulated time. True by default.
    pub costs: Option<bool>,
    /// Ticks per second. By default, the machine defines them.
    pub hz: Option<u32>,
    /// Background work of the kernel (`--noise`). By default, the machine defines it.
    pub noise: Option<String>,
    /// Variables, which the user can change with `--with`.
    #[serde(default)]
    pub with: Named,
    /// Keys and variables. A list makes one case for each of its values.
    #[serde(default)]
    pub keys: Named,
    /// Tables of keys and variables whose values belong together. Each table makes one case.
    #[serde(default)]
    pub each: Vec<Named>,
    /// Values that theory predicts, by measured column.
    #[serde(default)]
    pub expected: BTreeMap<String, Spanned<Value>>,
}

/// Published values from which a constant of the machine or the workload was inferred.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// Keys of the rows with these values. A row matches if it has all of them.
    pub keys: Named,
    /// Names of the measured columns whose published values were used. By default, all columns.
    #[serde(default)]
    pub values: Vec<String>,
    /// Text that names the constant and the arithmetic.
    pub constant: String,
}

/// Settings of the analysis that halves and doubles constants. It makes many runs, so they should
/// be short.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensitivity {
    /// Keys of the rows that the analysis uses, each with a value or a list of values. By default,
    /// it uses all rows.
    #[serde(default)]
    pub only: Named,
    /// Variables of `[run]`, with their values in the analysis.
    #[serde(default)]
    pub with: Named,
    /// Variables of `[run]` that are constants of the workload. They are halved and doubled too.
    #[serde(default)]
    pub vary: Vec<String>,
    /// Key columns whose values are compared with each other. By default, the columns that the
    /// `[[case]]` tables set.
    #[serde(default)]
    pub compare: Vec<String>,
    /// Number of seeds, 1 by default.
    pub seeds: Option<u64>,
}

/// Changes for runs on a real machine, where a run takes as long as its simulated time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Variables of `[run]`, with their values on a real machine.
    #[serde(default)]
    pub with: Named,
}

/// A table row that each case has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    #[serde(default)]
    pub keys: Named,
    #[serde(default)]
    pub each: Vec<Named>,
    /// The row exists only in cases whose keys have these values.
    #[serde(default)]
    pub when: Named,
    #[serde(default)]
    pub values: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    pub expected: BTreeMap<String, Spanned<Value>>,
}

/// Maximum size of a definition, in bytes.
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
