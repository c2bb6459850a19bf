// SPDX-License-Identifier: GPL-2.0-only
//! Executes the runs of a lab, within limits.

use super::measure::{Observed, Watch};
use input::Error;
use runner::inputs::Inputs;
use runner::interrupt;
use runner::scenario::Scenario;
use runner::spec::RunSpec;
use runner::traced;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use trace::Tee;

/// Number of BPF instructions that a submission may execute in a run. Together with the limit of
/// simulated time, it bounds the time for which a submission keeps the host busy. It does not
/// depend on the host's speed, so the points do not, either.
const MAX_INSNS: u64 = 3_000_000_000;
/// Simulated time between two checks of the limit, in ns.
const PIECE_NS: u64 = 1_000_000;

/// The runs so far. Items of a lab with equal runs share one.
#[derive(Default)]
pub struct Runs {
    inputs: Inputs,
    done: BTreeMap<String, Result<Observed, String>>,
}

/// A reason to stop: the user's mistake, or Ctrl-C.
pub enum Stop {
    Error(Error),
    Interrupted,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

impl Runs {
    /// Executes a run, or returns its result if it was executed before. The inner error is the
    /// policy's failure.
    ///
    /// # Errors
    /// An input of the run is missing or wrong, or the user interrupts the run.
    pub fn observe(&mut self, spec: &RunSpec) -> Result<&Result<Observed, String>, Stop> {
        let observed = match self.done.entry(spec.command("run")) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(execute(&self.inputs.resolve(spec)?)?),
        };
        Ok(observed)
    }
}

fn execute(scenario: &Scenario) -> Result<Result<Observed, String>, Stop> {
    let mut running = match scenario.start() {
        Ok(running) => running,
        // Without the policy, the run can start, so the policy is the reason.
        Err(error) => return Ok(Err(error.to_string())),
    };
    running.machine.watch(0, u64::MAX);
    let mut watch = Watch::new(traced::places(&scenario.machine));
    while !running.ended() {
        if interrupt::signal().is_some() {
            return Err(Stop::Interrupted);
        }
        running.advance(running.at() + PIECE_NS, &mut watch)?;
        let insns: u64 = running.machine.ext().called.iter().map(|called| called.insns).sum();
        if insns > MAX_INSNS && !running.ended() {
            return Ok(Err(format!(
                "the policy executed more than {MAX_INSNS} BPF instructions in {} ms of simulated time",
                running.at() / 1_000_000
            )));
        }
    }
    running.end(&mut Tee::new().with(&mut watch));
    let idle = running.machine.take_violations().idle_while_waiting;
    let result = running.outcome()?.result;
    if let Some(failure) = result.failure() {
        return Ok(Err(failure));
    }
    if let Some(lost) = &result.lost_tasks {
        return Ok(Err(format!("the policy lost tasks: {}", lost.sentence())));
    }
    if result.failed_forks > 0 {
        return Ok(Err(format!("ops.init_task() refused {} tasks", result.failed_forks)));
    }
    Ok(Ok(watch.finish(result.simulated_ns, result.clone(), idle)))
}
