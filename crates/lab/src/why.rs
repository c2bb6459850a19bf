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
use report::html::Explained;
use report::wait::{Cause, Find, Notes, Story, Wait, Wanted, headline, json, named, parts, text};
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

    /// Returns the explanation for a page.
    pub fn for_page(&self) -> Explained {
        Explained {
            pid: self.story.wait.pid,
            begin: self.story.wait.begin,
            headline: headline(&self.story),
            parts: parts(&self.story, &self.notes),
        }
    }
}

/// Parses `TASK@TIME`.
///
/// # Errors
/// Returns what is wrong with the text.
pub fn parse(text: &str) -> Result<Wanted, Error> {
    const EXAMPLE: &str = "expected TASK@TIME, for example web@12.5ms";
    let (task, time) = text
        .rsplit_once('@')
        .ok_or_else(|| format!("'{text}' has no time, {EXAMPLE}"))?;
    match task {
        "" => Err(Error::new(format!("'{text}' has no task, {EXAMPLE}"))),
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
    explain_traced(traced, &waits, &mut |done| progress(500 + done / 2))
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
    explain(scenario, &waits, progress)
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

    fn are_over(&self) -> bool {
        self.stories.iter().all(Story::is_over)
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

/// Explains waits that [`Find`] has found in a trace file or a recording. `progress` is called with
/// the progress, from 0 to 1000.
///
/// # Errors
/// The file is damaged.
pub fn explain_traced(traced: &Traced, waits: &[Wait], progress: &mut dyn FnMut(u64)) -> Result<Vec<Told>, Error> {
    let mut stories = Stories::new(waits, traced.header.cpus.len());
    traced.replay(&mut stories, progress)?;
    Ok(stories.finish())
}

/// Explains waits that [`Find`] has found in a run. Executes the run twice more, up to the end of
/// the last wait. `progress` is called with the progress, from 0 to 1000.
///
/// # Errors
/// The errors of the run.
pub fn explain(scenario: &Scenario, waits: &[Wait], progress: &mut dyn FnMut(u64)) -> Result<Vec<Told>, Error> {
    let last = waits.iter().map(|wait| wait.end.unwrap_or(u64::MAX)).max().unwrap_or(0);
    let mut stories = Stories::new(waits, scenario.machine.topology.cpus.len());
    let mut decisions: Vec<Vec<Decision>> = vec![Vec::new(); waits.len()];
    let mut running = scenario.start()?;
    running.machine.decisions.on = true;
    while !running.ended() && !stories.are_over() && runner::interrupt::signal().is_none() {
        let next = running.at().saturating_add(PIECE_NS);
        running.advance(next, &mut stories)?;
        progress(running.at().saturating_mul(500) / running.until().min(last).max(1));
        let recorded = std::mem::take(&mut running.machine.decisions.recorded);
        for (story, decisions) in stories.stories.iter().zip(&mut decisions) {
            let until = story.end.as_ref().map_or(u64::MAX, |end| end.time);
            let during = story.wait.begin..=until;
            decisions.extend(recorded.iter().filter(|decision| during.contains(&decision.time)));
        }
    }
    running.end(&mut stories);
    let related: Vec<Vec<LocatedDecision>> = stories
        .stories
        .iter_mut()
        .zip(&decisions)
        .map(|(story, decisions)| {
            story.finish();
            let related = related(story, decisions).into_iter();
            let located = related.map(|decision| LocatedDecision {
                decision,
                source_line: running.machine.place(&decision),
            });
            located.collect()
        })
        .collect();
    drop(running);
    let notes = observe(scenario, &stories.stories, &related, &mut |done| {
        progress(500 + done / 2)
    })?;
    let told = stories.stories.into_iter().zip(notes);
    Ok(told.map(|(story, notes)| Told { story, notes }).collect())
}

/// Returns the decisions about the task of a wait, and the kicks of the CPUs in whose queues it was.
/// The decisions can be later than the end of the wait, which is known only after they are made.
fn related(story: &Story, decisions: &[Decision]) -> Vec<Decision> {
    let until = story.end.as_ref().map_or(u64::MAX, |end| end.time);
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
    let during = decisions.iter().filter(|decision| decision.time <= until);
    let mut related: Vec<Decision> = during.filter(about).copied().collect();
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

/// A time at which the run is stopped to look at the machine.
struct Stop {
    time: u64,
    /// Index of the story.
    story: usize,
    /// Number of the decision that begins the story, if the stop is for its begin.
    begins: Option<Option<u64>>,
}

/// Returns the times at which a story needs snapshots: its begin, and the ends of turns in its
/// task's queue.
fn stops(index: usize, story: &Story, decisions: &[LocatedDecision]) -> Vec<Stop> {
    let chosen = decisions
        .first()
        .filter(|_| matches!(story.wait.cause, Cause::Woken { .. } | Cause::New));
    let number = chosen.map(|located| located.decision.number);
    let begin = story.wait.begin;
    let last = story.end.as_ref().map_or(u64::MAX, |end| end.time);
    let times = std::iter::once(begin).chain(story.turns.iter().map(|turn| turn.to));
    let times = times.filter(|&time| time < last).collect::<Vec<u64>>();
    let first = Stop {
        time: begin,
        story: index,
        begins: Some(number),
    };
    let places = times.into_iter().step_by(1 + story.turns.len() / PLACES);
    let places = places.map(|time| Stop {
        time,
        story: index,
        begins: None,
    });
    std::iter::once(first).chain(places).collect()
}

/// Executes the run once more, and takes snapshots of the machine.
fn observe(
    scenario: &Scenario,
    stories: &[Story],
    decisions: &[Vec<LocatedDecision>],
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Notes>, Error> {
    let all = stories.iter().zip(decisions).enumerate();
    let mut stops: Vec<Stop> = all
        .flat_map(|(index, (story, decisions))| stops(index, story, decisions))
        .collect();
    stops.sort_by_key(|stop| (stop.time, stop.story));
    // Numbers of the decisions that are still to come, the next one last.
    let mut wanted: Vec<u64> = stops.iter().rev().filter_map(|stop| stop.begins.flatten()).collect();
    let mut running = scenario.start()?;
    running.machine.decisions.on = !wanted.is_empty();
    running.machine.decisions.wanted = wanted.last().copied();
    let mut notes = vec![Notes::default(); stories.len()];
    let number = stops.len() as u64;
    for (done, stop) in (0..).zip(stops) {
        progress(done * 1000 / number);
        let (story, decisions) = (&stories[stop.story], &decisions[stop.story]);
        advance(&mut running, stop.time, &mut Tee::new(), &mut |_| {})?;
        let state = &mut running.machine.decisions;
        state.recorded.clear();
        let notes = &mut notes[stop.story];
        if let Some(number) = stop.begins {
            let seen = state.seen.take().filter(|_| state.wanted == number);
            if number.is_some() {
                wanted.pop();
                // A decision that has been made meanwhile gets no snapshot of its own.
                state.wanted = wanted.iter().rev().copied().find(|&next| next >= state.nr);
                state.on = state.wanted.is_some();
            }
            let seen = seen.unwrap_or_else(|| running.machine.snapshot(Some(story.wait.pid)));
            *notes = begin_notes(scenario, story, decisions, &seen);
        } else {
            let state = running.machine.snapshot(Some(story.wait.pid));
            note_place(notes, stop.time, story.wait.pid, &state);
        }
    }
    Ok(notes)
}

/// Returns the notes about the begin of a wait.
fn begin_notes(scenario: &Scenario, story: &Story, decisions: &[LocatedDecision], seen: &Snapshot) -> Notes {
    let decided = decisions.iter().map(|located| {
        let text = format!("{}, by {}", describe_decision(located, seen), describe_origin(located));
        (located.decision.time, text)
    });
    Notes {
        decisions: decided.collect(),
        allowed: allowed(seen, story.wait.pid),
        capacities: capacities(&scenario.machine),
        places: Vec::new(),
        running: describe_running(story, seen),
    }
}

/// Notes the place of a task in its queue, if it has changed.
fn note_place(notes: &mut Notes, time: u64, pid: u32, state: &Snapshot) {
    let place = state.queues.iter().find_map(|queue| {
        let place = queue.tasks.iter().position(|&queued| queued == pid)?;
        Some((queue.name.clone(), place + 1, queue.tasks.len()))
    });
    let Some((queue, place, length)) = place else { return };
    let last = notes.places.last();
    if last.is_none_or(|(_, before, at, of)| (before, *at, *of) != (&queue, place, length)) {
        notes.places.push((time, queue, place, length));
    }
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
        let error = |text: &str| parse(text).expect_err("the text is wrong").to_string();
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
