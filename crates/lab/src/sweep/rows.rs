// SPDX-License-Identifier: GPL-2.0-only
//! The rows of a sweep's table, and the Parquet file.
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
use crate::compare::metric::metrics;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use input::error::Error;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use report::{RunResult, Status};
use runner::destination::Destination;
use runner::spec::RunSpec;
use std::path::Path;
use std::sync::Arc;

/// Number of rows that are written to the file as one group. A different number would change the
/// bytes of the file.
pub const GROUP: usize = 1000;

/// Returns the table of some runs.
pub fn table(plan: &Plan, rows: &[(&RunSpec, &RunResult)]) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    let texts = |text: &dyn Fn(&RunSpec, &RunResult) -> Option<String>| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|(run, result)| text(run, result))
                .collect::<StringArray>(),
        )
    };
    let numbers = |number: &dyn Fn(&RunSpec, &RunResult) -> u64| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|(run, result)| Some(number(run, result)))
                .collect::<UInt64Array>(),
        )
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
        columns.push((metric.name.to_owned(), Arc::new(values.collect::<Float64Array>())));
    }
    columns.push(("score_unit".into(), texts(&|_, result| Some(result.score_unit.clone()))));
    columns.push(("simulated_ns".into(), numbers(&|_, result| result.simulated_ns)));
    columns.push(("trace_hash".into(), texts(&|_, result| Some(result.trace_hash.clone()))));
    columns.push(("command".into(), texts(&|run, _| Some(plan.command(run)))));
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| {
            Field::new(
                name,
                column.data_type().clone(),
                *column.data_type() != DataType::UInt64,
            )
        })
        .collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("every column has one value for each row")
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Ran => "ran",
        Status::Ejected => "ejected",
        Status::Refused => "refused",
        Status::Deadlock => "deadlock",
    }
}

/// A Parquet file that is being written. It gets its final name when it is complete.
pub struct File {
    writer: ArrowWriter<Destination>,
}

impl File {
    /// Starts a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path, plan: &Plan) -> Result<File, Error> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("windtunnel".to_owned())
            .build();
        let schema = table(plan, &[]).schema();
        let writer = ArrowWriter::try_new(Destination::open(path)?, schema, Some(properties));
        writer.map(|writer| File { writer }).map_err(|error| failed(&error))
    }

    /// Writes a group of rows.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, table: &RecordBatch) -> Result<(), Error> {
        let written = self.writer.write(table).and_then(|()| self.writer.flush());
        written.map_err(|error| failed(&error))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        self.writer.into_inner().map_err(|error| failed(&error))?.commit()
    }
}

fn failed(error: &parquet::errors::ParquetError) -> Error {
    Error::new(format!("the Parquet file cannot be written: {error}"))
}
