// SPDX-License-Identifier: GPL-2.0-only
//! Explains why two runs of the same workload differ. One run is usually simulated. The other run
//! is live, that is, recorded on a real machine.
//!
//! [`Scan`] reads the records of one run and counts wake-ups, the ends of turns, and the lengths of
//! steps. A turn is the time from the switch to a task until the switch away from it. A step is a
//! part of the time of a task or CPU, for example a turn or a sleep. [`Why`] compares two such
//! counts, and [`text`] prints the comparison. It also compares the courses of tasks. The course of
//! a task is the list of what the task did: run, wake up, block and so on.
//!
//! Tasks are matched by name and number, not by time: the third task with the name `receiver` of
//! one run is the third `receiver` of the other. Tasks with the same name are a group and are
//! numbered by their pids. Tasks whose name exists in only one run are "other programs".
//!
//! A trace does not show whether a yield, a tick or the end of a slice ended a turn. They are
//! therefore counted as one reason.

mod compare;
mod lengths;
mod scan;
mod side;
mod text;

pub use compare::{Count, FirstDifference, Length, Part, Why};
pub use scan::Scan;
pub use side::{Overview, Side, Tally};
pub use text::text;

#[cfg(test)]
mod tests;
