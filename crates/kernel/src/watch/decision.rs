// SPDX-License-Identifier: GPL-2.0-only
//! What was decided, one by one, for who wants to see where two runs part. Watching leaves no mark in the run.
//!
//! A decision is a choice that another policy could have made differently: the CPU of a woken task, the DSQ, slice and place
//! a task is inserted with, the task a CPU takes from a DSQ, the task it runs next, a kick. What it cost is none. Each knows the
//! callback and the instruction that made it. Asked for one by its number, the machine keeps what could be seen when the handler
//! that made it began.
//!
//! Left out: what a policy writes to tasks' fields directly (slice = 0 in ops.tick()); it shows in what runs next.

use crate::policy::callbacks::Op;
use crate::policy::layout::enums::{
    SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_CPU_MASK, SCX_DSQ_LOCAL_ON, SCX_ENQ_HEAD, SCX_ENQ_IMMED, SCX_ENQ_PREEMPT,
};
pub use snapshot::{CpuState, Queue, Snapshot, TaskState};

mod capture;
mod snapshot;

/// Tasks are named by pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A woken or new task is to go to `cpu`.
    Cpu { pid: u32, prev_cpu: u32, cpu: u32 },
    /// scx_bpf_dsq_insert and its kin. `slice` as it was given (0: what is left), `vtime` if the DSQ is in that order; `flags`
    /// are those of SCX_ENQ_* that say where in the queue, and whether it preempts.
    Insert {
        pid: u32,
        dsq: Target,
        slice: u64,
        vtime: Option<u64>,
        flags: u64,
    },
    /// `cpu` takes the task from a DSQ.
    Take { pid: u32, dsq: u64, cpu: u32 },
    /// `cpu` switches to a task.
    Run { pid: u32, prev: u32 },
    /// scx_bpf_kick_cpu, SCX_KICK_*.
    Kick { target: u32, flags: u64 },
}

/// Where a task is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The local DSQ of the CPU it is on, or that ops.select_cpu() is about to choose for it.
    Local,
    /// Another CPU's local DSQ.
    LocalOn(u32),
    /// A DSQ by its id, or SCX_DSQ_GLOBAL.
    Dsq(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Counts all decisions of the run, from 0.
    pub number: u64,
    /// ns since the run's start.
    pub time: u64,
    /// The CPU whose code was running.
    pub cpu: u32,
    pub what: What,
    /// The callback, and the instruction of its latest call; `None`: the kernel decided by itself.
    pub by: Option<(Op, usize)>,
}

/// A handler that makes decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    SelectCpu,
    Enqueue,
    Schedule,
}

/// Handlers nest, and one makes several decisions: what could be seen is kept from so many before the one asked for.
pub(super) const EARLY: u64 = 16;

#[derive(Debug, Default)]
pub struct Decisions {
    /// Are they being noted?
    pub on: bool,
    /// Those noted since somebody took them away.
    pub noted: Vec<Decision>,
    /// Which one to keep the machine's state of.
    pub wanted: Option<u64>,
    /// What could be seen when the handler of the one asked for began.
    pub seen: Option<Snapshot>,
    pub(super) nr: u64,
    /// By [`Handler`].
    pub(super) latest: [Option<Snapshot>; 3],
}

impl What {
    /// An insertion into the DSQ of an id; `home` is the CPU whose local DSQ SCX_DSQ_LOCAL means.
    pub(crate) fn insert(pid: u32, (id, home): (u64, u32), slice: u64, vtime: Option<u64>, enq_flags: u64) -> What {
        let dsq = match id {
            SCX_DSQ_LOCAL => Target::Local,
            on if on & SCX_DSQ_LOCAL_ON == SCX_DSQ_LOCAL_ON => match (on & SCX_DSQ_LOCAL_CPU_MASK) as u32 {
                cpu if cpu == home => Target::Local,
                cpu => Target::LocalOn(cpu),
            },
            id => Target::Dsq(id),
        };
        What::Insert {
            pid,
            dsq,
            slice,
            vtime,
            flags: enq_flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT | SCX_ENQ_IMMED),
        }
    }
}
