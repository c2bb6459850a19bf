// SPDX-License-Identifier: GPL-2.0-only
//! Data about a task that waits for a CPU when the run ends.

/// A runnable task that waits for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    pub pid: u32,
    pub comm: String,
    /// Time at which the wait began, ns since the start of the run.
    pub since_ns: u64,
    /// Description of the queue that contains the task. It is present only for the tasks that have
    /// waited longest.
    pub kept: Option<String>,
}

/// Number of waiting tasks that get a description of their queue.
pub(crate) const DESCRIBED: usize = 3;
