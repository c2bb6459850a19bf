// SPDX-License-Identifier: GPL-2.0-only
//! The rows of a sweep's table.
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
use super::table::{Column, Table};
use crate::compare::metric::metrics;
use report::{RunResult, Status};
use runner::spec::RunSpec;

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
