// SPDX-License-Identifier: GPL-2.0-only
//! Renders the state of a running simulation as rows of text for a terminal.

use crate::command::terminal::{Ink, Line};
use crate::top::{Cpu, View};

/// Width of the bar that shows how busy a CPU is, in characters.
const BAR: usize = 20;
/// Width of the area for one CPU, in characters.
const CELL: usize = 52;
/// Minimum number of rows for queues and tasks.
const LOWER: usize = 6;

/// Title of the screen, and how fast it shows the simulation.
pub struct Status<'a> {
    pub title: &'a str,
    /// Simulated seconds per second.
    pub speed: f64,
    pub paused: bool,
    /// Whether the simulation is too slow for the requested `speed`.
    pub behind: bool,
}

/// Returns the rows of the whole screen. The screen has `width` columns and `height` rows.
pub fn lines(view: &View, status: &Status, width: usize, height: usize) -> Vec<Line> {
    let done = (view.at as f64 / view.until.max(1) as f64).clamp(0.0, 1.0);
    let time = format!("{:.1} of {:.1} ms ", view.at as f64 / 1e6, view.until as f64 / 1e6);
    let room = width.saturating_sub(time.len());
    let mut time = Line::new(Ink::Plain, time);
    time.push(
        Ink::Green,
        "=".repeat(input::to_usize(report::rounded((done * room as f64).floor()))),
    );
    let mut lines = vec![
        Line::new(Ink::Bold, status.title),
        time,
        Line::new(
            Ink::Plain,
            format!(
                "{} tasks, {} waiting   busy {:.1} %, overhead {:.2} %",
                view.nr_tasks, view.waiting, view.busy_percent, view.overhead_percent
            ),
        ),
        Line::new(
            Ink::Plain,
            format!(
                "switches {:.0}/s   wake-ups {:.0}/s   migrations {:.0}/s   operations {:.0}/s",
                view.switches, view.wakeups, view.migrations, view.operations
            ),
        ),
        Line::new(Ink::Bold, " CPU busy (#: overhead)        %  waiting  runs"),
    ];
    let used = lines.len() + 2;
    cpus(view, width, height.saturating_sub(used + LOWER), &mut lines);
    let half = (2 * width / 5).max(30);
    let mut head = Line::new(Ink::Bold, "  tasks  queue");
    head.at(
        half,
        Ink::Bold,
        format!("{:<20} {:>4} {:>6} {:>10}", "task", "CPU", "CPU %", "waited ms"),
    );
    lines.push(head);
    let rows = height.saturating_sub(lines.len() + 1);
    let mut left = queues_and_counters(view, rows).into_iter();
    for row in 0..rows {
        let mut line = Line::default();
        if let Some((ink, text)) = left.next() {
            let text: String = text.chars().take(half.saturating_sub(1)).collect();
            line = Line::new(ink, text);
        }
        if let Some(task) = view.tasks.get(row) {
            let waits = task
                .waits
                .map(|ns| format!("{:.3}", ns as f64 / 1e6))
                .unwrap_or_default();
            let text = format!(
                "{:<20} {:>4} {:>6.1} {waits:>10}",
                task.name, task.cpu, task.cpu_percent
            );
            line.at(half, Ink::Plain, text);
        }
        lines.push(line);
    }
    let state = match (view.ended, status.paused, status.behind) {
        (true, ..) => "finished",
        (_, true, _) => "paused",
        (.., true) => "at full speed",
        _ => "",
    };
    lines.truncate(height.saturating_sub(1));
    let keys = format!(
        "q quit   space pause   + - speed ({} simulated s per s)   {state}",
        status.speed
    );
    lines.push(Line::new(Ink::Bold, keys));
    lines
}

/// Returns the rows of the left column: the longest queues, then the numbers that the policy changes
/// fastest. The queues have at most half of the rows if there are such numbers.
fn queues_and_counters(view: &View, rows: usize) -> Vec<(Ink, String)> {
    let room = if view.counters.is_empty() { rows } else { rows / 2 };
    let queues = view.queues.iter().take(room);
    let mut left: Vec<_> = queues
        .map(|(name, length)| (Ink::Plain, format!("{length:>7}  {name}")))
        .collect();
    if !view.counters.is_empty() && rows > 1 {
        left.push((Ink::Bold, "  per s  counter".to_owned()));
    }
    left.extend(
        view.fastest_counters()
            .into_iter()
            .map(|(name, value, rate)| (Ink::Plain, format!("{rate:>7.0}  {name} = {value}"))),
    );
    left
}

/// Appends the CPUs column by column. If the screen is too small for all of them, also appends how
/// many are not shown.
fn cpus(view: &View, width: usize, most: usize, lines: &mut Vec<Line>) {
    let columns = (width / CELL).max(1);
    let rows = view.cpus.len().div_ceil(columns).min(most.max(1));
    for row in 0..rows {
        let mut line = Line::default();
        for column in 0..columns {
            let index = column * rows + row;
            if let Some(cpu) = view.cpus.get(index) {
                bar(column * CELL, index, cpu, &mut line);
            }
        }
        lines.push(line);
    }
    let hidden = view.cpus.len().saturating_sub(rows * columns);
    if hidden > 0 {
        lines.push(Line::new(Ink::Plain, format!("     and {hidden} more CPUs")));
    }
}

fn bar(column: usize, index: usize, cpu: &Cpu, line: &mut Line) {
    let cells = |percent: f64| input::to_usize(report::rounded(percent * BAR as f64 / 100.0)).min(BAR);
    let busy = cells(cpu.busy_percent);
    let overhead = cells(cpu.overhead_percent).min(busy);
    let runs = match &cpu.runs {
        _ if !cpu.online => "offline",
        Some(task) => task,
        None => "idle",
    };
    line.at(column, Ink::Plain, format!("{index:>4} "));
    line.push(Ink::Red, "#".repeat(overhead));
    line.push(Ink::Green, "|".repeat(busy - overhead));
    let runs: String = runs.chars().take(15).collect();
    let rest = format!("{:>3.0} % {:>4}  {runs}", cpu.busy_percent, cpu.waiting);
    line.at(column + 5 + BAR + 1, Ink::Plain, rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::Task;

    fn screen(width: usize, height: usize, cpus: usize) -> Vec<String> {
        let cpu = Cpu {
            online: true,
            busy_percent: 50.0,
            overhead_percent: 10.0,
            runs: Some("loop:7".into()),
            waiting: 3,
        };
        let task = Task {
            name: "loop:7".into(),
            cpu: 2,
            cpu_percent: 33.3,
            waits: Some(1_500_000),
        };
        let view = View {
            at: 250_000_000,
            until: 1_000_000_000,
            cpus: vec![cpu; cpus],
            queues: vec![("DSQ 0x0".into(), 12)],
            tasks: vec![task],
            counters: vec![("nr_slow".into(), 7, 0.0), ("nr_stolen".into(), 1234, 56.7)],
            ..View::default()
        };
        let status = Status {
            title: "fifo on smp4",
            speed: 0.5,
            paused: true,
            behind: false,
        };
        let lines = lines(&view, &status, width, height);
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn the_screen_shows_cpus_queues_and_tasks() {
        let text = screen(110, 24, 4).join("\n");
        for part in [
            "fifo on smp4",
            "250.0 of 1000.0 ms =====",
            "   3 ##||||||||            50 %    3  loop:7",
            "     12  DSQ 0x0",
            "  per s  counter",
            "     57  nr_stolen = 1234",
            "loop:7                  2   33.3      1.500",
            "0.5 simulated s per s",
            "paused",
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
    }

    #[test]
    fn every_screen_size_is_filled_and_not_exceeded() {
        for (width, height) in [(1, 1), (20, 5), (60, 12), (300, 80)] {
            let lines = screen(width, height, 512);
            assert!(lines.len() <= height, "{width}x{height}: {}", lines.len());
            assert!(
                height < 12
                    || lines
                        .iter()
                        .any(|line| line.contains("more CPUs") || line.contains("511 "))
            );
        }
    }
}
