// SPDX-License-Identifier: GPL-2.0-only
//! Formats the first difference between two runs as text and as JSON.

use super::describe::{
    IN_QUEUE, describe_decision, describe_origin, format_ranges, list_candidates, list_names, task_name,
};
use super::{Diff, Divergence, LocatedDecision, Side};
use kernel::CpuId;
use kernel::decision::{DecisionKind, Snapshot};
use report::layout::{Grid, Surface};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Maximum numbers of tasks, queues and CPUs that are listed. The remaining ones are only counted.
const TASKS: usize = 12;
const QUEUES: usize = 16;
const CPUS: usize = 16;

/// Formats a time with nanoseconds: `12.345678 ms`.
fn format_time(ns: u64) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}

/// Returns the result of a comparison as text.
pub fn text(diff: &Diff, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let [a, b] = &diff.names;
    let mut out = String::new();
    let lag = match diff.lag {
        0 => "at the same times".to_owned(),
        lag => format!("at times that differ by at most {}", format_time(lag)),
    };
    for (name, failure) in diff.names.iter().zip(&diff.failures) {
        if let Some(failure) = failure {
            let _ = writeln!(out, "{name} {failure}");
        }
    }
    if diff.failed() && diff.first.is_none() {
        let up_to = diff.ended[0].min(diff.ended[1]);
        let _ = match up_to {
            0 => writeln!(out, "there are no decisions to compare"),
            ns => writeln!(
                out,
                "no difference up to {}: {} equal decisions, {lag}",
                format_time(ns),
                diff.same
            ),
        };
        return out;
    }
    let Some(first) = &diff.first else {
        let until = if diff.interrupted { " (interrupted there)" } else { "" };
        let _ = writeln!(
            out,
            "{a} and {b} make the same decisions: {} up to {}{until}, {lag}",
            diff.same,
            format_time(diff.ended[0].max(diff.ended[1]))
        );
        return out;
    };
    let _ = writeln!(
        out,
        "{a} and {b} differ from {} on. The {} decisions before are the same, {lag}.\n",
        format_time(first.time),
        diff.same
    );
    append_divergence(diff, first, surface, &mut out);
    if let Some(effect) = &diff.effect {
        let _ = writeln!(
            out,
            "\nThe first effect on where or when tasks run is at {}, {} later:\n",
            format_time(effect.time),
            format_time(effect.time.saturating_sub(first.time))
        );
        append_divergence(diff, effect, surface, &mut out);
    }
    out
}

fn append_divergence(diff: &Diff, it: &Divergence, surface: Surface, out: &mut String) {
    for (letter, (name, side)) in ["A", "B"].iter().zip(diff.names.iter().zip(&it.sides)) {
        match &side.decision {
            Some(located) => {
                let _ = writeln!(
                    out,
                    "{letter} {name}, {}: {}",
                    format_time(located.decision.time),
                    describe_decision(located, &side.seen)
                );
                let _ = writeln!(out, "    by {}", describe_origin(located));
            }
            None => {
                let _ = writeln!(
                    out,
                    "{letter} {name}: makes no matching decision up to {}",
                    format_time(it.time)
                );
            }
        }
        if let Some(came) = &side.came {
            let _ = writeln!(
                out,
                "    before, {}: {}",
                format_time(came.decision.time),
                describe_decision(came, &side.seen)
            );
            let _ = writeln!(out, "    by {}", describe_origin(came));
        }
        if let Some(candidates) = list_candidates(side) {
            let _ = writeln!(out, "    candidates: {candidates}");
        }
    }
    let [a, b] = &it.sides;
    if are_equal(&a.seen, &b.seen) {
        out.push_str("\nState that both policies saw:\n");
        append_state(a, surface, out);
    } else {
        for (name, side) in diff.names.iter().zip(&it.sides) {
            let _ = writeln!(out, "\nState that {name} saw at {}:", format_time(side.seen.time));
            append_state(side, surface, out);
        }
    }
    for (name, side) in diff.names.iter().zip(&it.sides) {
        if !side.before.is_empty() {
            let _ = writeln!(out, "\nEarlier decisions of {name} about the same CPU or task:");
        }
        for located in &side.before {
            let _ = writeln!(
                out,
                "  {:>16}  {}",
                format_time(located.decision.time),
                describe_decision(located, &side.seen)
            );
        }
    }
    for (name, side) in diff.names.iter().zip(&it.sides) {
        if let Some(drawing) = &side.drawing {
            let _ = write!(out, "\n{name}\n{drawing}");
        }
    }
}

/// Returns whether two states are equal if times and waiting times are ignored.
fn are_equal(a: &Snapshot, b: &Snapshot) -> bool {
    let timeless = |seen: &Snapshot| {
        let mut seen = seen.clone();
        seen.time = 0;
        for task in seen.tasks.values_mut() {
            task.waiting_since = task.waiting_since.map(|_| 0);
        }
        seen
    };
    timeless(a) == timeless(b)
}

fn append_state(side: &Side, surface: Surface, out: &mut String) {
    let seen = &side.seen;
    let numbers = |of: &dyn Fn(&kernel::decision::CpuState) -> bool| {
        let cpus = seen
            .cpus
            .iter()
            .zip(0..)
            .filter(|(cpu, _)| of(cpu))
            .map(|(_, number)| number);
        format_ranges(&cpus.collect::<Vec<u32>>())
    };
    let _ = write!(out, "  idle CPUs: {}", numbers(&|cpu| cpu.idle));
    let claimed = numbers(&|cpu| !cpu.idle && cpu.online && cpu.curr == 0);
    if claimed != "none" {
        let _ = write!(out, "; claimed or about to run a task: {claimed}");
    }
    let running: Vec<(u32, u32)> = seen
        .cpus
        .iter()
        .zip(0..)
        .filter(|(cpu, _)| cpu.curr != 0)
        .map(|(cpu, n)| (n, cpu.curr))
        .collect();
    let running = match running.is_empty() {
        true => "nothing".to_owned(),
        false => list_names(&running, CPUS, |&(n, pid)| format!("CPU {n} {}", task_name(pid, seen))),
    };
    let _ = writeln!(out, "\n  running: {running}");
    for queue in seen.queues.iter().take(QUEUES) {
        let _ = writeln!(
            out,
            "  {}: {}",
            queue.name,
            list_names(&queue.tasks, IN_QUEUE, |&pid| task_name(pid, seen))
        );
    }
    if seen.queues.len() > QUEUES {
        let _ = writeln!(out, "  and {} more non-empty queues", seen.queues.len() - QUEUES);
    }
    append_tasks(side, surface, out);
}

/// Appends a table of tasks. The tasks that the decision is about come first. The waiting tasks
/// follow, in descending order of their waits.
fn append_tasks(side: &Side, surface: Surface, out: &mut String) {
    let seen = &side.seen;
    let about: Vec<u32> = match side.decision.as_ref().map(|located| located.decision.what) {
        Some(DecisionKind::Run { pid, prev }) => vec![pid, prev],
        Some(DecisionKind::Cpu { pid, .. } | DecisionKind::Insert { pid, .. } | DecisionKind::Take { pid, .. }) => {
            vec![pid]
        }
        Some(DecisionKind::Kick { .. }) | None => Vec::new(),
    };
    let mut others: Vec<(u64, u32)> = seen
        .tasks
        .iter()
        .map(|(&pid, task)| (task.waiting_since.unwrap_or(u64::MAX), pid))
        .collect();
    others.sort_unstable();
    let mut listed_pids = BTreeSet::new();
    let pids = about.into_iter().chain(others.iter().map(|&(_, pid)| pid));
    let order: Vec<u32> = pids
        .filter(|&pid| seen.tasks.contains_key(&pid) && listed_pids.insert(pid))
        .collect();
    if order.is_empty() {
        return;
    }
    let mut grid = Grid::new();
    grid.left("task", 0);
    for (head, rank) in [
        ("CPU", 1),
        ("weight", 5),
        ("slice", 4),
        ("vtime", 2),
        ("waited", 3),
        ("allowed CPUs", 6),
    ] {
        grid.right(head, rank);
    }
    for &pid in order.iter().take(TASKS) {
        let it = &seen.tasks[&pid];
        let waits = match it.waiting_since {
            Some(since) => format_time(seen.time.saturating_sub(since)),
            None if seen.cpus.get(it.cpu as usize).is_some_and(|cpu| cpu.curr == pid) => "runs".to_owned(),
            None => String::new(),
        };
        let cpus = it
            .cpus
            .as_ref()
            .map(|cpus| format_ranges(&cpus.iter().map(CpuId::nr).collect::<Vec<u32>>()));
        let slice = if it.slice == u64::MAX {
            "infinite".to_owned()
        } else {
            format_time(it.slice)
        };
        grid.row([
            task_name(pid, seen),
            it.cpu.to_string(),
            it.weight.to_string(),
            slice,
            it.vtime.to_string(),
            waits,
            cpus.unwrap_or_else(|| "all".to_owned()),
        ]);
    }
    // The table is indented by two columns.
    let width = surface.width.map(|width| width.saturating_sub(2));
    for line in grid.render(Surface { width, ..surface }).lines() {
        let _ = writeln!(out, "  {line}");
    }
    if order.len() > TASKS {
        let _ = writeln!(out, "  and {} more runnable tasks", order.len() - TASKS);
    }
}

/// Returns the difference as JSON, with times in ns.
pub fn json(diff: &Diff) -> Value {
    json!({
        "a": diff.names[0],
        "b": diff.names[1],
        "failures": { "a": diff.failures[0], "b": diff.failures[1] },
        "same": diff.same,
        "lag_ns": diff.lag,
        "interrupted": diff.interrupted,
        "first": diff.first.as_ref().map(divergence_json),
        "effect": diff.effect.as_ref().map(divergence_json),
    })
}

fn divergence_json(it: &Divergence) -> Value {
    json!({ "time_ns": it.time, "a": side_json(&it.sides[0]), "b": side_json(&it.sides[1]) })
}

fn side_json(side: &Side) -> Value {
    let decision_json = |located: &LocatedDecision| {
        json!({
            "time_ns": located.decision.time,
            "cpu": located.decision.cpu,
            "decision": describe_decision(located, &side.seen),
            "callback": located.decision.by.map(|(op, _)| op.name()),
            "place": located.source_line,
        })
    };
    let seen = &side.seen;
    let cpu = |cpu: &kernel::decision::CpuState| json!({ "curr": cpu.curr, "idle": cpu.idle, "online": cpu.online, "nr_running": cpu.nr_running });
    let queue =
        |queue: &kernel::decision::Queue| json!({ "queue": queue.name, "cpu": queue.cpu, "tasks": queue.tasks });
    let task = |(pid, task): (&u32, &kernel::decision::TaskState)| {
        json!({
            "pid": pid,
            "comm": task.comm,
            "cpu": task.cpu,
            "weight": task.weight,
            "slice_ns": task.slice,
            "vtime": task.vtime,
            "waiting_since_ns": task.waiting_since,
            "cpus": task.cpus.as_ref().map(|cpus| cpus.iter().map(CpuId::nr).collect::<Vec<u32>>()),
        })
    };
    json!({
        "decided": side.decision.as_ref().map(decision_json),
        "came": side.came.as_ref().map(decision_json),
        "candidates": list_candidates(side),
        "before": side.before.iter().map(decision_json).collect::<Vec<_>>(),
        "cpus": seen.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "queues": seen.queues.iter().map(queue).collect::<Vec<_>>(),
        "tasks": seen.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}
