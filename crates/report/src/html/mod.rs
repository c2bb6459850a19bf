// SPDX-License-Identifier: GPL-2.0-only
//! Writes an HTML page that shows runs side by side. The page is a single file and needs no
//! network.
//!
//! [`Scan`] collects the data of a page while a run produces records, in a limited amount of
//! memory. [`page`] writes the page. Text and tables are written here and need no scripts. The
//! scripts in `app/` draw everything else in the browser, from the JSON of `data`. Line plots use
//! the library uPlot (`vendor/`).

mod data;
mod moves;
mod pack;
mod page;
mod queues;
mod scan;
mod tables;
mod timeline;
mod verdict;

pub use data::json;
pub use page::{Scripted, labels, page, plain, scripted};
pub use scan::Scan;

use crate::figures::RunResult;
use serde::Serialize;

/// A run to show on a page.
pub struct Run {
    pub result: RunResult,
    /// Data that was collected during the same run. Its `finish` has been called.
    pub scan: Scan,
    pub predicted: Vec<Predicted>,
}

/// A response time that queueing theory predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    pub ns: u64,
    /// Short name of the theory.
    pub label: String,
}
