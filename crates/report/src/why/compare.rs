// SPDX-License-Identifier: GPL-2.0-only
//! Compares what happened in a simulated run and in a live run (on a real machine): numbers of
//! wake-ups and turns, lengths of steps, and the courses of tasks. A turn is the time from the
//! switch to a task until the switch away from it. A step is a part of the time of a task or CPU,
//! for example a turn or a sleep. The course of a task is the list of what the task did.

use super::lengths::{LengthsOfSide, Step};
use super::side::{Course, Did, Group, Overview, Placement, Reason, SharedPart, Side, Tally};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The differences between a simulated and a live run.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    pub simulated: Overview,
    pub live: Overview,
    /// Parts of the run's time, in descending order of the difference between the two runs.
    pub budget: Vec<Part>,
    /// Number of tasks that exist on both sides.
    pub matched_tasks: u64,
    /// Number of tasks that exist on both sides and did the same on both sides.
    pub equal_tasks: u64,
    /// The first step at which a task did different things on the two sides. If several tasks
    /// differ, this is the step that is earliest in simulated time.
    pub first: Option<FirstDifference>,
    /// Numbers of wake-ups, by the waker's group, the woken task's group and the chosen CPU, in
    /// descending order of the difference.
    pub wakeups: Vec<Count>,
    /// Numbers of ends of turns, by the task's group, the reason and the group of the task that
    /// runs next, in descending order of the difference.
    pub ends: Vec<Count>,
    /// Lengths of steps, in descending order of the difference between their sums.
    pub lengths: Vec<Length>,
}

/// A part of the run's time: the CPU time of a group of tasks, of other programs or of recording,
/// or the idle time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    pub name: String,
    /// Time in ns as a mean over all CPUs, so that all parts add up to the length of the run.
    pub simulated_ns: u64,
    pub live_ns: u64,
    /// Number of turns, or of idle times.
    pub simulated_turns: u64,
    pub live_turns: u64,
}

/// Number of events of one kind on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    pub event: String,
    pub simulated: Tally,
    pub live: Tally,
}

/// Lengths of one step of one group on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Length {
    pub group: String,
    pub step: Step,
    pub simulated: LengthsOfSide,
    pub live: LengthsOfSide,
}

/// The first difference between the two courses of a task. Times are in ns since the start of the
/// run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    pub task: String,
    /// Number of the step, starting at 1.
    pub step: usize,
    pub simulated: String,
    pub simulated_ns: u64,
    pub live: String,
    pub live_ns: u64,
}

impl Why {
    /// Compares two runs.
    #[must_use]
    pub fn new(simulated: &Side, live: &Side) -> Why {
        let both = simulated.courses.keys().filter(|key| live.courses.contains_key(*key));
        let differences: Vec<_> = both.map(|key| first_difference(key, simulated, live)).collect();
        let matched = differences.len() as u64;
        let equal = differences.iter().filter(|difference| difference.is_none()).count() as u64;
        Why {
            simulated: simulated.overview,
            live: live.overview,
            budget: budget(simulated, live),
            matched_tasks: matched,
            equal_tasks: equal,
            first: differences.into_iter().flatten().min_by_key(|first| first.simulated_ns),
            wakeups: counts(&simulated.wakeups, &live.wakeups, |(by, of, placement)| {
                format!("{} wakes {} {}", waker(by), name(of), where_to(*placement))
            }),
            ends: counts(&simulated.ends, &live.ends, |(from, reason, to)| end(from, *reason, to)),
            lengths: lengths(simulated, live),
        }
    }
}

fn name(group: &Group) -> &str {
    match group {
        Group::Named(name) => name,
        Group::Others => "another program",
        Group::Nobody => "idle",
    }
}

fn waker(group: &Group) -> &str {
    match group {
        Group::Nobody => "an interrupt",
        group => name(group),
    }
}

fn where_to(placement: Placement) -> String {
    let cpu = match (placement.same_cpu, placement.shared) {
        (true, _) => "on its own CPU",
        (_, SharedPart::Core) => "on its core",
        (_, SharedPart::Llc) => "in its LLC",
        (_, SharedPart::Node) => "in another LLC",
        (_, SharedPart::Machine) => "on another node",
    };
    format!("{cpu}, {}", if placement.idle { "idle" } else { "busy" })
}

fn end(from: &Group, reason: Reason, to: &Group) -> String {
    let (from, to) = (name(from), name(to));
    match reason {
        Reason::Block => format!("{from} blocks, {to} next"),
        Reason::Exit => format!("{from} exits, {to} next"),
        Reason::Wakeup => format!("{from} preempted by {to}, just woken"),
        Reason::Tick => format!("{from} preempted by {to}, tick or yield"),
    }
}

/// Pairs the counts of both sides, the largest difference first.
fn counts<K: Ord>(
    simulated: &BTreeMap<K, Tally>,
    live: &BTreeMap<K, Tally>,
    words: impl Fn(&K) -> String,
) -> Vec<Count> {
    let keys: BTreeSet<&K> = simulated.keys().chain(live.keys()).collect();
    let tally = |of: &BTreeMap<K, Tally>, key: &K| of.get(key).copied().unwrap_or_default();
    let count = |key: &K| Count {
        event: words(key),
        simulated: tally(simulated, key),
        live: tally(live, key),
    };
    let mut counts: Vec<Count> = keys.into_iter().map(count).collect();
    counts.sort_by_key(|count| Reverse(count.simulated.count.abs_diff(count.live.count)));
    counts
}

fn lengths(simulated: &Side, live: &Side) -> Vec<Length> {
    let keys: BTreeSet<_> = simulated.lengths.keys().chain(live.lengths.keys()).collect();
    let of = |side: &Side, key: &(Group, Step)| side.lengths.get(key).copied().unwrap_or_default();
    let length = |key: &(Group, Step)| Length {
        group: name(&key.0).to_owned(),
        step: key.1,
        simulated: of(simulated, key),
        live: of(live, key),
    };
    let mut lengths: Vec<Length> = keys.into_iter().map(length).collect();
    lengths.sort_by_key(|length| Reverse(length.simulated.sum_ns.abs_diff(length.live.sum_ns)));
    lengths
}

fn budget(simulated: &Side, live: &Side) -> Vec<Part> {
    let groups: BTreeSet<&Group> = simulated.budget.keys().chain(live.budget.keys()).collect();
    let time = |side: &Side, group: &Group| side.budget.get(group).copied().unwrap_or(0) / side.overview.cpus.max(1);
    let turns = |side: &Side, group: &Group| {
        let of = |step| {
            side.lengths
                .get(&(group.clone(), step))
                .map_or(0, |lengths| lengths.count)
        };
        Step::ALL
            .into_iter()
            .filter(|step| matches!(step, Step::BlockedTurn | Step::PreemptedTurn | Step::Idle))
            .map(of)
            .sum()
    };
    let part = |group: &&Group| Part {
        name: match group {
            Group::Others => "other programs".to_owned(),
            group => name(group).to_owned(),
        },
        simulated_ns: time(simulated, group),
        live_ns: time(live, group),
        simulated_turns: turns(simulated, group),
        live_turns: turns(live, group),
    };
    let mut parts: Vec<Part> = groups.iter().map(part).collect();
    let recording = |side: &Side| side.overview.recording_ns / side.overview.cpus.max(1);
    parts.push(Part {
        name: "recording".to_owned(),
        simulated_ns: recording(simulated),
        live_ns: recording(live),
        simulated_turns: 0,
        live_turns: 0,
    });
    parts.retain(|part| part.simulated_ns > 0 || part.live_ns > 0);
    parts.sort_by_key(|part| Reverse(part.simulated_ns.abs_diff(part.live_ns)));
    parts
}

/// Returns the steps of a course from the first turn on. The steps before the first turn are not
/// compared, because a task of a live run then waits for the start of the workload.
fn from_first_turn(course: &Course) -> &[(u64, Did)] {
    let steps = &course.steps;
    let first = steps.iter().position(|(_, did)| matches!(did, Did::Run { .. }));
    &steps[first.unwrap_or(steps.len())..]
}

fn first_difference(key: &(String, u32), simulated: &Side, live: &Side) -> Option<FirstDifference> {
    let (a, b) = (&simulated.courses[key], &live.courses[key]);
    let (left, right) = (from_first_turn(a), from_first_turn(b));
    let words = |side: &Side, step: Option<&(u64, Did)>| match step {
        Some((_, did)) => in_words(did, side),
        None => "does nothing more".to_owned(),
    };
    let step = (0..left.len().max(right.len()))
        .find(|&step| words(simulated, left.get(step)) != words(live, right.get(step)))?;
    // A course that was cut lacks its last steps, so nothing is known about them.
    if (step >= left.len() && a.cut) || (step >= right.len() && b.cut) {
        return None;
    }
    let time = |side: &Side, steps: &[(u64, Did)]| steps.get(step).map_or(side.overview.run_ns, |(time, _)| *time);
    Some(FirstDifference {
        task: format!("{} {}", key.0, key.1),
        step: step + 1,
        simulated: words(simulated, left.get(step)),
        simulated_ns: time(simulated, left),
        live: words(live, right.get(step)),
        live_ns: time(live, right),
    })
}

fn in_words(did: &Did, side: &Side) -> String {
    let task = |pid: &u32| match (pid, side.identities.get(pid)) {
        (_, Some((name, number))) => format!("{name} {number}"),
        (0, None) => "an interrupt".to_owned(),
        (_, None) => "another program".to_owned(),
    };
    match did {
        Did::Run { cpu } => format!("runs on CPU {cpu}"),
        Did::Wake { waker } => format!("is woken by {}", task(waker)),
        Did::Preempt { by: 0 } => "leaves the CPU idle while it could run".to_owned(),
        Did::Preempt { by } => format!("is preempted by {}", task(by)),
        Did::Block => "blocks".to_owned(),
        Did::Exit => "exits".to_owned(),
    }
}
