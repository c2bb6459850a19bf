// SPDX-License-Identifier: GPL-2.0-only
//! Record of every scheduling decision, used to find where two runs diverge. Recording does not
//! change the run.
//!
//! A decision is a choice that another policy could have made differently: the CPU for a woken
//! task; the DSQ, slice and position with which a task is inserted; the task that a CPU takes from
//! a DSQ; the task that it runs next; a kick. Decisions have no cost. Each one contains the
//! callback and the instruction that made it. For one decision, requested by number, the machine
//! also keeps a snapshot of the state when its handler started.
//!
//! Not recorded: direct writes to a task's fields (`slice = 0` in ops.tick()). Their effect is
//! visible in the task that runs next.

use crate::policy::callbacks::Op;
use crate::policy::layout::enums::{
    SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_CPU_MASK, SCX_DSQ_LOCAL_ON, SCX_ENQ_HEAD, SCX_ENQ_IMMED, SCX_ENQ_PREEMPT,
};
pub use snapshot::{CpuState, Queue, Snapshot, TaskState};

mod capture;
mod snapshot;

/// A decision's kind and values. Tasks are identified by pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// A woken or new task was assigned to `cpu`.
    Cpu { pid: u32, prev_cpu: u32, cpu: u32 },
    /// Insertion of a task by scx_bpf_dsq_insert() or a related kfunc. `slice` is the argument (0
    /// keeps the task's remaining slice). `vtime` is `None` for a FIFO insertion. `flags` contains
    /// the SCX_ENQ_* bits for the position in the queue and for preemption.
    Insert {
        pid: u32,
        dsq: Target,
        slice: u64,
        vtime: Option<u64>,
        flags: u64,
    },
    /// `cpu` took the task from a DSQ.
    Take { pid: u32, dsq: u64, cpu: u32 },
    /// `cpu` switched from task `prev` to task `pid`.
    Run { pid: u32, prev: u32 },
    /// scx_bpf_kick_cpu() with SCX_KICK_* flags.
    Kick { target: u32, flags: u64 },
}

/// The destination of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Local DSQ of the task's CPU, or of the CPU that ops.select_cpu() is about to choose.
    Local,
    /// Local DSQ of another CPU.
    LocalOn(u32),
    /// User DSQ with this id, or SCX_DSQ_GLOBAL.
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
    /// Callback and its latest call instruction; `None` if the kernel decided by itself.
    pub by: Option<(Op, usize)>,
}

/// Kernel code that makes decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    SelectCpu,
    Enqueue,
    Schedule,
}

/// Snapshots are kept from this many decisions before the wanted one. Handlers nest, and one
/// handler can make several decisions.
pub(super) const EARLY: u64 = 16;

#[derive(Debug, Default)]
pub struct Decisions {
    /// Whether decisions are recorded.
    pub on: bool,
    /// Decisions since the vector was last emptied.
    pub recorded: Vec<Decision>,
    /// Number of the decision for which a snapshot is to be kept.
    pub wanted: Option<u64>,
    /// Snapshot at the start of the handler that made the wanted decision.
    pub seen: Option<Snapshot>,
    /// Number of decisions so far.
    pub(super) nr: u64,
    /// Latest snapshot of each [`Handler`].
    pub(super) latest: [Option<Snapshot>; 3],
}

impl DecisionKind {
    /// Returns the decision for an insertion into DSQ `id`. SCX_DSQ_LOCAL stands for the local DSQ of
    /// CPU `home`.
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
