// SPDX-License-Identifier: GPL-2.0-only
//! A self-contained HTML page that shows runs side by side and needs no network.
//!
//! [`Scan`] collects what a page shows while a run produces records; its memory is bounded.
//! [`page`] writes the page. Text and tables are written here and need no scripts. Drawings are
//! made in the browser by the scripts in `app/`, from the JSON of `data`. Line plots use uPlot
//! (`vendor/`).

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

/// A run to show on a page.
pub struct Run {
    pub result: RunResult,
    /// Collected data of the same run, finished.
    pub scan: Scan,
    pub predicted: Vec<Predicted>,
}

/// A response time that theory predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    pub ns: u64,
    /// Short name of the theory.
    pub label: String,
}
