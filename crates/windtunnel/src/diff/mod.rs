// SPDX-License-Identifier: GPL-2.0-only
//! The first decision at which two runs part, and what each of them saw.
//!
//! Both runs go on side by side and only what they decide is compared ([`streams`]). Runs are deterministic, so nothing needs to be
//! kept: where they part is run again, up to just there, with the machine's state noted.

mod present;
pub mod streams;

pub(crate) use present::ranges;
pub use present::{json, text};

use crate::compare::names;
use crate::error::Error;
use crate::interrupt;
use crate::parallel;
use crate::policy::Policy;
use crate::running::Running;
use crate::scenario::Scenario;
use kernel::Machine;
use kernel::decision::{Decision, Snapshot, What};
use kernel::id::IDLE;
use std::collections::BTreeMap;
use streams::{Kind, Parting, Streams};
use trace::{DrawOptions, Tee};

/// Each side goes on by so much simulated time in turn, at first.
const PIECE_NS: u64 = 1_000_000;
/// Pieces become longer or shorter for about so many decisions in each.
const DECISIONS: usize = 20_000;
/// So many of a side's decisions before the parting, of the same CPU or task, are told.
const BEFORE: usize = 6;
/// A drawing has so many columns.
const COLUMNS: u64 = 80;

#[derive(Clone, Debug)]
pub struct Options {
    /// What counts as a decision; of runs of which one has no policy, only what both make counts.
    pub kinds: Vec<Kind>,
    /// Simulated time around the parting that is drawn, ns; 0: nothing.
    pub window_ns: u64,
}

/// A decision with its place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub decision: Decision,
    pub place: Option<String>,
}

/// One side of a parting.
#[derive(Clone, Debug)]
pub struct Side {
    /// `None`: it decided nothing where the other did.
    pub told: Option<Told>,
    /// How the task that it runs came to the CPU: the insertion or taking before.
    pub came: Option<Told>,
    /// What could be seen when the handler began that decided.
    pub seen: Snapshot,
    /// The latest decisions before, of the same CPU or task.
    pub before: Vec<Told>,
    pub drawing: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Divergence {
    pub time: u64,
    pub sides: [Side; 2],
}

#[derive(Clone, Debug)]
pub struct Diff {
    pub names: [String; 2],
    /// Decisions that both made before they parted, or in all.
    pub same: u64,
    /// The most by which the times of these differed, ns.
    pub lag: u64,
    /// When the sides ended if they did not part, ns.
    pub ended: [u64; 2],
    /// How the policy of each side failed, if it did: its fate and the kernel's reason. What follows was not compared.
    pub failures: [Option<String>; 2],
    /// A signal ended the runs before they parted or were over.
    pub interrupted: bool,
    pub first: Option<Divergence>,
    /// The first with an effect by itself, that is, a task on another CPU or another task on a CPU, if that is a later one.
    pub effect: Option<Divergence>,
}

impl Diff {
    /// Whether a policy was refused or ended before its run.
    pub fn failed(&self) -> bool {
        self.failures.iter().any(Option::is_some)
    }
}

/// Runs both until they part for sure. `progress` is told the share done, in 0..=1000.
///
/// # Errors
/// What the user gave cannot work.
pub fn run(sides: &[Scenario; 2], options: &Options, progress: &mut dyn FnMut(u64)) -> Result<Diff, Error> {
    let mut kinds = options.kinds.clone();
    if sides.iter().any(|side| side.policy == Policy::Eevdf) {
        kinds.retain(|kind| Kind::EFFECTS.contains(kind));
    }
    let effects: Vec<Kind> = kinds
        .iter()
        .copied()
        .filter(|kind| Kind::EFFECTS.contains(kind))
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
            let noted = std::mem::take(&mut side.machine.decisions.noted);
            most = most.max(noted.len());
            for decision in &noted {
                if first.is_none() {
                    all.take(index, decision);
                }
                effective.take(index, decision);
            }
        }
        let clocks = [running[0].clock(), running[1].clock()];
        first = first.or_else(|| all.parting(clocks));
        effect = effective.parting(clocks);
        piece = if most > DECISIONS { piece / 2 } else { piece * 2 }.max(1);
        let until = running[0].until().max(running[1].until());
        progress(at.min(until) / (until / 1000).max(1));
    }
    // Where a policy failed, its run ends: that the other one goes on is no decision.
    let failed = running.iter().filter(|side| side.failed());
    let clocks = match failed.map(Running::clock).min() {
        Some(at) => [at, at],
        None => [running[0].clock(), running[1].clock()],
    };
    let ended = [running[0].machine.now, running[1].machine.now];
    let failures = [running[0].failure(), running[1].failure()];
    drop(running);
    // A side that was stopped may have made the other's last decision a moment later.
    let first = first.or_else(|| all.last(clocks).filter(|_| !interrupted));
    let (same, lag) = all.before(first.as_ref());
    let effect = effect
        .or_else(|| effective.last(clocks).filter(|_| !interrupted))
        .filter(|effect| Some(*effect) != first);
    Ok(Diff {
        names: names(sides),
        same,
        lag,
        ended,
        failures,
        interrupted,
        first: first.map(|parting| shown(sides, &parting, options)).transpose()?,
        effect: effect.map(|parting| shown(sides, &parting, options)).transpose()?,
    })
}

/// Runs both again, up to where they part.
fn shown(sides: &[Scenario; 2], parting: &Parting, options: &Options) -> Result<Divergence, Error> {
    let [a, b] = sides;
    let jobs = [
        (a, parting.sides[0], parting.sides[1]),
        (b, parting.sides[1], parting.sides[0]),
    ];
    let look = |(scenario, own, other): &(&Scenario, Option<Decision>, Option<Decision>), _: &mut dyn FnMut(u64)| {
        side(scenario, *own, *other, parting.time, options)
    };
    let mut seen = parallel::run(&jobs, None, &|_, _| {}, look)?.into_iter();
    let (Some(a), Some(b)) = (seen.next(), seen.next()) else {
        unreachable!("two jobs");
    };
    Ok(Divergence {
        time: parting.time,
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
    // Of each task how it came where it is, and the latest decisions of the same CPU or task.
    let mut came: BTreeMap<u32, Decision> = BTreeMap::new();
    let mut before: Vec<Decision> = Vec::new();
    let about = own.or(other);
    // What happens at time 0 happens in the first step, too.
    let (mut at, end) = (0, time.max(1));
    while at < end && !running.ended() {
        at = (at + PIECE_NS).min(end);
        running.advance(at, &mut Tee::new())?;
        for decision in std::mem::take(&mut running.machine.decisions.noted) {
            if own.map_or(decision.time >= time, |own| decision.number >= own.number) {
                break;
            }
            if let What::Insert { pid, .. } | What::Take { pid, .. } = decision.what {
                came.insert(pid, decision);
            }
            if about.is_some_and(|about| related(&about, &decision)) {
                before.push(decision);
                let surplus = before.len().saturating_sub(BEFORE);
                before.drain(..surplus);
            }
        }
    }
    let machine = &mut running.machine;
    let seen = match machine.decisions.seen.take() {
        Some(seen) => seen,
        None => {
            let task = other
                .and_then(|other| subject(&other.what))
                .and_then(|pid| machine.find_task(pid));
            machine.snapshot(task.unwrap_or(IDLE))
        }
    };
    let told = |decision: Decision, machine: &Machine| Told {
        decision,
        place: machine.place(&decision),
    };
    let came = match own.map(|own| own.what) {
        Some(What::Run { pid, .. }) => came.remove(&pid),
        _ => None,
    };
    let mut side = Side {
        told: own.map(|own| told(own, machine)),
        came: came.map(|came| told(came, machine)),
        seen,
        before: before.into_iter().map(|decision| told(decision, machine)).collect(),
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

/// The task that a decision is about.
fn subject(what: &What) -> Option<u32> {
    match *what {
        What::Cpu { pid, .. } | What::Insert { pid, .. } | What::Take { pid, .. } | What::Run { pid, .. } => Some(pid),
        What::Kick { .. } => None,
    }
}

fn related(a: &Decision, b: &Decision) -> bool {
    a.cpu == b.cpu || subject(&a.what).is_some_and(|pid| subject(&b.what) == Some(pid))
}
