// SPDX-License-Identifier: GPL-2.0-only
//! Prints the differences between a simulated and a live run.

use super::compare::{Count, Length, Part, Why};
use crate::layout::{Grid, Surface};
use crate::units;
use trace::escape;

/// Number of rows of each table of differences.
const ROWS: usize = 10;
/// Maximum numbers of characters of an event's description and of a step's description. Within
/// these limits, no line has more than 100 characters.
const EVENT_WIDTH: usize = 52;
const LENGTH_WIDTH: usize = 36;

/// Formats a comparison as text with lines of at most 100 characters. Only the largest differences
/// of each kind are printed.
pub fn text(why: &Why, surface: impl Into<Surface>) -> String {
    let mut surface = surface.into();
    surface.width = Some(surface.width.unwrap_or(100).min(100));
    let mut out = surface.line(&first_lines(why), " ");
    out += &section("Time of the run per CPU, by what used it", &budget(why), surface);
    out += &surface.line(&first(why), " ");
    out += "\n";
    out += &section(
        "Lengths of steps, largest difference of the sums first",
        &lengths(&why.lengths),
        surface,
    );
    out += &section("Ends of turns", &counts(&why.ends), surface);
    out += &section("Wake-ups", &counts(&why.wakeups), surface);
    out
}

fn section(title: &str, grid: &Grid, surface: Surface) -> String {
    match grid.is_empty() {
        true => String::new(),
        false => format!("{title}:\n{}\n", grid.render(surface)),
    }
}

fn first_lines(why: &Why) -> String {
    let (simulated, live) = (why.simulated, why.live);
    let mut text = format!(
        "The simulated run takes {}, the live run {}. {} and {} switches, {} and {} operations.",
        units::time(simulated.run_ns),
        units::time(live.run_ns),
        simulated.switches,
        live.switches,
        simulated.operations,
        live.operations
    );
    if simulated.overhead_ns > 0 {
        text += &format!(
            " The simulated kernel and policy take {} of the simulated time.",
            units::time(simulated.overhead_ns)
        );
    }
    if live.recording_ns > 0 {
        text += &format!(
            " Recording {} events takes {} of the live time and is part of no other figure.",
            live.events,
            units::time(live.recording_ns)
        );
    }
    text
}

fn first(why: &Why) -> String {
    let counted = format!(
        "{} of {} tasks do the same on both sides.",
        why.equal_tasks, why.matched_tasks
    );
    let Some(first) = &why.first else {
        return counted;
    };
    format!(
        "First difference in the course of a task: the simulated task '{}' {} at {}, the live one {} at {} (step {}). {counted}",
        escape::line(&first.task),
        escape::line(&first.simulated),
        units::time(first.simulated_ns),
        escape::line(&first.live),
        units::time(first.live_ns),
        first.step
    )
}

fn difference(simulated: u64, live: u64) -> String {
    let sign = if simulated < live { '-' } else { '+' };
    format!("{sign}{}", ms(simulated.abs_diff(live)))
}

/// Formats a time in ms with two decimals.
fn ms(ns: u64) -> String {
    let hundredths = ns / 10_000 + u64::from(ns % 10_000 >= 5_000);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Formats a time in us with one decimal.
fn us(ns: u64) -> String {
    let tenths = ns / 100 + u64::from(ns % 100 >= 50);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Formats a time in us with one decimal, or without decimals if it is 100 us or more.
fn short(ns: u64) -> String {
    match ns {
        0..100_000 => us(ns),
        _ => (ns / 1000).to_string(),
    }
}

fn mean(sum: u64, count: u64) -> String {
    sum.checked_div(count).map_or_else(|| "-".to_owned(), us)
}

fn budget(why: &Why) -> Grid {
    let mut grid = Grid::new();
    grid.left("", 0);
    for head in ["simulated,\nms", "live,\nms", "difference,\nms"] {
        grid.right(head, 0);
    }
    for head in [
        "turns\nsimulated",
        "turns\nlive",
        "mean turn\nsim., us",
        "mean turn\nlive, us",
    ] {
        grid.right(head, 1);
    }
    let row = |part: &Part| {
        let count = |turns: u64| if turns == 0 { String::new() } else { turns.to_string() };
        let turn = |ns: u64, cpus: u64, turns: u64| match turns {
            0 => String::new(),
            turns => mean(ns.saturating_mul(cpus), turns),
        };
        [
            escape::line(&part.name).into_owned(),
            ms(part.simulated_ns),
            ms(part.live_ns),
            difference(part.simulated_ns, part.live_ns),
            count(part.simulated_turns),
            count(part.live_turns),
            turn(part.simulated_ns, why.simulated.cpus, part.simulated_turns),
            turn(part.live_ns, why.live.cpus, part.live_turns),
        ]
    };
    why.budget.iter().for_each(|part| grid.row(row(part)));
    let all = Part {
        name: "all".to_owned(),
        simulated_ns: why.simulated.run_ns,
        live_ns: why.live.run_ns,
        simulated_turns: 0,
        live_turns: 0,
    };
    grid.row(row(&all));
    grid
}

fn lengths(lengths: &[Length]) -> Grid {
    let mut grid = Grid::new();
    grid.left("simulated / live", 0);
    for head in ["count", "p50, us", "p99, us", "sum, ms"] {
        grid.right(head, 0);
    }
    for length in lengths.iter().take(2 * ROWS) {
        let name = match length.group.as_str() {
            "idle" => length.step.words().to_owned(),
            group => format!("{}: {}", escape::line(group), length.step.words()),
        };
        let (a, b) = (length.simulated, length.live);
        let pair = |a: u64, b: u64| format!("{} / {}", short(a), short(b));
        grid.row([
            cut(&name, LENGTH_WIDTH),
            format!("{} / {}", a.count, b.count),
            pair(a.p50_ns, b.p50_ns),
            pair(a.p99_ns, b.p99_ns),
            pair(a.sum_ns / 1000, b.sum_ns / 1000),
        ]);
    }
    grid
}

fn counts(counts: &[Count]) -> Grid {
    let mut grid = Grid::new();
    grid.left("", 0);
    for head in ["simulated", "live", "first,\nsimulated", "first,\nlive"] {
        grid.right(head, 0);
    }
    for count in counts.iter().take(ROWS) {
        let first = |at: Option<u64>| at.map_or_else(String::new, units::time);
        grid.row([
            cut(&escape::line(&count.event), EVENT_WIDTH),
            count.simulated.count.to_string(),
            count.live.count.to_string(),
            first(count.simulated.first_ns),
            first(count.live.first_ns),
        ]);
    }
    grid
}

/// Shortens a text to at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() <= width {
        true => text.to_owned(),
        false => text.chars().take(width - 3).chain("...".chars()).collect(),
    }
}
