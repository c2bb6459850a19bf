// SPDX-License-Identifier: GPL-2.0-only
//! Explains why a task waited for a CPU, from the records of a run or of a recording.
//!
//! A wait begins when a task becomes runnable, or loses its CPU while it is runnable, and ends when
//! a CPU switches to the task. The records are read twice: [`Find`] finds the waits that a user
//! asks for, and [`Story`] collects what happened before and during one of them. All times are
//! [`Record::time`](trace::Record::time), in ns.

mod find;
mod story;
mod text;

pub use find::{Find, NoWait, Wanted};
pub use story::{End, Idle, Move, Story, Turn};
pub use text::{Notes, headline, json, named, parts, text};

/// A wait of a task for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub pid: u32,
    pub comm: String,
    pub begin: u64,
    /// `None` if the task still waits at the end of the records.
    pub end: Option<u64>,
    pub cause: Cause,
}

/// Reason why a wait begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Task `waker` woke the task on `cpu`. `waker` is 0 if an interrupt woke it.
    Woken { waker: u32, cpu: u32 },
    /// The task is new.
    New,
    /// The task lost `cpu` while it was runnable.
    Preempted { cpu: u32 },
}

impl Wait {
    /// Returns the length of the wait. `last` is the time of the last record.
    pub fn ns(&self, last: u64) -> u64 {
        self.end.unwrap_or(last).saturating_sub(self.begin)
    }
}

#[cfg(test)]
mod tests;
