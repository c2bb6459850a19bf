// SPDX-License-Identifier: GPL-2.0-only
//! Explains waits of tasks for CPUs ([`report::wait`]) in a run, a trace file or a recording.
//!
//! A run is deterministic, so it is executed several times: to find the waits, to collect the
//! story of a wait with the scheduler's decisions about the task, and to take snapshots of the
//! machine at the decision and when the task's CPU switches.

use crate::diff::{LocatedDecision, describe_decision, describe_origin};
use input::error::Error;
use kernel::decision::{Decision, DecisionKind, Snapshot};
use kernel::layout::enums::SCX_KICK_IDLE;
use machine::MachineSpec;
use report::wait::{Cause, Find, Notes, Story, Wait, Wanted, json, named, text};
use runner::running::Running;
use runner::scenario::Scenario;
use runner::traced::Traced;
use serde_json::Value;
use trace::{Record, Sink, Tee};

/// Simulated time in ns that a run advances at once.
const PIECE_NS: u64 = 1_000_000;
/// Maximum number of snapshots of the task's queue.
const PLACES: usize = 12;
/// Maximum number of decisions that a story contains.
const DECISIONS: usize = 12;

/// The story of a wait, with what only a run knows.
pub struct Told {
    pub story: Story,
    pub notes: Notes,
}

impl Told {
    pub fn text(&self) -> String {
        text(&self.story, &self.notes)
    }

    pub fn json(&self) -> Value {
        json(&self.story, &self.notes)
    }
}

/// Parses `TASK@TIME`.
///
/// # Errors
/// Returns what is wrong with the text.
pub fn parse(text: &str) -> Result<Wanted, String> {
    const EXAMPLE: &str = "expected TASK@TIME, for example web@12.5ms";
    let (task, time) = text
        .rsplit_once('@')
        .ok_or_else(|| format!("'{text}' has no time, {EXAMPLE}"))?;
    match task {
        "" => Err(format!("'{text}' has no task, {EXAMPLE}")),
        task => Ok(Wanted::At(task.to_owned(), input::duration::parse(time)?)),
    }
}

/// Explains waits in a trace file or a recording. `progress` is called with the progress, from 0 to
/// 1000.
///
/// # Errors
/// The file is damaged, or contains no such wait.
pub fn traced(traced: &Traced, wanted: Wanted, progress: &mut dyn FnMut(u64)) -> Result<Vec<Told>, Error> {
    let nr_cpus = traced.header.cpus.len();
    let mut find = Find::new(wanted, nr_cpus);
    traced.replay(&mut find, &mut |done| progress(done / 2))?;
    let waits = find.finish().map_err(Error::new)?;
    let mut stories = Stories::new(&waits, nr_cpus);
    traced.replay(&mut stories, &mut |done| progress(500 + done / 2))?;
    Ok(stories.finish())
}

/// Explains waits in a run.
///
/// # Errors
/// The errors of the run, or the run contains no such wait.
pub fn run(scenario: &Scenario, wanted: Wanted, progress: &mut dyn FnMut(u64)) -> Result<Vec<Told>, Error> {
    let nr_cpus = scenario.machine.topology.cpus.len();
    let mut find = Find::new(wanted, nr_cpus);
    let mut running = scenario.start()?;
    advance(&mut running, u64::MAX, &mut find, progress)?;
    running.end(&mut find);
    let failure = running.failure();
    drop(running);
    let waits = find.finish().map_err(|why| match failure {
        Some(failure) => Error::new(format!("{why}: {} {failure}", scenario.policy.name())),
        None => Error::new(why),
    })?;
    waits.into_iter().map(|wait| explain(scenario, wait)).collect()
}

/// Advances a run up to a time or its end.
fn advance(running: &mut Running, to: u64, sink: &mut dyn Sink, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
    while !running.ended() && running.at() < to && runner::interrupt::signal().is_none() {
        let next = running.at().saturating_add(PIECE_NS).min(to);
        running.advance(next, sink)?;
        progress(running.at().saturating_mul(1000) / running.until().max(1));
    }
    Ok(())
}

/// Stories of several waits, collected from the same records.
struct Stories {
    stories: Vec<Story>,
}

impl Stories {
    fn new(waits: &[Wait], nr_cpus: usize) -> Stories {
        let stories = waits.iter().map(|wait| Story::new(wait.clone(), nr_cpus));
        Stories {
            stories: stories.collect(),
        }
    }

    fn finish(self) -> Vec<Told> {
        let told = |mut story: Story| {
            story.finish();
            Told {
                story,
                notes: Notes::default(),
            }
        };
        self.stories.into_iter().map(told).collect()
    }
}

impl Sink for Stories {
    fn take(&mut self, records: &[Record]) {
        self.stories.iter_mut().for_each(|story| story.take(records));
    }
}

/// Executes the run again up to the end of the wait.
fn explain(scenario: &Scenario, wait: Wait) -> Result<Told, Error> {
    let nr_cpus = scenario.machine.topology.cpus.len();
    let begin = wait.begin;
    let mut story = Story::new(wait, nr_cpus);
    let mut running = scenario.start()?;
    running.machine.decisions.on = true;
    let mut decisions: Vec<Decision> = Vec::new();
    while !running.ended() && !story.is_over() && runner::interrupt::signal().is_none() {
        let next = running.at().saturating_add(PIECE_NS);
        running.advance(next, &mut story)?;
        let recorded = std::mem::take(&mut running.machine.decisions.recorded);
        let until = story.end.as_ref().map_or(u64::MAX, |end| end.time);
        let during = recorded
            .into_iter()
            .filter(|decision| (begin..=until).contains(&decision.time));
        decisions.extend(during);
    }
    running.end(&mut story);
    story.finish();
    let related = related(&story, &decisions);
    let located = related.iter().map(|decision| LocatedDecision {
        decision: *decision,
        source_line: running.machine.place(decision),
    });
    let located: Vec<LocatedDecision> = located.collect();
    drop(running);
    let first = related
        .first()
        .filter(|_| matches!(story.wait.cause, Cause::Woken { .. } | Cause::New));
    let notes = observe(scenario, &story, first.map(|decision| decision.number), &located)?;
    Ok(Told { story, notes })
}

/// Returns the decisions about the task of a wait, and the kicks of the CPUs in whose queues it was.
fn related(story: &Story, decisions: &[Decision]) -> Vec<Decision> {
    let mut homes: Vec<u32> = story.moves.iter().map(|step| step.to).collect();
    homes.push(story.queued_on);
    let about = |decision: &&Decision| match decision.what {
        DecisionKind::Cpu { pid, .. } | DecisionKind::Insert { pid, .. } | DecisionKind::Take { pid, .. } => {
            pid == story.wait.pid
        }
        // The end of the story contains the switch.
        DecisionKind::Run { .. } => false,
        // A kick that only ends idling does not end anybody's turn.
        DecisionKind::Kick { target, flags } => homes.contains(&target) && flags & SCX_KICK_IDLE == 0,
    };
    let mut related: Vec<Decision> = decisions.iter().filter(about).copied().collect();
    // The decision about the CPU precedes the wake-up in time, or has the same time.
    if let Some(chosen) = related
        .iter()
        .position(|decision| matches!(decision.what, DecisionKind::Cpu { .. }))
    {
        related[..=chosen].rotate_right(1);
    }
    related.truncate(DECISIONS);
    related
}

/// Executes the run once more, and takes snapshots of the machine.
fn observe(
    scenario: &Scenario,
    story: &Story,
    wanted: Option<u64>,
    decisions: &[LocatedDecision],
) -> Result<Notes, Error> {
    let wait = &story.wait;
    let mut running = scenario.start()?;
    running.machine.decisions.on = wanted.is_some();
    running.machine.decisions.wanted = wanted;
    let silent = &mut |_| {};
    advance(&mut running, wait.begin, &mut Tee::new(), silent)?;
    let seen = running.machine.decisions.seen.take();
    let seen = seen.unwrap_or_else(|| running.machine.snapshot(Some(wait.pid)));
    running.machine.decisions.on = false;
    let mut notes = Notes {
        decisions: decisions
            .iter()
            .map(|located| {
                let text = format!("{}, by {}", describe_decision(located, &seen), describe_origin(located));
                (located.decision.time, text)
            })
            .collect(),
        allowed: allowed(&seen, wait.pid),
        capacities: capacities(&scenario.machine),
        places: Vec::new(),
        running: describe_running(story, &seen),
    };
    let last = story.end.as_ref().map_or(u64::MAX, |end| end.time);
    let times = std::iter::once(wait.begin).chain(story.turns.iter().map(|turn| turn.to));
    let times: Vec<u64> = times.filter(|&time| time < last).collect();
    for time in times.into_iter().step_by(1 + story.turns.len() / PLACES) {
        advance(&mut running, time, &mut Tee::new(), silent)?;
        let state = running.machine.snapshot(Some(wait.pid));
        let place = state.queues.iter().find_map(|queue| {
            let place = queue.tasks.iter().position(|&pid| pid == wait.pid)?;
            Some((queue.name.clone(), place + 1, queue.tasks.len()))
        });
        if let Some((queue, place, length)) = place {
            let changed = notes
                .places
                .last()
                .is_none_or(|(_, before, at, of)| (before, *at, *of) != (&queue, place, length));
            if changed {
                notes.places.push((time, queue, place, length));
            }
        }
    }
    Ok(notes)
}

/// Returns for each CPU whether a task may use it. Empty if it may use all of them.
fn allowed(seen: &Snapshot, pid: u32) -> Vec<bool> {
    let cpus = seen.tasks.get(&pid).and_then(|task| task.cpus.as_ref());
    let numbers = (0..).take(seen.cpus.len());
    let all: Vec<bool> = numbers
        .zip(&seen.cpus)
        .map(|(cpu, state)| state.online && cpus.is_none_or(|cpus| cpus.contains_nr(cpu)))
        .collect();
    if all.iter().all(|&allowed| allowed) {
        Vec::new()
    } else {
        all
    }
}

/// Returns the capacities of the CPUs. Empty if they are equal.
fn capacities(machine: &MachineSpec) -> Vec<u32> {
    let all: Vec<u32> = machine.topology.cpus.iter().map(|cpu| cpu.capacity).collect();
    match all.iter().all(|capacity| *capacity == all[0]) {
        true => Vec::new(),
        false => all,
    }
}

/// Says why the task that ran on the task's CPU kept running.
fn describe_running(story: &Story, seen: &Snapshot) -> Vec<String> {
    let state = seen.cpus.get(story.queued_on as usize);
    let Some(running) = state
        .map(|state| state.curr)
        .filter(|&curr| curr != 0 && curr != story.wait.pid)
    else {
        return Vec::new();
    };
    let (Some(task), Some(own)) = (seen.tasks.get(&running), seen.tasks.get(&story.wait.pid)) else {
        return Vec::new();
    };
    let slice = match task.slice {
        u64::MAX => "an infinite slice".to_owned(),
        0 => "no slice left".to_owned(),
        ns => format!("{} of its slice left", input::duration::format(ns)),
    };
    let weights = match (task.weight, own.weight) {
        (a, b) if a == b => format!("both have weight {a}"),
        (a, b) => format!("its weight is {a}, that of the waiting task {b}"),
    };
    vec![format!("{} had {slice}; {weights}", named(&task.comm, running))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_and_a_time_are_parsed() {
        assert_eq!(parse("a@b@2ms"), Ok(Wanted::At("a@b".into(), 2_000_000)));
        let error = |text: &str| parse(text).expect_err("the text is wrong");
        assert_eq!(
            error("a"),
            "'a' has no time, expected TASK@TIME, for example web@12.5ms"
        );
        assert_eq!(
            error("@2ms"),
            "'@2ms' has no task, expected TASK@TIME, for example web@12.5ms"
        );
        assert_eq!(
            error("a@2"),
            "'2' has no unit, expected ns, us, ms, s or min, for example 2ms"
        );
    }
}
