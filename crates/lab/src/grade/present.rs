// SPDX-License-Identifier: GPL-2.0-only
//! Formats a graded submission as text and as JSON.

use super::{Graded, TaskFigures};
use report::layout::{Grid, Mark, Surface, Text};
use serde_json::{Value, json};
use std::fmt::Write;
use trace::escape;

/// Number of tasks that the turnaround table shows.
const MAX_TASKS: usize = 32;

/// Returns the points with the reasons, and the turnaround table.
pub fn text(graded: &Graded, surface: impl Into<Surface>) -> String {
    let surface = surface.into();
    let mut out = surface.line(
        &format!("{}: {}, {}", graded.lab, graded.title, escape::line(&graded.submission)),
        " ",
    );
    let mut grid = Grid::new();
    grid.left("item", 0);
    grid.left("what must hold", 0);
    grid.right("points", 0);
    for (item, number) in graded.items.iter().zip(1..) {
        let points = format!("{} of {}", item.points, item.of);
        let mark = if item.reasons.is_empty() {
            Mark::Plain
        } else {
            Mark::Failed
        };
        grid.row([
            Text::from(number.to_string()),
            item.about.as_str().into(),
            Text::new(&points, mark),
        ]);
    }
    grid.row(["", "sum", &format!("{} of {}", graded.points(), graded.of())]);
    out += &grid.render(surface);
    if let Some(reason) = &graded.unusable {
        let _ = write!(out, "\n0 points: {}\n", escape::text(reason).trim_end());
        return out;
    }
    if let Some(command) = &graded.compile
        && graded.items.iter().any(|item| item.command.is_some())
    {
        let _ = writeln!(out, "\nto compile it for the runs below: {command}");
    }
    for (item, number) in graded
        .items
        .iter()
        .zip(1..)
        .filter(|(item, _)| !item.reasons.is_empty())
    {
        let _ = writeln!(out, "\nitem {number}: {}", item.about);
        for reason in &item.reasons {
            out += &escape::text(&surface.line(&format!("  {reason}"), " "));
        }
        if let Some(hint) = &item.hint {
            out += &surface.line(&format!("  hint: {hint}"), " ");
        }
        if let Some(command) = &item.command {
            let _ = writeln!(out, "  to see the run: {command}");
        }
    }
    match &graded.turnaround {
        Some(Ok(workload)) => {
            let _ = writeln!(out, "\nturnaround of the tasks of {workload}");
            out += &table(&graded.tasks, surface);
        }
        Some(Err(reason)) => {
            let _ = writeln!(
                out,
                "\nthere is no turnaround table: {}",
                escape::text(reason).trim_end()
            );
        }
        None => {}
    }
    out
}

fn table(tasks: &[TaskFigures], surface: Surface) -> String {
    let mut grid = Grid::new();
    grid.left("task", 0);
    grid.right("arrival", 3);
    grid.right("response", 2);
    grid.right("CPU time", 4);
    grid.right("waits", 1);
    grid.right("turns", 5);
    grid.right("turnaround", 0);
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), report::time);
    for task in tasks.iter().take(MAX_TASKS) {
        grid.row([
            task.comm.clone(),
            time(task.arrived),
            time(task.response_ns()),
            time(Some(task.cpu_ns)),
            time(Some(task.waited_ns)),
            task.turns().to_string(),
            time(task.turnaround_ns()),
        ]);
    }
    let mut out = grid.render(surface);
    if tasks.len() > MAX_TASKS {
        let _ = writeln!(out, "and {} more tasks", tasks.len() - MAX_TASKS);
    }
    out
}

/// Returns the grades as JSON, with times in ns.
pub fn json(graded: &Graded) -> Value {
    let items = graded.items.iter().map(|item| {
        json!({
            "about": item.about,
            "points": item.points,
            "of": item.of,
            "reasons": item.reasons,
            "hint": item.hint,
            "command": item.command,
        })
    });
    let tasks = graded.tasks.iter().map(|task| {
        json!({
            "task": task.comm,
            "arrival_ns": task.arrived,
            "response_ns": task.response_ns(),
            "cpu_ns": task.cpu_ns,
            "waited_ns": task.waited_ns,
            "turns": task.turns(),
            "turnaround_ns": task.turnaround_ns(),
        })
    });
    json!({
        "lab": graded.lab,
        "title": graded.title,
        "submission": graded.submission,
        "compile": graded.compile,
        "points": graded.points(),
        "of": graded.of(),
        "unusable": graded.unusable,
        "items": items.collect::<Vec<_>>(),
        "tasks": tasks.collect::<Vec<_>>(),
    })
}
