// SPDX-License-Identifier: GPL-2.0-only
//! Executes two runs to say where the difference between their times comes from
//! ([`report::attribution`]).

use input::error::Error;
use report::attribution::{Attribution, Basis, attribute};
use report::path::{Divided, Path};
use runner::scenario::{Observer, Scenario};

/// Executes both runs, and divides the difference of their times into parts.
///
/// # Errors
/// The errors of the runs. It is also an error if the tasks of the workload neither all exit nor
/// complete operations.
pub fn explain(sides: &[Scenario; 2], names: &[String; 2]) -> Result<Attribution, Error> {
    let runs = [divided(&sides[0])?, divided(&sides[1])?];
    let attribution = attribute([&runs[0], &runs[1]], names.clone());
    match attribution.basis {
        Basis::Task => {
            let message = "a difference is divided into parts only if all tasks exit, or complete operations";
            Err(Error::new(message)
                .hint("use a workload such as hackbench or make without --for, or one with a throughput"))
        }
        Basis::Completion | Basis::Operation => Ok(attribution),
    }
}

fn divided(scenario: &Scenario) -> Result<Divided, Error> {
    let capacities: Vec<u32> = scenario.machine.topology.cpus.iter().map(|cpu| cpu.capacity).collect();
    let mut path = Path::new(capacities.len(), &capacities);
    let mut observer = Observer {
        sink: &mut path,
        reads: Vec::new(),
        counters: false,
        details: true,
    };
    let outcome = scenario.run_observed(&mut observer, &mut |_| {})?;
    if let Some(failure) = outcome.result.failure() {
        return Err(Error::new(format!("{} {failure}", scenario.policy.name())));
    }
    path.finish(outcome.result.simulated_ns).map_err(Error::new)
}
