// SPDX-License-Identifier: GPL-2.0-only
//! Turns the records of a run into figures, tables and an HTML page.
//!
//! [`Summary`] counts while the records of a run are produced. It keeps counters, histograms and
//! one entry per task. Together with the facts that the records do not contain ([`Run`]), it
//! becomes a [`RunResult`], which is serialized as the JSON result. Each figure of a result is one
//! row of [`FIGURES`], which lists the places that show it.
//!
//! [`table`] compares several results, [`details`] prints one completely, and [`html`] writes a
//! page that shows runs side by side. [`Latency`], [`Timehist`] and [`Schedstat`] are sinks that
//! print the tables of perf and the kernel.
//!
//! All arithmetic uses integers. The few fractions in the JSON are rounded to fixed decimals from
//! integers, so the text is equal on every host.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod details;
mod figure;
mod figures;
pub mod fit;
mod histogram;
pub mod html;
mod jain;
mod latency;
mod lost;
mod result;
mod schedstat;
mod score;
mod summary;
mod table;
mod task;
mod timehist;
mod units;

pub use details::details;
pub use figure::{Field, Figure, Known, Scaled, Unit};
pub use figures::{FIELDS, FIGURES, RunResult};
pub use fit::Surface;
pub use histogram::Histogram;
pub use latency::Latency;
pub use result::{
    CallbackResult, CheckedResult, ExitRecord, Fairness, LockResult, LostTasks, Migrations, Percentiles, Run, Status,
    TaskResult, Throughput, Waiting,
};
pub use schedstat::Schedstat;
pub use score::Better;
pub use summary::{Summary, TaskCounters};
pub use table::table;
pub use timehist::Timehist;
pub use units::rounded;
