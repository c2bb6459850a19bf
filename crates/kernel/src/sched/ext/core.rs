// SPDX-License-Identifier: GPL-2.0-only
//! The state of sched_ext: the machine's, each CPU's, and what a policy has asked for and not yet got.

use super::dsq::{DsqRef, Dsqs};
use super::exit_info::Exit;
use super::{entity, events, loaded};
use crate::hardware::cpuset::CpuSet;
use crate::machine::Machine;
use crate::policy::callbacks::{NR_OPS, Op};
use crate::policy::layout;
use crate::sched::ext::cids::Cids;
use crate::sched::ext::dump_text::Dump;
use crate::sched::ext::ops_table::{Called, Frame};
use crate::simulation::id::{CpuId, TaskId};
use bpf::engine::Vm;
use entity::TaskState;
use layout::enums::*;
use loaded::{Active, LoadedPolicy};
use machine::Topology;
use std::collections::VecDeque;

/// The longest that a policy may leave a task waiting, and the default (SCX_WATCHDOG_MAX_TIMEOUT).
pub(crate) const MAX_TIMEOUT_NS: u64 = 30_000_000_000;

/// sched_ext's part of a runqueue (struct scx_rq). The local DSQ is in [`Dsqs`].
#[derive(Debug)]
#[repr(C)]
pub struct ScxRq {
    pub nr_running: u32,
    /// The policy thinks that the CPU is up (SCX_RQ_ONLINE).
    pub(crate) online: bool,
    pub(crate) in_balance: bool,
    pub(crate) in_wakeup: bool,
    /// A higher class has the CPU and the policy was told.
    pub(crate) cpu_released: bool,
    /// Tasks on the local DSQ that were to run at once.
    pub(crate) nr_immed: u32,
    /// run_deferred() has been scheduled.
    pub(crate) deferred: bool,
    /// Counts reschedulings; SCX_KICK_WAIT watches it.
    pub(crate) kick_sync: u64,
    /// Re-enqueueing of the local DSQ: flags, 0 if not due.
    pub(crate) reenq_local: u64,
    pub(crate) kicks: Kicks,
    /// Direct dispatches to other CPUs' local DSQs.
    pub(crate) ddsp_deferred: Vec<TaskId>,
    /// Re-enqueueing of policies' DSQs.
    pub(crate) reenq_users: Vec<(DsqRef, u64)>,
}

impl Default for ScxRq {
    fn default() -> ScxRq {
        ScxRq {
            nr_running: 0,
            online: true,
            in_balance: false,
            in_wakeup: false,
            cpu_released: false,
            kick_sync: 0,
            kicks: Kicks::default(),
            nr_immed: 0,
            deferred: false,
            ddsp_deferred: Vec::new(),
            reenq_local: 0,
            reenq_users: Vec::new(),
        }
    }
}

impl ScxRq {
    /// SCX_RQ_* as dumps show them.
    pub(crate) fn flags(&self) -> u32 {
        u32::from(self.online) | u32::from(self.in_wakeup) << 16 | u32::from(self.in_balance) << 17
    }
}

/// The sched_ext core of a machine: the loaded policy and what is kept for it.
pub struct Core {
    pub state: EnableState,
    /// There are tasks of the class (scx_enabled).
    pub(crate) enabled: bool,
    /// All normal tasks belong to the class, not only SCHED_EXT ones.
    pub(crate) switching_all: bool,
    /// New tasks are introduced to the policy.
    pub(crate) init_task_enabled: bool,
    /// Cgroups and moves between them are told to the policy.
    pub(crate) cgroup_enabled: bool,
    /// Cgroups that the policy has been told of, in that order.
    pub(crate) cgroups_known: Vec<u32>,
    /// The loaded policy; also while it is being enabled or disabled.
    pub(crate) policy: Option<LoadedPolicy>,
    /// What the hot paths ask of the policy; all zero without one.
    pub(crate) active: Active,
    /// Starts of BPF timers so far; each has its number, also beyond the end of a policy.
    pub(crate) timer_starts: u32,
    /// Code and maps of the policy that ended last.
    pub(crate) last_vm: Option<Vm<Machine>>,
    /// Why the policy ended or is ending; of the last policy if none is loaded.
    pub exit: Option<Exit>,
    pub(crate) exit_flags: u64,
    pub(crate) ending: Ending,
    pub stats: events::Stats,
    /// By `Op as usize`, since the machine was made.
    pub called: [Called; NR_OPS],
    pub dsqs: Dsqs,
    pub(crate) cids: Cids,
    /// Tasks that the policy has moved from DSQ to DSQ while it walked one.
    pub nr_moved: u32,
    /// How often a task began to wait.
    pub(crate) nr_runnable_ever: u64,
    /// The callback that is running.
    pub frame: Frame,
    /// Executed instructions and costs of functions that have been charged.
    pub(crate) settled_insns: u64,
    pub(crate) settled_cost: u64,
    pub(crate) direct: DirectDispatch,
    pub(crate) dsp: DispatchContext,
    pub(crate) dsp_max_batch: u32,
    pub(crate) bypass_depth: u32,
    pub(crate) bypass_since: u64,
    pub(crate) slice_dfl: u64,
    pub(crate) dump: Dump,
    /// CPUs with work to do when the running handler is through.
    pub(crate) irq_work: Vec<CpuId>,
    pub(crate) watchdog_timeout: u64,
    pub(crate) watchdog_due: u64,
    /// Hotplug events so far (/sys/kernel/sched_ext/hotplug_seq).
    pub hotplug_seq: u64,
    /// Policies enabled so far.
    pub enable_seq: u64,
    /// Tasks that ops.init_task() of the loaded policy has accepted so far, and those that have come under the policy.
    pub nr_accepted: u64,
    pub nr_enabled: u64,
    /// Tasks whose SCHED_EXT the policy refused.
    pub nr_rejected: u64,
    /// Tasks and cgroups that nobody holds any more, whose storage is to be freed; and whether that is under way.
    pub(crate) gone: VecDeque<u64>,
    pub(crate) freeing: bool,
}

impl Core {
    pub fn new(topology: &Topology) -> Core {
        Core {
            state: EnableState::Disabled,
            enabled: false,
            switching_all: false,
            init_task_enabled: false,
            cgroup_enabled: false,
            cgroups_known: Vec::new(),
            policy: None,
            active: Active::default(),
            timer_starts: 0,
            last_vm: None,
            exit: None,
            exit_flags: 0,
            ending: Ending::No,
            stats: events::Stats::default(),
            called: [crate::sched::ext::ops_table::Called::default(); NR_OPS],
            dsqs: Dsqs::new(topology.nr_cpus(), topology.nodes.len() as u32),
            cids: crate::sched::ext::cids::Cids::new(topology, &CpuSet::all(topology.nr_cpus())),
            nr_moved: 0,
            nr_runnable_ever: 0,
            frame: Frame::NONE,
            settled_insns: 0,
            settled_cost: 0,
            direct: DirectDispatch::Closed,
            dsp: DispatchContext::default(),
            dsp_max_batch: SCX_DSP_DFL_MAX_BATCH as u32,
            bypass_depth: 0,
            bypass_since: 0,
            slice_dfl: SCX_SLICE_DFL,
            dump: crate::sched::ext::dump_text::Dump::default(),
            irq_work: Vec::new(),
            watchdog_timeout: MAX_TIMEOUT_NS,
            watchdog_due: 0,
            hotplug_seq: 0,
            enable_seq: 0,
            nr_accepted: 0,
            nr_enabled: 0,
            nr_rejected: 0,
            gone: VecDeque::new(),
            freeing: false,
        }
    }

    /// Sets the machine up for the installed policy, which is to be enabled.
    pub(crate) fn begin(&mut self) {
        self.state = EnableState::Enabling;
        self.exit = None;
        self.exit_flags = 0;
        self.stats = events::Stats::default();
        self.nr_accepted = 0;
        self.nr_enabled = 0;
        self.nr_rejected = 0;
        self.dsp_max_batch = match self.ops().dispatch_max_batch {
            0 => SCX_DSP_DFL_MAX_BATCH as u32,
            batch => batch,
        };
        self.watchdog_timeout = match self.ops().timeout_ms {
            0 => MAX_TIMEOUT_NS,
            ms => u64::from(ms) * 1_000_000,
        };
    }

    /// Is a CPU's local DSQ empty? Asked by idle CPU selection.
    pub fn local_dsq_empty(&self, cpu: CpuId) -> bool {
        self.dsqs.is_empty(self.dsqs.local(cpu))
    }

    /// Decisions are made without the policy (scx_bypassing).
    #[inline]
    pub(crate) fn bypassing(&self) -> bool {
        self.bypass_depth > 0
    }

    /// Does the policy know a task in this state (scx_task_on_sched)?
    pub(crate) fn owns(&self, state: TaskState) -> bool {
        matches!(state, TaskState::Init | TaskState::Ready | TaskState::Enabled)
    }

    /// SCX_OPS_HAS_CPU_PREEMPT
    pub(crate) fn has_cpu_preempt(&self) -> bool {
        self.has_op(Op::CpuAcquire) || self.has_op(Op::CpuRelease)
    }

    pub(crate) fn exit_dump_len(&self) -> usize {
        match self.ops().exit_dump_len {
            0 => SCX_EXIT_DUMP_DFL_LEN as usize,
            len => len as usize,
        }
    }
}

impl Core {
    pub(crate) fn takes_tasks(&self) -> bool {
        // While a policy ends, what is there stays until all tasks leave at once.
        self.enabled && (self.state != EnableState::Disabling || self.ending != Ending::No)
    }
}

/// The task that ops.select_cpu() or ops.enqueue() may dispatch directly (direct_dispatch_task).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectDispatch {
    /// Neither is running: insertions go to the buffer.
    #[default]
    Closed,
    /// This one.
    For(TaskId),
    /// It has been dispatched.
    Done,
}

/// A buffered insertion (struct scx_dsp_buf_ent).
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub task: TaskId,
    /// Who owned the task when it was inserted, and since when.
    pub queued: bool,
    pub qseq: u32,
    pub dsq_id: u64,
    pub enq_flags: u64,
}

/// What ops.dispatch() has done so far (struct scx_dsp_ctx).
#[derive(Debug, Default)]
pub struct DispatchContext {
    /// The CPU it dispatches for.
    pub cpu: CpuId,
    pub buffer: Vec<Pending>,
    pub nr_tasks: u32,
}

/// One CPU's kicks that are to be sent and CPUs that are waited for.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Kicks {
    /// Work of this CPU is in the machine's list.
    pub(crate) queued: bool,
    /// The reschedule has been asked for.
    pub(crate) sync_pending: bool,
    /// The reschedule has been: the wait begins when the handler is through.
    pub(crate) sync_due: bool,
    /// CPUs that wait for this one.
    pub(crate) waiters: Vec<CpuId>,
    /// Target and SCX_KICK_*, in the order made.
    pub(crate) pending: Vec<(CpuId, u64)>,
    /// To be waited for after the next reschedule: CPU, and its kick_sync then.
    pub(crate) sync: Vec<(CpuId, u64)>,
}

/// enum scx_enable_state
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnableState {
    Enabling,
    Enabled,
    Disabling,
    #[default]
    Disabled,
}

/// What is next in the ending of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    #[default]
    No,
    /// The dump, and bypass mode.
    Bypass { at: u64 },
    /// Tasks leave the class.
    Disable { at: u64 },
}
