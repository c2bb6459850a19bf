// SPDX-License-Identifier: GPL-2.0-only
//! Data about tasks that wait when the run ends: for a CPU, or in a deadlock.

use crate::sched::state::task::Task;

/// A runnable task that waits for a CPU.
#[derive(Clone, Copy)]
pub struct WaitingTask<'a> {
    pub task: &'a Task,
    /// Time at which the wait began, ns since the start of the run.
    pub since_ns: u64,
    /// Whether the task has run since it was created.
    pub has_run: bool,
    /// Sum of the times during which an idle CPU could have run a waiting task since the wait
    /// began, over all CPUs, ns.
    pub idle_ns: u64,
    /// Description of the queue that contains the task. It is present only for the tasks that have
    /// waited longest.
    pub kept: Option<&'a str>,
}

/// A task of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedTask {
    pub pid: u32,
    pub comm: String,
    /// What the task waits for, for example `mutex m, which b[2] holds`.
    pub waits_for: String,
}

/// Number of waiting tasks that get a description of their queue.
pub(crate) const DESCRIBED: usize = 3;
