// SPDX-License-Identifier: GPL-2.0-only
//! Draws the schedule as text, with one row per CPU and one column per step of time.
//!
//! A cell shows the task that used the CPU for the largest part of the step. If several tasks used
//! it for the same time, the first of them is shown. `.` marks an idle CPU and `x` an offline CPU.
//! Anything shorter than a step can be invisible. On request, a list with one line per switch
//! follows the drawing. The list contains every switch, so it is practical only for short windows
//! of time.

use crate::escape;
use crate::event::{Event, Record, Sink, TaskState};
use crate::label::Labels;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Maximum number of columns. It limits the memory of a drawing.
const COLUMNS_MAX: u64 = 20_000;
/// Maximum number of switches in the list.
const LIST_MAX: usize = 10_000;

const IDLE: u32 = 0;
const OFFLINE: u32 = u32::MAX;

/// The window of time to draw. Times are in ns since the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawOptions {
    pub from: u64,
    pub to: u64,
    /// Time per column in ns.
    pub step: u64,
    /// Number of characters per line. A window that is longer than a line continues below, in
    /// another band of rows.
    pub width: usize,
    /// Whether the switches are also listed.
    pub list: bool,
}

/// Reason why a window cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    #[error("the window to draw is empty: it goes from {from} ns to {to} ns")]
    Empty { from: u64, to: u64 },
    #[error(
        "the window to draw has {columns} columns, more than the maximum of {COLUMNS_MAX}; use a step of at least {step} ns"
    )]
    TooMany { columns: u64, step: u64 },
}

impl DrawOptions {
    /// Returns options for a window of about `columns` columns. The step is rounded up to 1, 2 or 5
    /// times a power of ten.
    pub fn columns(from: u64, to: u64, columns: u64) -> DrawOptions {
        let least = to.saturating_sub(from).div_ceil(columns.max(1));
        let mut unit = 1u64;
        while unit.saturating_mul(10) <= least {
            unit *= 10;
        }
        let step = [1, 2, 5, 10]
            .map(|m| unit.saturating_mul(m))
            .into_iter()
            .find(|&step| step >= least);
        DrawOptions {
            from,
            to,
            step: step.unwrap_or(unit),
            width: 100,
            list: false,
        }
    }
}

/// Drawing state of one CPU.
struct Row {
    /// Pid of the task that is running on the CPU.
    pid: u32,
    /// Time in ns up to which the columns are filled. It is at least the start of the window.
    since: u64,
    /// Time in ns that each task used within the column that is being filled.
    column: Vec<(u32, u64)>,
    /// Pid shown in each finished column.
    cells: Vec<u32>,
}

/// A switch, for the list.
struct Line {
    time: u64,
    cpu: u32,
    prev: u32,
    prev_state: TaskState,
    next: u32,
}

/// Draws one window of time. The memory needed depends on the window and the number of tasks.
pub struct Draw {
    options: DrawOptions,
    rows: Vec<Row>,
    comms: BTreeMap<u32, String>,
    list: Vec<Line>,
    unlisted: u64,
}

impl Draw {
    /// Returns a drawing of the machine's first `cpus` CPUs. Records of other CPUs are ignored.
    ///
    /// # Errors
    /// Fails if the window is empty or has too many columns.
    pub fn new(options: DrawOptions, cpus: usize) -> Result<Draw, DrawError> {
        let DrawOptions { from, to, step, .. } = options;
        if to <= from {
            return Err(DrawError::Empty { from, to });
        }
        let columns = (to - from).div_ceil(step.max(1));
        if columns > COLUMNS_MAX || step == 0 {
            return Err(DrawError::TooMany {
                columns,
                step: (to - from).div_ceil(COLUMNS_MAX),
            });
        }
        let row = || Row {
            pid: IDLE,
            since: from,
            column: Vec::new(),
            cells: Vec::new(),
        };
        let rows = (0..cpus).map(|_| row()).collect();
        Ok(Draw {
            options,
            rows,
            comms: BTreeMap::new(),
            list: Vec::new(),
            unlisted: 0,
        })
    }

    /// Finishes the drawing and returns its text. `end` is the time at which the run ended. From
    /// the last record to `end`, the CPUs are drawn in their last state.
    pub fn finish(mut self, end: u64) -> String {
        let end = end.min(self.options.to);
        for row in &mut self.rows {
            row.advance(end, &self.options);
            row.close_column();
        }
        let labels = Labels::new(&self.drawn_tasks());
        let mut out = String::new();
        let cell = if labels.width() == 1 { 1 } else { labels.width() + 1 };
        let columns = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let margin = self.rows.len().saturating_sub(1).to_string().len().max(3) + 2;
        let band = (self.options.width.saturating_sub(margin) / cell).max(1);
        let band = if band > 20 { band - band % 10 } else { band };
        for first in (0..columns).step_by(band) {
            self.axis(first, band.min(columns - first), cell, margin, &mut out);
            for (cpu, row) in self.rows.iter().enumerate() {
                let mut line = format!("{cpu:>width$}  ", width = margin - 2);
                for &pid in row.cells.iter().skip(first).take(band) {
                    let label = match pid {
                        IDLE => ".",
                        OFFLINE => "x",
                        pid => labels.get(pid),
                    };
                    let _ = write!(line, "{label:<cell$}");
                }
                let _ = writeln!(out, "{}", line.trim_end());
            }
            out.push('\n');
        }
        self.legend(&labels, &mut out);
        if self.options.list {
            out.push('\n');
            self.write_list(&mut out);
        }
        out
    }

    fn drawn_tasks(&self) -> BTreeMap<u32, String> {
        let drawn: BTreeSet<u32> = self.rows.iter().flat_map(|row| row.cells.iter().copied()).collect();
        let comm = |pid| {
            let comm = self.comms.get(&pid);
            comm.map_or_else(|| "task".to_owned(), |comm| escape::line(comm).into_owned())
        };
        drawn
            .into_iter()
            .filter(|&pid| pid != IDLE && pid != OFFLINE)
            .map(|pid| (pid, comm(pid)))
            .collect()
    }

    /// Writes the time axis, for example `cpu |0us |10us`. The marks are so far apart that their
    /// times fit between them.
    fn axis(&self, first: usize, columns: usize, cell: usize, margin: usize, out: &mut String) {
        let time = |column: usize| short_time(self.options.from + column as u64 * self.options.step);
        let longest = time(first).len().max(time(first + columns).len()) + 2;
        let every = [1, 2, 5, 10, 20, 50, 100]
            .into_iter()
            .find(|n| n * cell > longest)
            .unwrap_or(100);
        let mut line = format!("{:<margin$}", "cpu");
        for column in (first..first + columns).filter(|column| column % every == 0) {
            let at = margin + (column - first) * cell;
            // If there is no room for the time of a mark, the mark is left out. The line would wrap
            // otherwise.
            if at + 1 + time(column).len() > self.options.width && column > first {
                break;
            }
            line.extend(std::iter::repeat_n(' ', at.saturating_sub(line.len())));
            let _ = write!(line, "|{}", time(column));
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }

    /// Writes the legend: the length of a column, and the tasks to which the labels belong.
    fn legend(&self, labels: &Labels, out: &mut String) {
        let _ = write!(out, "one column = {}, . = idle", short_time(self.options.step));
        if self.rows.iter().any(|row| row.cells.contains(&OFFLINE)) {
            out.push_str(", x = offline");
        }
        out.push('\n');
        let mut line = String::new();
        for entry in labels.legend() {
            if !line.is_empty() && line.chars().count() + 2 + entry.chars().count() > self.options.width {
                let _ = writeln!(out, "{line}");
                line.clear();
            }
            if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(entry);
        }
        if !line.is_empty() {
            let _ = writeln!(out, "{line}");
        }
    }

    fn write_list(&self, out: &mut String) {
        let name = |pid: u32| match self.comms.get(&pid) {
            _ if pid == IDLE => "idle".to_owned(),
            Some(comm) => format!("{}:{pid}", escape::line(comm)),
            None => format!("task:{pid}"),
        };
        let _ = writeln!(out, "{:>16}  {:>3}  switch", "time us", "cpu");
        for line in &self.list {
            // The sched_switch tracepoint prints the same letters.
            let state = match line.prev_state {
                TaskState::Running => 'R',
                TaskState::Interruptible => 'S',
                TaskState::Uninterruptible => 'D',
                TaskState::Dead => 'X',
            };
            let time = format!("{}.{:03}", line.time / 1000, line.time % 1000);
            let (prev, next) = (name(line.prev), name(line.next));
            let _ = writeln!(out, "{time:>16}  {:>3}  {prev} {state} ==> {next}", line.cpu);
        }
        if self.unlisted > 0 {
            let _ = writeln!(
                out,
                "... and {} more switches; draw a shorter window to see them",
                self.unlisted
            );
        }
    }

    /// Changes the running task of a CPU at a time.
    fn set(&mut self, time: u64, cpu: u32, pid: u32) {
        let Some(row) = self.rows.get_mut(cpu as usize) else {
            return;
        };
        row.advance(time.min(self.options.to), &self.options);
        row.pid = pid;
    }
}

impl Row {
    /// Adds the time from `since` to `now` to the time of the running task.
    fn advance(&mut self, now: u64, options: &DrawOptions) {
        while self.since < now {
            let next = options.from + (self.cells.len() as u64 + 1).saturating_mul(options.step);
            let until = now.min(next);
            let ns = until - self.since;
            match self.column.iter_mut().find(|(pid, _)| *pid == self.pid) {
                Some((_, total)) => *total += ns,
                None => self.column.push((self.pid, ns)),
            }
            self.since = until;
            if until == next {
                self.close_column();
            }
        }
    }

    fn close_column(&mut self) {
        let most = self.column.iter().map(|&(_, ns)| ns).max();
        if let Some(&(pid, _)) = self.column.iter().find(|&&(_, ns)| Some(ns) == most) {
            self.cells.push(pid);
        }
        self.column.clear();
    }
}

impl Sink for Draw {
    fn take(&mut self, records: &[Record]) {
        for &Record {
            time, cpu, ref event, ..
        } in records
        {
            match *event {
                Event::TaskNew { pid, ref comm, .. } | Event::TaskRename { pid, ref comm } => {
                    self.comms.insert(pid, comm.clone());
                }
                Event::Switch { prev, prev_state, next } => {
                    self.set(time, cpu, next);
                    if self.options.list && (self.options.from..self.options.to).contains(&time) {
                        if self.list.len() < LIST_MAX {
                            self.list.push(Line {
                                time,
                                cpu,
                                prev,
                                prev_state,
                                next,
                            });
                        } else {
                            self.unlisted += 1;
                        }
                    }
                }
                Event::Hotplug { online } => self.set(time, cpu, if online { IDLE } else { OFFLINE }),
                _ => {}
            }
        }
    }
}

/// Formats a time in the largest unit that needs at most three decimals: `0`, `15us`, `1.5ms`,
/// `2s`.
fn short_time(ns: u64) -> String {
    for (unit, name) in [(1_000_000_000u64, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns >= unit && ns.is_multiple_of(unit / 1000) {
            let fraction = format!(".{:03}", ns % unit / (unit / 1000));
            return format!(
                "{}{}{name}",
                ns / unit,
                fraction.trim_end_matches('0').trim_end_matches('.')
            );
        }
    }
    if ns == 0 { "0".to_owned() } else { format!("{ns}ns") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_exact() {
        let times = [0, 7, 1_500, 15_000, 1_500_000, 1_234_567, 2_000_000_000, 1_000_000_001];
        let expected = [
            "0",
            "7ns",
            "1.5us",
            "15us",
            "1.5ms",
            "1234.567us",
            "2s",
            "1000000.001us",
        ];
        assert_eq!(times.map(short_time), expected);
    }

    #[test]
    fn steps_are_round() {
        let step = |to, columns| DrawOptions::columns(0, to, columns).step;
        assert_eq!(
            [step(100, 100), step(101, 100), step(1_000_000, 90), step(3, 1)],
            [1, 2, 20_000, 5]
        );
        assert_eq!([step(0, 0), step(600, 100)], [1, 10]);
    }

    #[test]
    fn impossible_windows_are_refused() {
        let options = |from, to, step| DrawOptions {
            from,
            to,
            step,
            width: 80,
            list: false,
        };
        assert_eq!(
            Draw::new(options(5, 5, 1), 1).err(),
            Some(DrawError::Empty { from: 5, to: 5 })
        );
        let error = DrawError::TooMany {
            columns: 1_000_000,
            step: 50,
        };
        assert_eq!(Draw::new(options(0, 1_000_000, 1), 1).err(), Some(error));
        assert!(Draw::new(options(0, 10, 0), 1).is_err());
        assert!(Draw::new(options(0, u64::MAX, u64::MAX), 1).is_ok());
    }

    #[test]
    fn the_list_reports_how_many_switches_it_omits() {
        let mut options = DrawOptions::columns(0, 1_000_000, 10);
        options.list = true;
        let mut draw = Draw::new(options, 1).unwrap();
        let event = Event::Switch {
            prev: 1,
            prev_state: TaskState::Running,
            next: 2,
        };
        for time in 0..LIST_MAX as u64 + 7 {
            draw.take(&[Record {
                time,
                cpu: 0,
                after: 0,
                event: event.clone(),
            }]);
        }
        let text = draw.finish(1_000_000);
        assert!(text.ends_with("... and 7 more switches; draw a shorter window to see them\n"));
        assert_eq!(text.matches("==>").count(), LIST_MAX);
    }
}
