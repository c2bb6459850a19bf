// SPDX-License-Identifier: GPL-2.0-only
//! Finds the first scheduling decision at which two runs differ, and what each policy saw.
//!
//! Both runs advance alternately, and [`streams`] compares their decisions. Recording the state of
//! the machines all the time would be too expensive. But runs are deterministic, so both are
//! repeated up to the difference, and the state is captured there.

mod describe;
mod page;
mod present;
pub mod streams;

pub(crate) use describe::{describe_decision, describe_origin, format_ranges};
pub use page::page;
pub use present::{json, text};

use crate::compare::names;
use input::error::Error;
use kernel::Machine;
use kernel::decision::{Decision, DecisionKind, Snapshot};
use runner::interrupt;
use runner::parallel;
use runner::policy::Policy;
use runner::running::Running;
use runner::scenario::Scenario;
use std::collections::BTreeMap;
use streams::{Mismatch, StreamKind, Streams};
use trace::{DrawOptions, Tee};

/// Simulated time in ns of the first step. In each step, one run advances, and then the other run
/// advances by the same time.
const PIECE_NS: u64 = 1_000_000;
/// If a run makes more decisions than this in a step, the next step is half as long. Otherwise, the
/// next step is twice as long.
const DECISIONS: usize = 20_000;
/// Number of earlier decisions about the same CPU or task that the report contains.
const BEFORE: usize = 6;
/// Number of columns of a drawing.
const COLUMNS: u64 = 80;

/// Options of a comparison of decisions.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kinds of decisions to compare. If one side is eevdf (the fair class, without a policy), only
    /// the kinds that every scheduling class makes are compared.
    pub kinds: Vec<StreamKind>,
    /// Length of the drawing around the difference, in ns of simulated time. 0 draws nothing.
    pub window_ns: u64,
}

/// A decision with the source line of the policy that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedDecision {
    pub decision: Decision,
    pub source_line: Option<String>,
}

/// Decision and machine state of one run at a difference.
#[derive(Clone, Debug)]
pub struct Side {
    /// The decision, or `None` if this side made no matching decision.
    pub decision: Option<LocatedDecision>,
    /// If `decision` is to run a task: the latest decision that inserted the task into a DSQ or
    /// moved it to another DSQ. It shows how the task came to the CPU.
    pub came: Option<LocatedDecision>,
    /// State of the machine when the callback that made the decision began.
    pub seen: Snapshot,
    /// The latest earlier decisions about the same CPU or task.
    pub before: Vec<LocatedDecision>,
    pub drawing: Option<String>,
}

/// A difference between the runs, with both sides.
#[derive(Clone, Debug)]
pub struct Divergence {
    pub time: u64,
    pub sides: [Side; 2],
}

/// Result of a comparison of decisions.
#[derive(Clone, Debug)]
pub struct Diff {
    pub names: [String; 2],
    /// Number of equal decisions before the first difference.
    pub same: u64,
    /// Largest difference between the times of equal decisions, in ns.
    pub lag: u64,
    /// End of each run, in ns.
    pub ended: [u64; 2],
    /// For each side, how its policy failed, or `None` if it did not fail. Decisions after the
    /// failure are not compared.
    pub failures: [Option<String>; 2],
    /// Whether a signal ended the comparison before a difference was found.
    pub interrupted: bool,
    pub first: Option<Divergence>,
    /// The first difference that moves a task to another CPU or runs another task. `None` if there
    /// is none, or if it is `first` itself.
    pub effect: Option<Divergence>,
}

impl Diff {
    /// Returns whether a policy was refused or failed.
    pub fn failed(&self) -> bool {
        self.failures.iter().any(Option::is_some)
    }
}

/// Advances both runs and compares their decisions. Ends when
/// - the first difference is found that moves a task to another CPU or runs another task,
/// - both runs have ended, or one has failed,
/// - a signal interrupts the comparison.
///
/// `progress` is called with the progress, from 0 to 1000.
///
/// # Errors
/// A scenario (the inputs and options of a run) contains a user error.
pub fn run(sides: &[Scenario; 2], options: &Options, progress: &mut dyn FnMut(u64)) -> Result<Diff, Error> {
    let mut kinds = options.kinds.clone();
    if sides.iter().any(|side| side.policy == Policy::Eevdf) {
        kinds.retain(|kind| StreamKind::EFFECTS.contains(kind));
    }
    let effects: Vec<StreamKind> = kinds
        .iter()
        .copied()
        .filter(|kind| StreamKind::EFFECTS.contains(kind))
        .collect();
    let mut all = Streams::new(&kinds);
    let mut effective = Streams::new(&effects);
    let mut running = [sides[0].start()?, sides[1].start()?];
    for side in &mut running {
        side.machine.decisions.on = true;
    }
    let (mut first, mut effect) = (None, None);
    let (mut at, mut piece) = (0u64, PIECE_NS);
    let mut interrupted = false;
    while effect.is_none() && !running.iter().any(Running::failed) && running.iter().any(|side| !side.ended()) {
        interrupted = interrupt::signal().is_some();
        if interrupted {
            break;
        }
        at = at.saturating_add(piece);
        let mut most = 0;
        for (index, side) in running.iter_mut().enumerate() {
            side.advance(at, &mut Tee::new())?;
            let noted = std::mem::take(&mut side.machine.decisions.recorded);
            most = most.max(noted.len());
            for decision in &noted {
                if first.is_none() {
                    all.take(index, decision);
                }
                effective.take(index, decision);
            }
        }
        let clocks = [running[0].clock(), running[1].clock()];
        first = first.or_else(|| all.first_certain(clocks));
        effect = effective.first_certain(clocks);
        piece = if most > DECISIONS { piece / 2 } else { piece * 2 }.max(1);
        let until = running[0].until().max(running[1].until());
        progress(at.min(until) / (until / 1000).max(1));
    }
    // A policy that fails ends its run. Decisions that the other run makes after that time are not
    // differences.
    let failed = running.iter().filter(|side| side.failed());
    let clocks = match failed.map(Running::clock).min() {
        Some(at) => [at, at],
        None => [running[0].clock(), running[1].clock()],
    };
    let ended = [running[0].machine.now, running[1].machine.now];
    let failures = [running[0].failure(), running[1].failure()];
    drop(running);
    // The other run may make the same decision a little later. Near the end of the runs, the other
    // run may therefore end before it makes this decision. A decision without a counterpart near
    // the end is not a difference.
    let first = first.or_else(|| all.first_at_end(clocks).filter(|_| !interrupted));
    let (same, lag) = all.equal_before(first.as_ref());
    let effect = effect
        .or_else(|| effective.first_at_end(clocks).filter(|_| !interrupted))
        .filter(|effect| Some(*effect) != first);
    Ok(Diff {
        names: names(sides),
        same,
        lag,
        ended,
        failures,
        interrupted,
        first: first.map(|mismatch| inspect(sides, &mismatch, options)).transpose()?,
        effect: effect.map(|mismatch| inspect(sides, &mismatch, options)).transpose()?,
    })
}

/// Repeats both runs up to the difference and captures the states of the machines.
fn inspect(sides: &[Scenario; 2], mismatch: &Mismatch, options: &Options) -> Result<Divergence, Error> {
    let [a, b] = sides;
    let jobs = [
        (a, mismatch.sides[0], mismatch.sides[1]),
        (b, mismatch.sides[1], mismatch.sides[0]),
    ];
    let look = |(scenario, own, other): &(&Scenario, Option<Decision>, Option<Decision>), _: &mut dyn FnMut(u64)| {
        side(scenario, *own, *other, mismatch.time, options)
    };
    let mut seen = parallel::run(&jobs, None, &|_, _| {}, look)?.into_iter();
    let (Some(a), Some(b)) = (seen.next(), seen.next()) else {
        unreachable!("two jobs have two results");
    };
    Ok(Divergence {
        time: mismatch.time,
        sides: [a, b],
    })
}

fn side(
    scenario: &Scenario,
    own: Option<Decision>,
    other: Option<Decision>,
    time: u64,
    options: &Options,
) -> Result<Side, Error> {
    let time = own.map_or(time, |own| own.time);
    let mut scenario = scenario.clone();
    let (from, to) = (time.saturating_sub(options.window_ns / 2), time + options.window_ns / 2);
    if options.window_ns > 0 {
        scenario.draw = Some(DrawOptions::columns(from, to.max(from + 1), COLUMNS));
    }
    let mut running = scenario.start()?;
    running.machine.decisions.on = true;
    running.machine.decisions.wanted = own.map(|own| own.number);
    // `came` has the latest insertion or move of each task. `before` has the latest decisions about
    // the CPU or task of the difference.
    let mut came: BTreeMap<u32, Decision> = BTreeMap::new();
    let mut before: Vec<Decision> = Vec::new();
    let about = own.or(other);
    // The first step ends after time 0, so events at time 0 belong to it.
    let (mut at, end) = (0, time.max(1));
    while at < end && !running.ended() {
        at = (at + PIECE_NS).min(end);
        running.advance(at, &mut Tee::new())?;
        for decision in std::mem::take(&mut running.machine.decisions.recorded) {
            if own.map_or(decision.time >= time, |own| decision.number >= own.number) {
                break;
            }
            if let DecisionKind::Insert { pid, .. } | DecisionKind::Take { pid, .. } = decision.what {
                came.insert(pid, decision);
            }
            if about.is_some_and(|about| are_related(&about, &decision)) {
                before.push(decision);
                let surplus = before.len().saturating_sub(BEFORE);
                before.drain(..surplus);
            }
        }
    }
    let machine = &mut running.machine;
    let seen = match machine.decisions.seen.take() {
        Some(seen) => seen,
        None => machine.snapshot(other.and_then(|other| subject(&other.what))),
    };
    let located = |decision: Decision, machine: &Machine| LocatedDecision {
        decision,
        source_line: machine.place(&decision),
    };
    let came = match own.map(|own| own.what) {
        Some(DecisionKind::Run { pid, .. }) => came.remove(&pid),
        _ => None,
    };
    let mut side = Side {
        decision: own.map(|own| located(own, machine)),
        came: came.map(|came| located(came, machine)),
        seen,
        before: before.into_iter().map(|decision| located(decision, machine)).collect(),
        drawing: None,
    };
    if options.window_ns > 0 {
        machine.decisions.on = false;
        running.advance(to, &mut Tee::new())?;
        running.end(&mut Tee::new());
        side.drawing = running.outcome()?.drawing;
    }
    Ok(side)
}

/// Returns the task that a decision is about, if it is about a task.
fn subject(what: &DecisionKind) -> Option<u32> {
    match *what {
        DecisionKind::Cpu { pid, .. }
        | DecisionKind::Insert { pid, .. }
        | DecisionKind::Take { pid, .. }
        | DecisionKind::Run { pid, .. } => Some(pid),
        DecisionKind::Kick { .. } => None,
    }
}

fn are_related(a: &Decision, b: &Decision) -> bool {
    a.cpu == b.cpu || subject(&a.what).is_some_and(|pid| subject(&b.what) == Some(pid))
}
