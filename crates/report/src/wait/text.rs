// SPDX-License-Identifier: GPL-2.0-only
//! Formats the story of a wait as text and as JSON.

use super::{Cause, End, Move, Story, Turn};
use crate::units;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use trace::{MigrateReason, TaskState, escape};

/// Maximum numbers of turns, queue lengths and CPUs that are listed. The remaining ones are
/// counted.
const TURNS: usize = 12;
const LENGTHS: usize = 12;
const CPUS: usize = 16;
/// If more CPUs than this never idled, they are one line.
const TOGETHER: usize = 4;
/// Priorities below this one belong to real-time tasks.
const MAX_RT_PRIO: i32 = 100;

/// What only a simulated run knows about a wait.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Sentences about the choice of the CPU, the insertion into a queue and kicks, in order of
    /// time.
    pub decisions: Vec<(u64, String)>,
    /// For each CPU, whether the task may use it. Empty if it may use all of them.
    pub allowed: Vec<bool>,
    /// Capacity of each CPU, 1024 for the fastest. Empty if all are equal.
    pub capacities: Vec<u32>,
    /// Places of the task in its queue: time, queue, place from 1, and length of the queue.
    pub places: Vec<(u64, String, usize, usize)>,
    /// Sentences about the task that ran on the task's CPU when the wait began.
    pub running: Vec<String>,
}

/// Formats a time with nanoseconds: `12.345678 ms`.
pub fn at(ns: u64) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}

/// Returns the name and the pid of a task.
pub fn named(comm: &str, pid: u32) -> String {
    match pid {
        0 => "idle".to_owned(),
        pid => format!("{} (pid {pid})", escape::line(comm)),
    }
}

/// Describes how a task left its CPU.
fn left(state: Option<TaskState>) -> &'static str {
    match state {
        Some(TaskState::Running) => "then lost the CPU",
        Some(TaskState::Interruptible) => "then slept",
        Some(TaskState::Uninterruptible) => "then blocked",
        Some(TaskState::Dead) => "then exited",
        None => "",
    }
}

fn reason(reason: MigrateReason) -> &'static str {
    match reason {
        MigrateReason::Wakeup => "at its wake-up",
        MigrateReason::Fork => "at its fork",
        MigrateReason::Exec => "at its exec",
        MigrateReason::Balance => "by load balancing or dispatch",
        MigrateReason::Affinity => "because its allowed CPUs changed",
    }
}

/// Returns a sentence with the task, and the length and the times of its wait.
pub fn headline(story: &Story) -> String {
    let wait = &story.wait;
    let length = units::time(wait.ns(story.last));
    let name = named(&wait.comm, wait.pid);
    let begin = at(wait.begin);
    match wait.end {
        Some(end) => format!("{name} waited {length} for a CPU, from {begin} to {}", at(end)),
        None => format!("{name} has waited {length} for a CPU, from {begin} to the end"),
    }
}

/// Returns the parts of the story: a heading and its lines. `notes` is empty for recordings.
pub fn parts(story: &Story, notes: &Notes) -> Vec<(&'static str, Vec<String>)> {
    let mut queue = vec![queued(story)];
    queue.extend(notes.running.iter().cloned());
    let decided = notes.decisions.iter();
    let decided = decided.map(|(time, text)| format!("{}: {text}", at(*time)));
    let all = [
        ("begin", vec![begin(story)]),
        ("queued", queue),
        ("decided", decided.collect()),
        ("moved", story.moves.iter().map(describe_move).collect()),
        ("place", places(story, notes)),
        ("ran instead", turns(story)),
        ("other CPUs", cpus(story, notes)),
        ("end", vec![end(story)]),
    ];
    all.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
}

/// Returns the story as text. `notes` is empty for recordings.
pub fn text(story: &Story, notes: &Notes) -> String {
    let mut out = format!("{}\n\n", headline(story));
    for (heading, lines) in parts(story, notes) {
        for (index, line) in lines.iter().enumerate() {
            let heading = if index == 0 { heading } else { "" };
            let _ = writeln!(out, "{heading:<12}{line}");
        }
    }
    out
}

fn begin(story: &Story) -> String {
    let what = match story.wait.cause {
        Cause::Woken { waker: 0, cpu } => format!("an interrupt on CPU {cpu} woke it"),
        Cause::Woken { waker, cpu } => format!("{} woke it on CPU {cpu}", named(&story.waker, waker)),
        Cause::New => "it is a new task".to_owned(),
        Cause::Preempted { cpu } if cpu != story.queued_on => {
            return format!("it was moved away from CPU {cpu} while it ran");
        }
        Cause::Preempted { cpu } => return format!("it lost CPU {cpu} while it was runnable"),
    };
    match story.last_ran {
        Some((cpu, time)) => {
            let slept = story.wait.begin.saturating_sub(time);
            format!("{what}; it last ran on CPU {cpu}, {} before", units::time(slept))
        }
        None => what,
    }
}

/// Returns "1 task" or "2 tasks".
fn tasks(number: u32) -> String {
    format!("{number} {}", if number == 1 { "task" } else { "tasks" })
}

fn queued(story: &Story) -> String {
    let cpu = story.queued_on;
    let Some(state) = story.cpus.get(cpu as usize) else {
        return format!("on CPU {cpu}");
    };
    let ran = match state.ran {
        0 => "which was idle".to_owned(),
        pid if pid == story.wait.pid => "on which it ran itself".to_owned(),
        pid => format!("which ran {}", named(&state.comm, pid)),
    };
    let others = match state.waiting {
        0 => "no other task waited there".to_owned(),
        1 => "1 other task waited there".to_owned(),
        number => format!("{number} other tasks waited there"),
    };
    format!("on CPU {cpu}, {ran}; {others}")
}

fn describe_move(step: &Move) -> String {
    let Move { time, from, to, .. } = step;
    format!("{}: from CPU {from} to CPU {to} {}", at(*time), reason(step.reason))
}

fn places(story: &Story, notes: &Notes) -> Vec<String> {
    let mut lines: Vec<String> = match notes.places.is_empty() {
        false => notes
            .places
            .iter()
            .map(|(time, queue, place, length)| format!("{}: {place} of {length} in the {queue}", at(*time)))
            .collect(),
        true => story
            .queue
            .iter()
            .map(|(time, waiting)| format!("{}: {} on its CPU", at(*time), tasks(*waiting) + " waiting"))
            .collect(),
    };
    // A long wait has many changes. The lines that are kept are spread over all of it.
    let changes = lines.len();
    if changes > LENGTHS {
        let kept = lines.into_iter().step_by(changes.div_ceil(LENGTHS));
        lines = kept.collect();
        lines.push(format!("({changes} changes)"));
    }
    lines
}

fn turns(story: &Story) -> Vec<String> {
    let line = |turn: &Turn| {
        let class = match turn.prio {
            ..MAX_RT_PRIO if turn.pid != 0 => ", a real-time task",
            _ => "",
        };
        let ends_wait = story
            .end
            .as_ref()
            .filter(|end| turn.to == end.time && turn.cpu == end.cpu);
        let left = match ends_wait {
            Some(end) if end.prev == 0 && turn.pid == 0 => "until it had left its idle state and switched",
            _ => left(turn.left),
        };
        let comma = if left.is_empty() { "" } else { ", " };
        format!(
            "{:>9}  CPU {}  {}{class}{comma}{left}",
            units::time(turn.to - turn.from),
            turn.cpu,
            named(&turn.comm, turn.pid)
        )
    };
    if story.turns.len() <= TURNS {
        return story.turns.iter().map(line).collect();
    }
    let mut by_task: BTreeMap<(u32, &str), (u64, usize)> = BTreeMap::new();
    for turn in &story.turns {
        let (ns, number) = by_task.entry((turn.pid, turn.comm.as_str())).or_default();
        *ns += turn.to - turn.from;
        *number += 1;
    }
    let mut by_task: Vec<_> = by_task.into_iter().collect();
    by_task.sort_by_key(|&(task, (ns, _))| (std::cmp::Reverse(ns), task));
    let longest = by_task.iter().take(TURNS);
    let mut lines: Vec<String> = longest
        .map(|((pid, comm), (ns, number))| {
            let turns = if *number == 1 { "turn" } else { "turns" };
            format!("{:>9}  {} in {number} {turns}", units::time(*ns), named(comm, *pid))
        })
        .collect();
    let rest = by_task.get(TURNS..).unwrap_or(&[]);
    if !rest.is_empty() {
        let ns = rest.iter().map(|(_, (ns, _))| ns).sum();
        lines.push(format!("{:>9}  {} more tasks", units::time(ns), rest.len()));
    }
    lines
}

fn cpus(story: &Story, notes: &Notes) -> Vec<String> {
    let length = story.wait.ns(story.last).max(1);
    let home = story.queued_on as usize;
    let others = story.cpus.iter().enumerate().filter(|(cpu, _)| *cpu != home);
    let mut others: Vec<_> = others.collect();
    // The CPUs that could have run the task come first.
    let allowed = |cpu: usize| notes.allowed.get(cpu).copied().unwrap_or(true);
    others.sort_by_key(|(cpu, state)| (!allowed(*cpu), std::cmp::Reverse(state.idle_ns), *cpu));
    let suffix = |cpu: usize| {
        let mut text = String::new();
        if !allowed(cpu) {
            text += "; the task may not use it";
        }
        if let Some(capacity) = notes.capacities.get(cpu) {
            let _ = write!(text, "; capacity {capacity}");
        }
        text
    };
    // CPUs that idled all the time are one line, and so are many that never idled.
    let never = others.iter().filter(|(_, state)| state.idle_ns == 0).count();
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut lines = Vec::new();
    for (cpu, state) in others {
        let percent = u128::from(state.idle_ns) * 100 / u128::from(length);
        let together = match state.idle_ns {
            ns if ns >= length => Some("idle during the whole wait"),
            0 if never > TOGETHER => Some("never idle during the wait"),
            _ => None,
        };
        if let Some(what) = together {
            let what = format!("{what}{}", suffix(cpu));
            match groups.iter_mut().find(|(text, _)| *text == what) {
                Some((_, cpus)) => cpus.push(cpu),
                None => groups.push((what, vec![cpu])),
            }
            continue;
        }
        let mut line = match state.ran {
            0 => format!("CPU {cpu}  was idle"),
            pid => format!("CPU {cpu}  ran {}", named(&state.comm, pid)),
        };
        if state.waiting > 0 {
            let _ = write!(line, ", {} waited", tasks(state.waiting));
        }
        match state.idle_ns {
            0 => line += "; never idle during the wait",
            ns => drop(write!(line, "; idle for {} of the wait ({percent} %)", units::time(ns))),
        }
        lines.push(line + &suffix(cpu));
    }
    let grouped = groups.iter().map(|(what, cpus)| match cpus.as_slice() {
        [cpu] => format!("CPU {cpu}  {what}"),
        cpus => format!("CPUs {}  {what}", ranges(cpus)),
    });
    let mut all: Vec<String> = grouped.collect();
    let surplus = lines.len().saturating_sub(CPUS);
    all.extend(lines.into_iter().take(CPUS));
    if surplus > 0 {
        all.push(format!("and {surplus} more, which idled during a part of the wait"));
    }
    all
}

/// Formats ascending numbers as ranges: `0-3, 7`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn end(story: &Story) -> String {
    let Some(End {
        cpu,
        prev,
        comm,
        prev_state,
        ..
    }) = &story.end
    else {
        return "the run ended before a CPU switched to it".to_owned();
    };
    match prev {
        0 => format!("CPU {cpu}, which was idle, switched to it"),
        prev => {
            let left = left(Some(*prev_state)).trim_start_matches("then ");
            format!("CPU {cpu} switched to it when {} {left}", named(comm, *prev))
        }
    }
}

/// Returns the story as JSON. Times are in ns.
pub fn json(story: &Story, notes: &Notes) -> Value {
    let wait = &story.wait;
    let cause = match wait.cause {
        Cause::Woken { waker, cpu } => {
            let waker = if waker == 0 {
                Value::Null
            } else {
                json!({ "pid": waker, "comm": story.waker })
            };
            json!({ "kind": "woken", "waker": waker, "cpu": cpu })
        }
        Cause::New => json!({ "kind": "new" }),
        Cause::Preempted { cpu } => json!({ "kind": "preempted", "cpu": cpu }),
    };
    let state = |state: TaskState| match state {
        TaskState::Running => "runnable",
        TaskState::Interruptible => "sleeping",
        TaskState::Uninterruptible => "blocked",
        TaskState::Dead => "dead",
    };
    let cpus = story.cpus.iter().enumerate().map(|(cpu, idle)| {
        json!({
            "cpu": cpu,
            "allowed": notes.allowed.get(cpu).copied().unwrap_or(true),
            "capacity": notes.capacities.get(cpu),
            "ran_pid": idle.ran,
            "ran_comm": idle.comm,
            "waiting": idle.waiting,
            "idle_ns": idle.idle_ns,
        })
    });
    json!({
        "pid": wait.pid,
        "comm": wait.comm,
        "begin_ns": wait.begin,
        "end_ns": wait.end,
        "wait_ns": wait.ns(story.last),
        "cause": cause,
        "last_ran": story.last_ran.map(|(cpu, time)| json!({ "cpu": cpu, "until_ns": time })),
        "queued_on": story.queued_on,
        "decisions": notes.decisions.iter().map(|(time, text)| json!({ "time_ns": time, "text": text })).collect::<Vec<_>>(),
        "running": notes.running,
        "moves": story.moves.iter().map(|step| json!({
            "time_ns": step.time, "from": step.from, "to": step.to, "reason": reason(step.reason),
        })).collect::<Vec<_>>(),
        "places": notes.places.iter().map(|(time, queue, place, length)| json!({
            "time_ns": time, "queue": queue, "place": place, "length": length,
        })).collect::<Vec<_>>(),
        "waiting": story.queue.iter().map(|(time, waiting)| json!({ "time_ns": time, "tasks": waiting })).collect::<Vec<_>>(),
        "ran_instead": story.turns.iter().map(|turn| json!({
            "cpu": turn.cpu, "pid": turn.pid, "comm": turn.comm, "prio": turn.prio,
            "from_ns": turn.from, "to_ns": turn.to, "left": turn.left.map(state),
        })).collect::<Vec<_>>(),
        "cpus": cpus.collect::<Vec<_>>(),
        "end": story.end.as_ref().map(|end| json!({
            "time_ns": end.time, "cpu": end.cpu, "prev_pid": end.prev, "prev_comm": end.comm,
            "prev_state": state(end.prev_state),
        })),
    })
}
