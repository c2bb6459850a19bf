// SPDX-License-Identifier: GPL-2.0-only
//! Data for the log of a script (`stepping`) that trace records do not contain.

use crate::sched::fair::state::entity::CfsRqId;
use crate::sched::tracepoint::state::Hook;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::prandom::Prandom;
use crate::stepping::hrtimer::Hrtimers;

/// Part of the scheduler that is moving tasks to other CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mover {
    #[default]
    None,
    /// sched_balance_rq()
    Balance {
        cpu: CpuId,
        level: usize,
        /// State of the CPU that pulls: `busy`, `idle` or `newidle`.
        idle: &'static str,
    },
    /// active_load_balance_cpu_stop()
    ActiveBalance,
    /// migration_cpu_stop()
    Stopper,
    RtPush,
    RtPull,
    Hotplug,
}

/// System call that a script lets a task make.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SystemCall {
    /// Creates the task `index` of the workload.
    Fork {
        index: u32,
        thread: bool,
    },
    Exec,
    Exit,
    /// The rest of a call during which a BPF program at the tracepoint `hook` let the task be preempted. A
    /// fork still has to wake its child.
    Rest {
        hook: Hook,
        child: Option<TaskId>,
    },
}

/// State of a machine that executes a script.
#[derive(Debug)]
pub(crate) struct Stepped {
    /// System calls of tasks that lost their CPU on the way to user mode. Each task calls when it runs
    /// again.
    pub(crate) calls: Vec<(TaskId, SystemCall)>,
    /// Texts of the current line's events that are not trace records, in the order in which they
    /// happened. Each text has the number of trace records that precede the event.
    pub(crate) events: Vec<(usize, String)>,
    /// Balancing that the tick has requested. The softirq SCHED_SOFTIRQ does it when all timers of the
    /// interrupt have been handled. The value is whether the CPU was idle at the tick.
    pub(crate) softirq: Option<bool>,
    /// Whether this interrupt is the first tick since the CPU became idle. The CPU then stops its tick,
    /// unless the interrupt has given it a task.
    pub(crate) stops_tick: bool,
    /// Whether the CPUs interrupt each other without end, so that no time passes.
    pub(crate) is_stuck: bool,
    pub(crate) hrtimers: Hrtimers,
    /// Throttled queues that have runtime again, and the CPUs that have been asked to unthrottle them.
    pub(crate) unthrottled: Vec<(CpuId, CfsRqId)>,
    /// Whether schedule() has skipped the update of the clock and has not updated it since.
    pub(crate) stale_clock: bool,
    /// Random generators of the CPUs for policies (bpf_user_rnd_state). Their first values are those
    /// that the stepped kernel gets.
    pub(crate) bpf_random: Vec<Prandom>,
}
