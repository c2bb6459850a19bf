// SPDX-License-Identifier: GPL-2.0-only
//! Writes an HTML page that shows runs side by side. The page is a single file and needs no
//! network.
//!
//! [`Scan`] collects the data of a page while a run produces records, in a limited amount of
//! memory. [`page`] writes the page. Text and tables are written here and need no scripts. The
//! scripts in `app/` draw everything else in the browser, from the JSON of `data`. Line plots use
//! the library uPlot (`vendor/`).

mod causes;
mod data;
mod hotspots;
mod moves;
mod pack;
mod page;
mod queues;
mod scan;
mod tables;
mod timeline;
mod verdict;
mod waits;
pub mod written;

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
    /// Sentences about what the run's data lacks, for example lost events.
    pub lacks: Vec<String>,
    /// Explanations of some waits.
    pub explained: Vec<Explained>,
    /// Command that explains waits of this run, to which `TASK@TIME` is appended. Empty if there is
    /// none.
    pub why: String,
}

/// The explanation of a wait ([`crate::wait`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub pid: u32,
    /// Time of the record with which the wait begins, in ns.
    pub begin: u64,
    pub headline: String,
    pub parts: Vec<Section>,
}

/// A heading of an explanation, and the lines below it.
pub type Section = (&'static str, Vec<String>);

/// A response time that queueing theory predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    pub ns: u64,
    /// Short name of the theory.
    pub label: String,
}
