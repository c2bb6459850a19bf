// SPDX-License-Identifier: GPL-2.0-only
//! Collects and writes the HTML page of one or more runs.

use crate::predict;
use input::error::Error;
use report::RunResult;
use report::html::{self, Scan};
use runner::destination;
use std::path::Path;
use trace::Header;

/// Maximum number of timeline segments on a page, which makes a page of about 5 MB. A segment shows
/// one uninterrupted activity of a CPU. Each run on a page gets an equal share of the segments, but
/// at least SEGMENTS_LEAST.
const SEGMENTS: usize = 1 << 20;
const SEGMENTS_LEAST: usize = 1 << 16;

/// Returns a collector for one of the `runs` runs on a page. It collects data from the records of
/// the run.
pub fn scan(header: &Header, runs: usize) -> Scan {
    Scan::new(header, (SEGMENTS / runs.max(1)).max(SEGMENTS_LEAST))
}

/// Returns a finished run for the page. If `timeslice_ns` is given, the page shows the response
/// times that theory predicts for round robin with this time slice. The equations assume CPUs of
/// equal speed. There is therefore no prediction for a machine on which several CPUs are hardware
/// threads of one core.
pub fn finish_run(header: &Header, mut scan: Scan, result: RunResult, timeslice_ns: Option<u64>) -> html::Run {
    scan.finish(result.simulated_ns);
    let predicted = match share_cores(header) {
        true => Vec::new(),
        false => predict::responses(&result.workload, result.cpus, timeslice_ns),
    };
    html::Run {
        result,
        scan,
        predicted,
    }
}

/// Returns whether several CPUs are hardware threads of one core.
fn share_cores(header: &Header) -> bool {
    let mut cores: Vec<u32> = header.cpus.iter().map(|position| position.core).collect();
    cores.sort_unstable();
    cores.windows(2).any(|two| two[0] == two[1])
}

/// Writes the page of these runs.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, runs: &[html::Run]) -> Result<(), Error> {
    destination::write(path, html::page(runs).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_threads_share_a_core() {
        for (machine, expected) in [("core:4 pu:1", false), ("core:2 pu:2", true), ("hybrid", true)] {
            let spec = machine::load(machine, &[]).expect("the machine is known");
            let header = Header {
                cpus: runner::traced::places(&spec),
                ..Header::default()
            };
            assert_eq!(share_cores(&header), expected, "{machine}");
        }
    }
}
