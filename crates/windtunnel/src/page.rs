// SPDX-License-Identifier: GPL-2.0-only
//! Collects and writes the HTML page of one or more runs.

use crate::destination;
use crate::error::Error;
use crate::predict;
use report::RunResult;
use report::html::{self, Scan};
use std::path::Path;
use trace::Header;

/// Maximum number of timeline segments on a page. A segment shows what a CPU did without a break.
/// This number of segments makes a page of about 5 MB. All runs on a page have equal shares of the
/// segments, but at least SEGMENTS_LEAST.
const SEGMENTS: usize = 1 << 20;
const SEGMENTS_LEAST: usize = 1 << 16;

/// Returns a collector for one of the `runs` runs on a page. It collects data from the records of
/// the run.
pub fn scan(header: &Header, runs: usize) -> Scan {
    Scan::new(header, (SEGMENTS / runs.max(1)).max(SEGMENTS_LEAST))
}

/// Returns a finished run for the page. If `timeslice_ns` is given, the page also shows the
/// response times that theory predicts for round robin with this time slice.
pub fn finish_run(mut scan: Scan, result: RunResult, timeslice_ns: Option<u64>) -> html::Run {
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
/// The file cannot be written.
pub fn write(path: &Path, runs: &[html::Run]) -> Result<(), Error> {
    destination::write(path, html::page(runs).as_bytes())
}
