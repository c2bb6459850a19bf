// SPDX-License-Identifier: GPL-2.0-only
//! The events that the scheduler reports to the observers in `watch`: changes of the state of tasks
//! and CPUs, and scheduling decisions.

use crate::layout::enums::{
    SCX_DSQ_LOCAL, SCX_DSQ_LOCAL_CPU_MASK, SCX_DSQ_LOCAL_ON, SCX_ENQ_HEAD, SCX_ENQ_IMMED, SCX_ENQ_PREEMPT,
};
use crate::simulation::cpuset::AffinityGroup;
use crate::simulation::id::{CpuId, TaskId};
use trace::TaskState;

/// A change of the state of a task or a CPU.
#[derive(Clone, Copy)]
pub(crate) enum Transition {
    /// A task became runnable and waits for a CPU.
    Queued { task: TaskId },
    /// A waiting task left its queue without running.
    Dequeued { task: TaskId },
    /// A waiting task left its queue because its cgroup has used up its CPU time (cpu.max).
    Throttled { task: TaskId },
    /// A CPU switched from task `prev` to task `next`. `prev` is now in the state `prev_state`.
    Switched {
        cpu: CpuId,
        prev: TaskId,
        prev_state: TaskState,
        next: TaskId,
        /// Whether stop_machine() had stopped `prev` before.
        stopped: bool,
    },
    /// The stopper has interrupted the running task of a CPU, which waits.
    Stopped { cpu: CpuId, task: TaskId },
    /// The interrupted task continues.
    Continued { cpu: CpuId, task: TaskId },
    /// The task's set of allowed CPUs is about to change to the set that `group` identifies.
    AffinityChanges { task: TaskId, group: AffinityGroup },
    /// A CPU came online and is idle.
    Online { cpu: CpuId },
    /// A CPU is offline, and all tasks have been moved away.
    Offline { cpu: CpuId },
    /// The run is over.
    End,
}

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

/// Kinds of event handlers and callbacks that can make decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    SelectCpu,
    Enqueue,
    Schedule,
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
