// SPDX-License-Identifier: GPL-2.0-only
//! A trace becomes numbers and tables.
//!
//! [`Summary`] takes the records of a run as they pass and keeps counters, histograms and one
//! entry a task. With what the trace does not say ([`Run`]) it becomes a [`RunResult`], which
//! serialises as the JSON result. Each figure of a result is one row of [`FIGURES`], which says where it is shown.
//! [`table`] compares several results, [`details`] shows one in full, [`html`] shows runs side by side.
//! [`Latency`], [`Timehist`] and [`Schedstat`] are sinks for tables as perf and the kernel print them.
//! All arithmetic is on integers; the few numbers that are fractions in the JSON are rounded to
//! fixed decimals from integers, so the text is the same on every host.

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
pub use summary::{Counted, Summary};
pub use table::table;
pub use timehist::Timehist;
