// SPDX-License-Identifier: GPL-2.0-only
//! The HTML report of runs, from traces or while they run: what the page's parts are given.

use crate::destination;
use crate::error::Error;
use crate::predict;
use report::RunResult;
use report::html::{self, Scan};
use std::path::Path;
use trace::Header;

/// Segments of all timelines of a page together: 5 MB or so. A run has this many at least, however many there are.
const SEGMENTS: usize = 1 << 20;
const SEGMENTS_LEAST: usize = 1 << 16;

/// What takes the records of one of so many runs.
pub fn scan(header: &Header, runs: usize) -> Scan {
    Scan::new(header, (SEGMENTS / runs.max(1)).max(SEGMENTS_LEAST))
}

/// A run that is over. `timeslice` is that of round robin, if theory is to know one.
pub fn finished(mut scan: Scan, result: RunResult, timeslice_ns: Option<u64>) -> html::Run {
    scan.finish(result.simulated_ns);
    let predicted = predict::responses(&result.workload, result.cpus, timeslice_ns);
    html::Run {
        result,
        scan,
        predicted,
    }
}

/// Writes the page of these runs.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, runs: &[html::Run]) -> Result<(), Error> {
    destination::write(path, html::page(runs).as_bytes())
}
