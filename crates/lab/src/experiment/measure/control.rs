// SPDX-License-Identifier: GPL-2.0-only
//! The measure of mean response times that uses theory as a control variate. The jobs of the
//! measured system arrive at random times.
//!
//! Near saturation, random arrivals make even the mean over millions of jobs differ from theory by
//! several percent. Most of this noise can be removed with a control variate: a quantity with a
//! known mean that the same randomness affects. Here it is the exact mean response time for the
//! arrivals and service times of this run, which [`recursion`](crate::experiment::recursion)
//! computes:
//!
//! ```text
//! estimate = simulated mean - exact mean for these arrivals + theoretical long-run mean
//! ```
//!
//! The estimate differs from theory only if the simulated machine schedules differently. It does
//! not show whether the arrivals and service times have the right distribution. Measures without a
//! control variate show that.

use super::MeasureKind;
use crate::experiment::equation;
use crate::experiment::observe::Observed;
use crate::experiment::recursion::{Job, fcfs, sharing};
use crate::experiment::statistics::mean;
use input::Error;

/// A mean response time that is corrected by a control variate.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    discipline: Discipline,
    /// Long-run mean that theory predicts, in ms.
    theory_ms: f64,
    task: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Discipline {
    Fcfs { servers: usize },
    Sharing,
}

pub const KINDS: &[MeasureKind] = &[MeasureKind {
    name: "controlled_response_ms",
    about: "mean response time of an open system, with the exact response times of its arrivals as a control variate",
    arguments: &[
        ("control", "equation: mg1_fcfs, mg1_ps or mmc_fcfs"),
        ("interarrival", "mean time between arrivals"),
        ("service", "mean service time"),
        ("cv2", "squared coefficient of variation of the service time"),
        ("servers", "number of servers of mmc_fcfs"),
        ("task", "prefix of the jobs' task names at creation; default: job"),
    ],
    make: |_, arguments| {
        let control = arguments.required("control")?;
        let theory_ms = equation::solve(control, arguments)?;
        let servers = input::to_usize(report::rounded(arguments.number("servers")?.unwrap_or(1.0)));
        let discipline = match control {
            "mg1_ps" => Discipline::Sharing,
            "mg1_fcfs" | "mmc_fcfs" => Discipline::Fcfs { servers },
            _ => {
                return Err(Error::new(format!(
                    "control = '{control}': expected mg1_fcfs, mg1_ps or mmc_fcfs"
                )));
            }
        };
        Ok(super::Measure::Control(Measure {
            discipline,
            theory_ms,
            task: arguments.text("task").unwrap_or("job").to_owned(),
        }))
    },
}];

impl Measure {
    pub fn value(&self, seen: &Observed) -> Result<f64, Error> {
        let trail = &seen.trail;
        let mut jobs: Vec<Job> = trail
            .named(&self.task)
            .map(|(_, task)| (task.born_ns, task.cpu_ns))
            .collect();
        jobs.sort_unstable();
        let responses = trail.responses_ms(&self.task, 0);
        if responses.len() != jobs.len() {
            return Err(Error::new(format!(
                "only {} of {} jobs were completed",
                responses.len(),
                jobs.len()
            )));
        }
        let sum_ns = match self.discipline {
            Discipline::Fcfs { servers } => fcfs(&jobs, servers),
            Discipline::Sharing => sharing(&jobs),
        };
        let simulated = mean(&responses).ok_or("no job was completed")?;
        Ok(simulated - sum_ns / 1e6 / jobs.len() as f64 + self.theory_ms)
    }
}
