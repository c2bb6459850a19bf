// SPDX-License-Identifier: GPL-2.0-only
//! A task that waits at the end of a run.

/// A runnable task without a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    pub pid: u32,
    pub comm: String,
    /// When the wait began, ns since the run's start.
    pub since_ns: u64,
    /// The queue that keeps it, in words; only of the longest waits.
    pub kept: Option<String>,
}

/// Waits that are described in full.
pub(super) const DESCRIBED: usize = 3;
