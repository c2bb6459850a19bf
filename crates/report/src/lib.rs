// SPDX-License-Identifier: GPL-2.0-only
//! A trace becomes numbers and tables.
//!
//! [`Summary`] takes the records of a run as they pass and keeps counters, histograms and one
//! entry a task. With what the trace does not say ([`Run`]) it becomes a [`RunResult`], which
//! serialises as the JSON result. [`table`] compares several results, [`details`] tells one.
//! All arithmetic is on integers; the few numbers that are fractions in the JSON are rounded to
//! fixed decimals from integers, so the text is the same on every host.

mod details;
mod histogram;
mod jain;
mod pids;
mod result;
mod score;
mod summary;
mod table;
mod task;
mod units;

pub use details::details;
pub use histogram::Histogram;
pub use result::{
    CallbackResult, ExitRecord, Fairness, LockResult, Migrations, Percentiles, Run, RunResult, TaskResult, Throughput,
};
pub use score::Better;
pub use summary::Summary;
pub use table::table;
