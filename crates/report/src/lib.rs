// SPDX-License-Identifier: GPL-2.0-only
//! Turns the records of a run into figures, tables and an HTML page.
//!
//! [`Summary`] counts while a run produces its records. It keeps counters, histograms and one entry
//! per task. [`Run`] has information that the records do not contain. Both together yield a
//! [`RunResult`], which is serialized as the JSON result. Each figure of a result is one row of
//! [`FIGURES`]. The row says which tables and lists show the figure.
//!
//! [`table`] compares several results, [`details`] prints one result completely, and [`html`]
//! writes a page that shows runs side by side. [`Latency`], [`Timehist`] and [`Schedstat`] are
//! consumers of records (sinks) that print the same tables as perf and the kernel.
//!
//! All arithmetic uses integers. The few fractions in the JSON are computed from integers and have
//! a fixed number of decimals, so the text is the same on every host.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod attribution;
mod counters;
mod details;
mod failure;
mod figure;
mod figures;
mod histogram;
mod hotspots;
pub mod html;
mod jain;
mod kicks;
mod latency;
pub mod layout;
mod lost;
pub mod path;
mod result;
mod schedstat;
mod score;
mod summary;
mod table;
mod task;
mod timehist;
mod turns;
mod units;
pub mod wait;
pub mod why;

pub use counters::{Counter, CountersResult};
pub use details::details;
pub use failure::{Blocked, ExitRecord, Status};
pub use figure::{Field, Figure, Known, Scaled, Unit};
pub use figures::{FIELDS, FIGURES, RunResult};
pub use histogram::Histogram;
pub use hotspots::{FieldTransfers, HotspotsResult, LineCost, LockPairResult};
pub use kicks::{KickingResult, KicksResult};
pub use latency::Latency;
pub use layout::Surface;
pub use lost::{LostTasks, Waiting, may_be_lost};
pub use result::{
    ArenaFault, CallbackResult, CheckedResult, Fairness, FrequencyResult, IdleStateResult, LockResult, Migrations,
    NoiseResult, Percentiles, Run, SubResult, TaskResult, Throughput,
};
pub use schedstat::Schedstat;
pub use score::Better;
pub use summary::{Summary, TaskCounters};
pub use table::{table, table_without_failures};
pub use timehist::Timehist;
pub use units::{rounded, time};
