// SPDX-License-Identifier: GPL-2.0-only
//! The rows of a sweep's table: writes the table of some runs, and reads it again.
//!
//! | columns | contents |
//! |---|---|
//! | `policy`, `machine`, `workload` | as the sweep file names them |
//! | `kernel`, `seed` | of the run |
//! | `noise` | level of background work; only if the sweep has this axis |
//! | `set.NAME` | value of the parameter, or null if the policy does not have it |
//! | `status` | `ran`, `ejected` or `refused` |
//! | `failure` | why the policy failed, or null |
//! | one for each metric of `windtunnel compare` | its value, times in ns; null if the policy failed or the workload has no such figure |
//! | `score_unit`, `simulated_ns`, `trace_hash` | of the result |
//! | `command` | the command that repeats the run |

use super::plan::Plan;
use super::table::{self, Column, Table};
use crate::compare::metric::metrics;
use input::error::Error;
use report::{RunResult, Status};
use runner::spec::RunSpec;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

/// Maximum number of rows that are read.
const MAX_ROWS: usize = 5_000_000;

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub policy: String,
    pub machine: String,
    pub workload: String,
    pub kernel: String,
    pub seed: u64,
    /// Values of the parameters that the policy has.
    pub set: BTreeMap<String, String>,
    pub failure: Option<String>,
    pub score_unit: String,
    /// Values of the metrics, in the order of [`metrics`].
    pub values: Vec<Option<f64>>,
    pub command: String,
}

/// Returns the table of some runs.
pub fn table(plan: &Plan, rows: &[(&RunSpec, &RunResult)]) -> Table {
    let mut columns: Vec<(String, Column)> = Vec::new();
    let texts = |text: &dyn Fn(&RunSpec, &RunResult) -> Option<String>| {
        Column::Texts(rows.iter().map(|(run, result)| text(run, result)).collect())
    };
    let numbers = |number: &dyn Fn(&RunSpec, &RunResult) -> u64| {
        Column::Numbers(rows.iter().map(|(run, result)| number(run, result)).collect())
    };
    columns.push(("policy".into(), texts(&|run, _| Some(run.policy.clone()))));
    columns.push(("machine".into(), texts(&|run, _| run.machine.clone())));
    columns.push(("workload".into(), texts(&|run, _| Some(run.workload.clone()))));
    columns.push(("kernel".into(), texts(&|run, _| Some(run.kernel.to_string()))));
    if plan.has_noise {
        columns.push((
            "noise".into(),
            texts(&|run, _| run.noise.map(|level| level.to_string())),
        ));
    }
    columns.push(("seed".into(), numbers(&|run, _| run.seed)));
    for name in &plan.parameters {
        columns.push((
            format!("set.{name}"),
            texts(&|run, _| run.parameter(name).map(str::to_owned)),
        ));
    }
    columns.push(("profile".into(), texts(&|run, _| plan.complete(run).profile.pop())));
    columns.push((
        "status".into(),
        texts(&|_, result| Some(status(result.status).to_owned())),
    ));
    columns.push(("failure".into(), texts(&|_, result| result.failure())));
    for metric in metrics() {
        let values = rows.iter().map(|(_, result)| metric.value(result));
        columns.push((metric.name.to_owned(), Column::Floats(values.collect())));
    }
    columns.push(("score_unit".into(), texts(&|_, result| Some(result.score_unit.clone()))));
    columns.push(("simulated_ns".into(), numbers(&|_, result| result.simulated_ns)));
    columns.push(("trace_hash".into(), texts(&|_, result| Some(result.trace_hash.clone()))));
    columns.push(("command".into(), texts(&|run, _| Some(plan.command(run)))));
    Table { columns }
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Ran => "ran",
        Status::Ejected => "ejected",
        Status::Refused => "refused",
        Status::Deadlock => "deadlock",
    }
}

/// Returns whether a file begins as a Parquet file does.
pub fn is_parquet(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && &magic == b"PAR1"
}

/// Reads the table of a sweep.
///
/// # Errors
/// The file cannot be read, or it is not the table of a sweep.
pub fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let place = || path.display().to_string();
    let table = table::read(path, MAX_ROWS)?;
    let rows = from_table(&table).map_err(|error| Error {
        place: place(),
        ..error
    })?;
    match rows.is_empty() {
        true => Err(Error::at(place(), "the table has no rows")),
        false => Ok(rows),
    }
}

/// Returns the rows of a table that [`table`] made.
///
/// # Errors
/// A column is missing.
fn from_table(table: &Table) -> Result<Vec<Row>, Error> {
    let missing = |name: &str| {
        Error::new(format!("there is no column '{name}' of the expected type"))
            .hint("`windtunnel sweep` writes tables with this column")
    };
    let texts = |name: &str| match table.column(name) {
        Some(Column::Texts(values)) => Ok(values.as_slice()),
        _ => Err(missing(name)),
    };
    let numbers = |name: &str| match table.column(name) {
        Some(Column::Floats(values)) => Ok(values.as_slice()),
        _ => Err(missing(name)),
    };
    let Some(Column::Numbers(seeds)) = table.column("seed") else {
        return Err(missing("seed"));
    };
    let [policy, machine, workload, kernel, failure, unit, command] = [
        "policy",
        "machine",
        "workload",
        "kernel",
        "failure",
        "score_unit",
        "command",
    ]
    .map(texts);
    let (policy, machine, workload, kernel) = (policy?, machine?, workload?, kernel?);
    // Only sweeps with an axis of background work have this column.
    let noise = texts("noise").unwrap_or_default();
    let (failure, unit, command, status) = (failure?, unit?, command?, texts("status")?);
    let names = table.columns.iter();
    let names = names.filter_map(|(name, _)| name.strip_prefix("set."));
    let set = names
        .map(|name| Ok((name, texts(&format!("set.{name}"))?)))
        .collect::<Result<Vec<_>, Error>>()?;
    let values = metrics()
        .map(|metric| numbers(metric.name))
        .collect::<Result<Vec<_>, Error>>()?;
    let row = |row: usize| {
        let text = |column: &[Option<String>]| column[row].clone().unwrap_or_default();
        let failed = status[row].as_deref() != Some("ran");
        Row {
            policy: text(policy),
            machine: match noise.get(row) {
                Some(Some(level)) => format!("{} (noise {level})", text(machine)),
                _ => text(machine),
            },
            workload: text(workload),
            kernel: text(kernel),
            seed: seeds[row],
            set: set
                .iter()
                .filter_map(|(name, column)| Some(((*name).to_owned(), column[row].clone()?)))
                .collect(),
            failure: failed.then(|| failure[row].clone().unwrap_or_else(|| text(status))),
            score_unit: text(unit),
            values: values.iter().map(|column| column[row]).collect(),
            command: text(command),
        }
    };
    Ok((0..table.rows()).map(row).collect())
}
