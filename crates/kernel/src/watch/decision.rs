// SPDX-License-Identifier: GPL-2.0-only
//! What was decided, one by one, for who wants to see where two runs part. Watching leaves no mark in the run.
//!
//! A decision is a choice that another policy could have made differently: the CPU of a woken task, the DSQ, slice and place
//! a task is inserted with, the task a CPU takes from a DSQ, the task it runs next, a kick. What it cost is none. Each knows the
//! callback and the instruction that made it. Asked for one by its number, the machine keeps what could be seen when the handler
//! that made it began.
//!
//! Left out: what a policy writes to tasks' fields directly (slice = 0 in ops.tick()); it shows in what runs next.

mod snapshot;

pub use snapshot::{CpuState, Queue, Snapshot, TaskState};

use crate::machine::Machine;
use crate::policy::layout::enums::{
    SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_CPU_MASK, SCX_DSQ_LOCAL_ON, SCX_ENQ_HEAD, SCX_ENQ_IMMED, SCX_ENQ_PREEMPT,
};
use crate::sched::ext::ops::Op;
use crate::simulation::id::{IDLE, TaskId};

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
const EARLY: u64 = 16;

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
    nr: u64,
    /// By [`Handler`].
    latest: [Option<Snapshot>; 3],
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

impl Machine {
    /// A handler begins that may decide something.
    #[inline]
    pub(crate) fn deciding(&mut self, handler: Handler, task: TaskId) {
        if self.decisions.on {
            self.keep_state(handler, task);
        }
    }

    #[cold]
    fn keep_state(&mut self, handler: Handler, task: TaskId) {
        // What a callback returns without having called anything is told of its beginning.
        if handler == Handler::SelectCpu && self.ext.has_policy() {
            let vm = self.ext.vm();
            let function = self.ext.ops().function(Op::SelectCpu);
            if let Some(function) = function.and_then(|index| vm.code().functions.get(index)) {
                vm.set_pc(function.start);
            }
        }
        let decisions = &self.decisions;
        let soon = |wanted: u64| (decisions.nr..decisions.nr + EARLY).contains(&wanted);
        if decisions.wanted.is_some_and(soon) {
            self.decisions.latest[handler as usize] = Some(self.snapshot(task));
        }
    }

    /// Notes a decision. The callback on the way, if one is, made it.
    #[inline]
    pub(crate) fn decided(&mut self, what: impl FnOnce(&Machine) -> What) {
        if self.decisions.on {
            self.note(what(self), None);
        }
    }

    /// The same of a callback that has returned, if one was asked.
    #[inline]
    pub(crate) fn decided_by(&mut self, op: Option<Op>, what: impl FnOnce(&Machine) -> What) {
        if self.decisions.on {
            self.note(what(self), op);
        }
    }

    #[cold]
    fn note(&mut self, what: What, op: Option<Op>) {
        let op = op.or(self.ext.frame.op).filter(|_| self.ext.has_policy());
        let by = op.map(|op| (op, self.ext.vm().pc()));
        let number = self.decisions.nr;
        self.decisions.nr += 1;
        self.decisions.noted.push(Decision {
            number,
            time: self.now,
            cpu: self.this_cpu,
            what,
            by,
        });
        if self.decisions.wanted == Some(number) {
            let handler = match (what, op) {
                (What::Run { .. } | What::Take { .. }, _) | (_, Some(Op::Dispatch)) => Handler::Schedule,
                (What::Cpu { .. }, _) | (_, Some(Op::SelectCpu)) => Handler::SelectCpu,
                (_, Some(Op::Enqueue)) => Handler::Enqueue,
                // Some other callback's: what there is now.
                _ => {
                    self.decisions.seen = Some(self.snapshot(IDLE));
                    return;
                }
            };
            let latest = self.decisions.latest[handler as usize].take();
            self.decisions.seen = Some(latest.unwrap_or_else(|| self.snapshot(IDLE)));
        }
    }

    /// Where a decision was made: "function (file:line: source text)".
    pub fn place(&self, decision: &Decision) -> Option<String> {
        let (_, pc) = decision.by?;
        self.ext.last_vm().map(|vm| vm.code().describe_caller(pc))
    }
}
