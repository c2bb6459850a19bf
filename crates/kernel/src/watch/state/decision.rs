// SPDX-License-Identifier: GPL-2.0-only
//! A log of all scheduling decisions, which is used to find the first difference between two runs.
//! Recording does not affect the run.
//!
//! A decision is something that another policy could have done differently. There are five kinds:
//!
//! - The CPU for a woken task is chosen.
//! - A task is inserted into a DSQ, with a slice and a position.
//! - A CPU takes a task from a DSQ.
//! - A CPU switches to another task.
//! - A CPU is kicked.
//!
//! Each entry contains the callback and the instruction that made the decision. For one decision,
//! which the user selects by its number, the machine also takes a snapshot of its state at the
//! start of the handler that made the decision.
//!
//! Direct writes to fields of a task are not recorded, for example `slice = 0` in ops.tick(). Their
//! effect is visible in the task that runs next.

use crate::layout::callbacks::Callback;
pub use crate::watch::state::decision::snapshot::{CpuState, Queue, Snapshot, TaskState};
pub(crate) use crate::watch::state::observed::Handler;
pub use crate::watch::state::observed::{DecisionKind, Target};

mod snapshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Number of the decision in the run, from 0.
    pub number: u64,
    /// Time since the run's start, ns.
    pub time: u64,
    /// CPU that executed the code.
    pub cpu: u32,
    pub what: DecisionKind,
    /// Callback that made the decision, and the index of its most recent call instruction. `None`
    /// if the kernel decided without the policy.
    pub by: Option<(Callback, usize)>,
}

/// The machine takes snapshots as soon as the selected decision is at most this number of decisions
/// away. A snapshot is taken at the start of a handler. At this time, it is not known in which
/// handler the selected decision will be made: a handler can make several decisions, and other
/// handlers can be nested in it.
pub(crate) const EARLY: u64 = 16;

#[derive(Debug, Default)]
pub struct Decisions {
    /// Whether decisions are recorded.
    pub on: bool,
    /// Decisions that have been recorded since the caller last took them.
    pub recorded: Vec<Decision>,
    /// Number of the decision for which a snapshot is taken.
    pub wanted: Option<u64>,
    /// Snapshot of the state at the start of the handler that made the decision `wanted`.
    pub seen: Option<Snapshot>,
    /// Number of decisions so far.
    pub nr: u64,
    /// Most recent snapshot for each kind of [`Handler`].
    pub(crate) latest: [Option<Snapshot>; 3],
}
