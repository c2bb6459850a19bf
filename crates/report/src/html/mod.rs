// SPDX-License-Identifier: GPL-2.0-only
//! Runs as one page to look at: self-contained HTML, for browsers without a network.
//!
//! [`Scan`] takes a run's records as they pass, in bounded memory; [`page`] writes runs side by side. What is text or a
//! table is written here and needs no script; what is drawn is drawn by `app/` in the browser, from the JSON of `data`,
//! with uPlot (`vendor/`) where it is a plot of lines.

mod data;
mod moves;
mod pack;
mod page;
mod queues;
mod scan;
mod tables;
mod timeline;
mod verdict;

pub use page::{page, plain};
pub use scan::Scan;

use crate::figures::RunResult;
use serde::Serialize;

/// A run on a page.
pub struct Run {
    pub result: RunResult,
    /// Of the same run; finished.
    pub scan: Scan,
    pub predicted: Vec<Predicted>,
}

/// A response time that theory expects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    pub ns: u64,
    /// Which theory, in a few words.
    pub label: String,
}
