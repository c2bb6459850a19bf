// SPDX-License-Identifier: GPL-2.0-only
//! A log of all scheduling decisions, which is used to find the first difference between two runs.
//! Recording does not affect the run.
//!
//! A decision is something that another policy (BPF scheduler) could have done differently. There
//! are five kinds:
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

use crate::policy::callbacks::Op;
use crate::policy::layout::enums::{
    SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_CPU_MASK, SCX_DSQ_LOCAL_ON, SCX_ENQ_HEAD, SCX_ENQ_IMMED, SCX_ENQ_PREEMPT,
};
pub use snapshot::{CpuState, Queue, Snapshot, TaskState};

mod capture;
mod snapshot;

/// The kind of a decision and its values. Tasks are identified by their pids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// `cpu` was chosen for a woken or new task.
    Cpu { pid: u32, prev_cpu: u32, cpu: u32 },
    /// A task was inserted into a DSQ by scx_bpf_dsq_insert() or a related kfunc. `slice` is the
    /// argument of the call; 0 keeps the remaining slice. `vtime` is `None` for an insertion in
    /// FIFO order. `flags` contains the SCX_ENQ_* flags that affect the position in the queue or
    /// request preemption.
    Insert {
        pid: u32,
        dsq: Target,
        slice: u64,
        vtime: Option<u64>,
        flags: u64,
    },
    /// `cpu` took the task from a DSQ, to run it later.
    Take { pid: u32, dsq: u64, cpu: u32 },
    /// `cpu` switched from task `prev` to task `pid`.
    Run { pid: u32, prev: u32 },
    /// A CPU was kicked by scx_bpf_kick_cpu() with SCX_KICK_* flags.
    Kick { target: u32, flags: u64 },
}

/// The DSQ into which a task is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The local DSQ of the task's CPU. In ops.select_cpu(), the local DSQ of the CPU that the
    /// callback is about to return.
    Local,
    /// Local DSQ of another CPU.
    LocalOn(u32),
    /// SCX_DSQ_GLOBAL, or a DSQ that the policy created with this id.
    Dsq(u64),
}

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
    pub by: Option<(Op, usize)>,
}

/// Kinds of event handlers and callbacks that can make decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    SelectCpu,
    Enqueue,
    Schedule,
}

/// The machine takes snapshots as soon as the selected decision is at most this number of decisions
/// away. It cannot wait longer, because the snapshot is taken at the start of the handler that
/// makes the decision: handlers can be nested, and one handler can make several decisions.
pub(super) const EARLY: u64 = 16;

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
    pub(super) nr: u64,
    /// Most recent snapshot for each kind of [`Handler`].
    pub(super) latest: [Option<Snapshot>; 3],
}

impl DecisionKind {
    /// Returns the decision to insert a task into the DSQ with this id. If the id is SCX_DSQ_LOCAL,
    /// the DSQ is the local DSQ of CPU `home`.
    pub(crate) fn insert(
        pid: u32,
        (id, home): (u64, u32),
        slice: u64,
        vtime: Option<u64>,
        enq_flags: u64,
    ) -> DecisionKind {
        let dsq = match id {
            SCX_DSQ_LOCAL => Target::Local,
            on if on & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON => match (on & SCX_DSQ_LOCAL_CPU_MASK) as u32 {
                cpu if cpu == home => Target::Local,
                cpu => Target::LocalOn(cpu),
            },
            id => Target::Dsq(id),
        };
        DecisionKind::Insert {
            pid,
            dsq,
            slice,
            vtime,
            flags: enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT | SCX_ENQ_IMMED),
        }
    }
}
