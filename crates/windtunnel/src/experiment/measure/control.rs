// SPDX-License-Identifier: GPL-2.0-only
//! Mean response times with theory as a control variate.
//!
//! Near saturation a mean over even millions of jobs is off by percents, and all of that is the luck of the arrivals. So the
//! exact response times for the arrivals and service times that this run had are worked out beside it, and the estimate is the
//! run's mean, less theirs, plus what theory says theirs is in the long run. What is left is what the simulated machine does
//! differently; that arrivals and services are as they should be is for other rows, without a control, to show.

use super::Kind;
use crate::experiment::equation;
use crate::experiment::observe::Observed;
use crate::experiment::recursion::{Job, fcfs, sharing};
use crate::experiment::statistics::mean;

#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    discipline: Discipline,
    /// The long run's mean, ms.
    theory_ms: f64,
    task: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Discipline {
    Fcfs { servers: usize },
    Sharing,
}

pub const KINDS: &[Kind] = &[Kind {
    name: "controlled_response_ms",
    about: "mean response time of an open system, with what theory says of these very arrivals as a control variate",
    arguments: &[
        ("control", "the equation: mg1_fcfs, mg1_ps or mmc_fcfs"),
        ("interarrival", "mean"),
        ("service", "mean"),
        ("cv2", "squared coefficient of variation of the service time"),
        ("servers", "of mmc_fcfs"),
        (
            "task",
            "jobs are the tasks whose name at creation begins with this; default job",
        ),
    ],
    make: |_, arguments| {
        let control = arguments.needed("control")?;
        let theory_ms = equation::solve(control, arguments)?;
        let servers = arguments.number("servers")?.unwrap_or(1.0) as usize;
        let discipline = match control {
            "mg1_ps" => Discipline::Sharing,
            "mg1_fcfs" | "mmc_fcfs" => Discipline::Fcfs { servers },
            _ => return Err(format!("control = '{control}': expected mg1_fcfs, mg1_ps or mmc_fcfs")),
        };
        Ok(super::Measure::Control(Measure {
            discipline,
            theory_ms,
            task: arguments.text("task").unwrap_or("job").to_owned(),
        }))
    },
}];

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, String> {
        let trail = &seen.trail;
        let mut jobs: Vec<Job> = trail
            .named(&self.task)
            .map(|(_, task)| (task.born_ns, task.cpu_ns))
            .collect();
        jobs.sort_unstable();
        let responses = trail.responses_ms(&self.task, 0);
        if responses.len() != jobs.len() {
            return Err(format!("{} of {} jobs were done", responses.len(), jobs.len()));
        }
        let sum_ns = match self.discipline {
            Discipline::Fcfs { servers } => fcfs(&jobs, servers),
            Discipline::Sharing => sharing(&jobs),
        };
        let simulated = mean(&responses).ok_or("no job was done")?;
        Ok(simulated - sum_ns / 1e6 / jobs.len() as f64 + self.theory_ms)
    }
}
