// SPDX-License-Identifier: GPL-2.0-only
//! Defines what a figure of a run's result is: its meaning, its unit, its value, and the tables and
//! lists that show it.
//!
//! The list of all figures is [`crate::FIGURES`].

use crate::figures::RunResult;
use crate::score::Better;
use crate::units;

/// Divisors that convert nanoseconds into larger units.
pub const US: f64 = 1e3;
pub const MS: f64 = 1e6;
pub const S: f64 = 1e9;

/// Unit of a figure. The unit determines how a value is formatted and how a change is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The workload's score. The result names its unit.
    Score,
    /// Length of one time span in ns. A change makes it "longer" or "shorter".
    Duration,
    /// Sum of times in ns. A change makes it "more" or "less".
    TotalTime,
    Count,
    Percent,
    /// A number between 0 and 1.
    Index,
}

/// A field of a result: its JSON key, and the kinds of runs that have a value for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub key: &'static str,
    pub known: Known,
}

/// The kinds of runs that have a value for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Simulated runs and runs on a real machine.
    Always,
    /// Only simulated runs, because a real machine does not measure this.
    Simulated,
}

/// A column of the table that `windtunnel run` prints.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading, which may contain line breaks.
    pub head: &'static str,
    /// Order in which columns are left out on a narrow terminal: those with the highest rank first
    /// ([`crate::layout::Grid`]).
    pub rank: usize,
}

/// A line in the details of a result.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub label: &'static str,
    /// Returns the text, or `None` if the line must be left out. If there is no function, the line
    /// shows the figure's value.
    text: Option<fn(&RunResult) -> Option<String>>,
}

/// Name of a figure in a list that shows it in another unit than its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    pub name: &'static str,
    /// Divisor that converts the value into the unit that is shown.
    pub scale: f64,
}

/// A row of [`crate::FIGURES`]. Each `Option` is for one table or list that can show the figure.
/// `None` means that it does not show this figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Meaning of the figure as a noun phrase, for lists and sentences.
    pub about: &'static str,
    pub unit: Unit,
    /// Whether higher or lower values are better, or `None` if neither are. For the score, each
    /// result says which values are better.
    pub better: Option<Better>,
    /// Returns the value, or `None` if the run has no value for this figure.
    pub value: fn(&RunResult) -> Option<f64>,
    /// Column in the run table and in the page's summary.
    pub table: Option<Column>,
    /// Line in the details of a result.
    pub details: Option<Line>,
    /// Name in the rows, the verdict and `--fail-if` of `windtunnel compare`.
    pub compare: Option<&'static str>,
    /// Name as a measure in experiments.
    pub measure: Option<Scaled>,
    /// Label in `windtunnel live compare`. The units of the result replace `{score unit}` and
    /// `{operations}`.
    pub live: Option<Scaled>,
}

/// Every figure is a row of one static table. Two figures are therefore equal if their addresses
/// are equal.
impl PartialEq for Figure {
    fn eq(&self, other: &Figure) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Figure {
    /// Returns a figure that no table or list shows yet.
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

    /// Declares that lower values are better.
    pub(crate) const fn lower(mut self) -> Figure {
        self.better = Some(Better::Lower);
        self
    }

    /// Shows the value as a column of the run table.
    pub(crate) const fn table(mut self, head: &'static str, rank: usize) -> Figure {
        self.table = Some(Column { head, rank });
        self
    }

    /// Shows the value as a line of the details.
    pub(crate) const fn details(mut self, label: &'static str) -> Figure {
        self.details = Some(Line { label, text: None });
        self
    }

    /// Shows the result of `text` as a line of the details.
    pub(crate) const fn details_as(mut self, label: &'static str, text: fn(&RunResult) -> Option<String>) -> Figure {
        self.details = Some(Line {
            label,
            text: Some(text),
        });
        self
    }

    /// Shows the value in `windtunnel compare`.
    pub(crate) const fn compare(mut self, name: &'static str) -> Figure {
        self.compare = Some(name);
        self
    }

    /// Makes the value a measure of experiments.
    pub(crate) const fn measure(mut self, name: &'static str, scale: f64) -> Figure {
        self.measure = Some(Scaled { name, scale });
        self
    }

    /// Shows the value in `windtunnel live compare`.
    pub(crate) const fn live(mut self, name: &'static str, scale: f64) -> Figure {
        self.live = Some(Scaled { name, scale });
        self
    }

    /// Returns whether the value grows with the length of the run and the number of CPUs.
    pub fn is_total(&self) -> bool {
        matches!(self.unit, Unit::Count | Unit::TotalTime)
    }

    /// Returns the label and the text of the figure's line in the details of a result.
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
    /// Returns the function that formats a value for a table whose heading contains the unit.
    pub(crate) fn cell(self) -> fn(f64) -> String {
        match self {
            Unit::Duration | Unit::TotalTime => |ns| units::time(units::rounded(ns.trunc())),
            Unit::Score | Unit::Count => |n| units::tenths(units::rounded(n * 10.0)),
            Unit::Percent => units::percent,
            Unit::Index => |index| format!("{index:.4}"),
        }
    }

    /// Formats a value with its unit.
    fn phrase(self, value: f64) -> String {
        let text = self.cell()(value);
        match self {
            Unit::Percent => text + " %",
            _ => text,
        }
    }
}
