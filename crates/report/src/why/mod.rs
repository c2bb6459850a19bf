// SPDX-License-Identifier: GPL-2.0-only
//! Explains why two runs of the same workload differ, for example a simulated and a recorded one.
//!
//! [`Scan`] reads the records of one run and counts wake-ups, the ends of turns, and the lengths of
//! steps. A turn is the time from the switch to a task until the switch away from it. [`Why`]
//! compares two such counts, and [`text`] prints the comparison.
//!
//! Tasks are matched by name and number, not by time: the third task with the name `receiver` of
//! one run is the third `receiver` of the other. Tasks with the same name are a group and are
//! numbered by their pids. Tasks whose name exists in only one run are "other programs".
//!
//! A trace does not contain yields, ticks and the ends of slices. They are therefore one reason.

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
