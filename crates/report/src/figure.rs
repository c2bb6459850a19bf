// SPDX-License-Identifier: GPL-2.0-only
//! One figure of a run's result: its meaning, unit, value, and the places that show it.
//!
//! The table of all figures is [`crate::FIGURES`].

use crate::figures::RunResult;
use crate::score::Better;
use crate::units;

/// The number that makes a value of the next larger unit out of nanoseconds.
pub const US: f64 = 1e3;
pub const MS: f64 = 1e6;
pub const S: f64 = 1e9;

/// What a figure counts. The unit decides how a value is written and which changes of it can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The workload's result in the unit that the result names.
    Score,
    /// Length of one thing, ns: "longer" and "shorter" fit.
    Duration,
    /// Sum of times, ns: "more" and "less" fit.
    TotalTime,
    Count,
    Percent,
    /// A number between 0 and 1.
    Index,
}

/// A result's field: its key in the JSON, and whether a run on a real machine fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub key: &'static str,
    pub known: Known,
}

/// The runs that a field is known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Simulated runs and runs on a real machine.
    Always,
    /// Simulated runs only: a real machine does not count it.
    Simulated,
}

/// The heading of a column of the run table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading, with line breaks.
    pub head: &'static str,
    /// Columns with the highest rank are left out first on a narrow terminal ([`crate::fit::Grid`]).
    pub rank: usize,
}

/// A line of a result's details.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub label: &'static str,
    /// Returns the text, or `None` if the line has nothing to say.
    text: Option<fn(&RunResult) -> Option<String>>,
}

/// A name for the figure in units of `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    pub name: &'static str,
    /// The value is divided by this.
    pub scale: f64,
}

/// One row of [`crate::FIGURES`]. A place that is `None` does not show the figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The meaning as a noun phrase, for lists and sentences.
    pub about: &'static str,
    pub unit: Unit,
    /// Which value is the better one; `None` if neither is by itself. A score's direction is in the result.
    pub better: Option<Better>,
    /// The value; `None` if the run has none.
    pub value: fn(&RunResult) -> Option<f64>,
    /// The column of the run table and of the page's summary.
    pub table: Option<Column>,
    pub details: Option<Line>,
    /// The name in `windtunnel compare`: rows, verdict, `--fail-if`.
    pub compare: Option<&'static str>,
    /// The name of the measure in experiments.
    pub measure: Option<Scaled>,
    /// The label in `windtunnel live compare`; `{score unit}` and `{operations}` stand for the result's words.
    pub live: Option<Scaled>,
}

/// Figures are rows of one table, so a figure equals only itself.
impl PartialEq for Figure {
    fn eq(&self, other: &Figure) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Figure {
    /// A figure that no place shows yet.
    pub(crate) const fn new(about: &'static str, unit: Unit, value: fn(&RunResult) -> Option<f64>) -> Figure {
        Figure {
            about,
            unit,
            better: None,
            value,
            table: None,
            details: None,
            compare: None,
            measure: None,
            live: None,
        }
    }

    /// A lower value is the better one.
    pub(crate) const fn lower(mut self) -> Figure {
        self.better = Some(Better::Lower);
        self
    }

    pub(crate) const fn table(mut self, head: &'static str, rank: usize) -> Figure {
        self.table = Some(Column { head, rank });
        self
    }

    /// Shows the value in the details.
    pub(crate) const fn details(mut self, label: &'static str) -> Figure {
        self.details = Some(Line { label, text: None });
        self
    }

    /// Shows `text` in the details.
    pub(crate) const fn details_as(mut self, label: &'static str, text: fn(&RunResult) -> Option<String>) -> Figure {
        self.details = Some(Line {
            label,
            text: Some(text),
        });
        self
    }

    pub(crate) const fn compare(mut self, name: &'static str) -> Figure {
        self.compare = Some(name);
        self
    }

    pub(crate) const fn measure(mut self, name: &'static str, scale: f64) -> Figure {
        self.measure = Some(Scaled { name, scale });
        self
    }

    pub(crate) const fn live(mut self, name: &'static str, scale: f64) -> Figure {
        self.live = Some(Scaled { name, scale });
        self
    }

    /// Whether the value grows with the run and with the number of CPUs.
    pub fn is_total(&self) -> bool {
        matches!(self.unit, Unit::Count | Unit::TotalTime)
    }

    /// Returns the label and the text of the figure's line in the details.
    pub(crate) fn line(&self, result: &RunResult) -> Option<(&'static str, String)> {
        let line = self.details?;
        let text = match line.text {
            Some(text) => text(result)?,
            None => self.unit.phrase((self.value)(result)?),
        };
        Some((line.label, text))
    }
}

impl Unit {
    /// Returns how a table writes a value below a heading that names the unit.
    pub(crate) fn cell(self) -> fn(f64) -> String {
        match self {
            Unit::Duration | Unit::TotalTime => |ns| units::time(ns as u64),
            Unit::Score | Unit::Count => |n| units::tenths((n * 10.0).round() as u64),
            Unit::Percent => units::percent,
            Unit::Index => |index| format!("{index:.4}"),
        }
    }

    /// Returns a value with its unit.
    fn phrase(self, value: f64) -> String {
        let text = self.cell()(value);
        match self {
            Unit::Percent => text + " %",
            _ => text,
        }
    }
}
