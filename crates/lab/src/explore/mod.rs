// SPDX-License-Identifier: GPL-2.0-only
//! Explores a policy: many short runs with overlapping callbacks, over machines, workloads,
//! disturbances and forced switches, until one of them shows something wrong.
//!
//! [`case`] describes and generates runs, [`guide`] directs them to new behaviour, [`observe`]
//! executes one and judges it, [`shrink`] makes a case smaller that shows a finding, [`text`] prints
//! it, and [`step`] walks through its accesses. [`difference`] compares the findings in two versions of
//! a policy.

// Numbers of a case come from its own generator and are small.
#![allow(clippy::cast_possible_truncation)]

pub mod case;
mod ddmin;
pub mod difference;
pub mod guide;
pub mod observe;
pub mod order;
pub mod part;
pub mod shrink;
pub mod step;
pub mod text;

use bpf::image::Code;
use case::{Case, Space};
use guide::Guide;
use input::error::Error;
use observe::{Finding, Observed, Target};
use runner::{interrupt, parallel};
use std::num::NonZero;
use std::time::{Duration, Instant};

/// Number of runs between two looks at the clock. Findings of one batch are compared by number of
/// the run, so the result does not depend on the number of threads.
const BATCH: u64 = 32;
/// Number of points that is assumed before a run has counted them.
const POINTS: u64 = 5000;

/// How long an exploration lasts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of runs after which it ends.
    pub runs: Option<u64>,
    /// Time after which it ends.
    pub time: Duration,
    /// Whether it continues after the first finding.
    pub all: bool,
    /// Whether coverage guides it.
    pub guided: bool,
    pub threads: Option<NonZero<usize>>,
}

/// A finding and the case that shows it.
pub struct Found {
    pub finding: Finding,
    pub case: Case,
    /// Number of the run that showed it first, from 1.
    pub run: u64,
    /// Number of runs that showed it.
    pub nr_runs: u64,
    /// Index of the last run that showed it.
    last: u64,
    /// Time from the start of the exploration to the finding.
    pub after: Duration,
}

/// Result of an exploration.
pub struct Explored {
    pub found: Vec<Found>,
    pub runs: u64,
    pub time: Duration,
    /// Sum of the simulated time of all runs, ns.
    pub simulated_ns: u64,
    /// Number of forced switches that took place.
    pub nr_held: u64,
    /// Largest number of races on statistics counters in one run.
    pub nr_benign: usize,
    /// Largest number of races on plain flags in one run.
    pub nr_flags: usize,
    /// Number of branches, and of pairs of accesses in one order, that the runs have covered.
    pub covered: usize,
    /// The linked code of the policy.
    pub code: Code,
    pub interrupted: bool,
}

/// Explores a policy. `progress` is called with the number of runs and the elapsed time.
///
/// # Errors
/// Those of [`Target::observe`].
pub fn explore(
    target: &Target,
    space: &Space,
    seed: u64,
    limits: Limits,
    progress: &(dyn Fn(u64, Duration) + Sync),
) -> Result<Explored, Error> {
    let began = Instant::now();
    let mut space = space.clone();
    let mut explored = Explored {
        found: Vec::new(),
        runs: 0,
        time: Duration::ZERO,
        simulated_ns: 0,
        nr_held: 0,
        nr_benign: 0,
        nr_flags: 0,
        covered: 0,
        code: Code::default(),
        interrupted: false,
    };
    let mut guide = Guide::default();
    let first = space.case(seed, 0);
    space.points = POINTS;
    let observed = target.observe(
        &Case {
            holds: Vec::new(),
            ..first
        },
        false,
    )?;
    (space.points, space.hotplug) = (observed.points.max(1), observed.hotplug);
    explored.code = observed.code;
    loop {
        let left = limits.runs.map_or(BATCH, |runs| (runs - explored.runs).min(BATCH));
        let over = began.elapsed() >= limits.time && explored.runs > 0;
        explored.interrupted = interrupt::signal().is_some();
        if left == 0 || over || explored.interrupted {
            break;
        }
        let numbers: Vec<u64> = (explored.runs..explored.runs + left).collect();
        let results = parallel::run(&numbers, limits.threads, &|_, _| {}, |&number, _| {
            let (mut case, priorities) = space.ordered(guide.case(&space, seed, number), seed, number);
            let observed = match priorities {
                Some(priorities) => target.observe_ranked(&mut case, priorities)?,
                None => target.observe(&case, false)?,
            };
            Ok((number, case, observed, began.elapsed()))
        })?;
        for (number, case, observed, after) in results {
            if limits.guided {
                guide.learn(&case, &observed.covered, observed.points);
            }
            explored.covered = guide.size();
            let stops = collect(&mut explored, number, &case, &observed, after) && !limits.all;
            if stops {
                explored.runs = number + 1;
                explored.time = began.elapsed();
                return Ok(explored);
            }
        }
        explored.runs += left;
        progress(explored.runs, began.elapsed());
    }
    explored.time = began.elapsed();
    explored.found.sort_by_key(|found| found.finding.rank());
    Ok(explored)
}

/// Adds the new findings of a run. Returns whether there is one.
fn collect(explored: &mut Explored, number: u64, case: &Case, observed: &Observed, after: Duration) -> bool {
    explored.simulated_ns += observed.simulated_ns;
    explored.nr_held += observed.nr_held;
    explored.nr_benign = explored.nr_benign.max(observed.nr_benign);
    explored.nr_flags = explored.nr_flags.max(observed.nr_flags);
    let mut is_new = false;
    for finding in &observed.findings {
        let known = explored
            .found
            .iter_mut()
            .find(|found| found.finding.same_as(finding, &observed.code));
        if let Some(known) = known {
            // A run may show several races that have the same lines.
            known.nr_runs += u64::from(known.last != number);
            known.last = number;
            continue;
        }
        is_new = true;
        explored.found.push(Found {
            finding: finding.clone(),
            case: case.clone(),
            run: number + 1,
            nr_runs: 1,
            last: number,
            after,
        });
    }
    is_new
}
