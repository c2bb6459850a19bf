// SPDX-License-Identifier: GPL-2.0-only
//! A task that waits at the end of a run.

/// A runnable task that waits for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    pub pid: u32,
    pub comm: String,
    /// Start of the wait, ns since the run's start.
    pub since_ns: u64,
    /// Description of the queue that contains the task; only for the longest waits.
    pub kept: Option<String>,
}

/// Number of waits that get a description.
pub(super) const DESCRIBED: usize = 3;
