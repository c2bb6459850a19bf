// SPDX-License-Identifier: GPL-2.0-only
//! State of the sched_ext class: one part for the whole machine and one part for each CPU.

use crate::layout;
use crate::layout::callbacks::{Callback, NAMES, NR_OPS};
use crate::machine::Machine;
use crate::sched::ext::state::cids::Cids;
use crate::sched::ext::state::dsq::{DsqRef, Dsqs};
use crate::sched::ext::state::dump_text::Dump;
use crate::sched::ext::state::exit_info::Exit;
use crate::sched::ext::state::ops_table::{Called, Frame};
use crate::sched::ext::state::rescue::{Rescue, RescueKnobs};
use crate::sched::ext::state::scheds::{SchedId, Scheds};
use crate::sched::ext::state::sub_costs::SubCosts;
use crate::sched::ext::state::{entity, events, loaded};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::event::NEVER;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use bpf::engine::Vm;
use entity::TaskState;
use layout::enums::*;
use loaded::{Active, LoadedPolicy};
use machine::Topology;
use std::collections::{BTreeMap, VecDeque};

/// Maximum and default of ops.timeout_ms, in ns (SCX_WATCHDOG_MAX_TIMEOUT).
pub(crate) const MAX_TIMEOUT_NS: u64 = 30_000_000_000;

/// State of sched_ext on a CPU (struct scx_rq). The local DSQ is in [`Dsqs`].
#[derive(Debug)]
#[repr(C)]
pub struct ScxRq {
    pub nr_running: u32,
    /// Whether the CPU is online for the policy (SCX_RQ_ONLINE).
    pub(crate) online: bool,
    /// Whether the CPU is choosing its next ext task (SCX_RQ_IN_BALANCE).
    pub(crate) in_balance: bool,
    /// Whether a wake-up is queueing an ext task on the CPU (SCX_RQ_IN_WAKEUP).
    pub(crate) in_wakeup: bool,
    /// Whether a task of a higher class runs on the CPU and ops.cpu_release() has been called
    /// because of it.
    pub(crate) cpu_released: bool,
    /// Whether the slice of the running task was infinite when the task was picked
    /// (SCX_RQ_CAN_STOP_TICK).
    pub(crate) can_stop_tick: bool,
    /// Whether the idle task reschedules at once, because the last task of the CPU is on the local DSQ
    /// (put_prev_task_scx).
    pub(crate) runs_last: bool,
    /// Number of tasks on the local DSQ that were inserted with SCX_ENQ_IMMED.
    pub(crate) nr_immed: u32,
    /// Whether run_deferred() has been scheduled.
    pub(crate) deferred: bool,
    /// Time at which the IPI for it arrives, ns, or [`NEVER`] if the CPU itself has scheduled it.
    pub(crate) deferred_at: u64,
    /// Number of times that the CPU has rescheduled. A CPU that sent a kick with SCX_KICK_WAIT
    /// waits until this number changes.
    pub(crate) kick_sync: u64,
    /// SCX_REENQ_* flags of a pending re-enqueue of the local DSQ; 0 if none is pending.
    pub(crate) reenq_local: u64,
    pub(crate) kicks: Kicks,
    /// Tasks that a callback dispatched directly to the local DSQ of another CPU. They are moved
    /// there later.
    pub(crate) ddsp_deferred: Vec<TaskId>,
    /// DSQs created by policies whose tasks are to be enqueued again, each with its SCX_REENQ_*
    /// flags and the policy that created it.
    pub(crate) reenq_users: Vec<(DsqRef, u64, SchedId)>,
    /// Sub-schedulers whose capabilities on the CPU have to be updated (ecaps_to_sync).
    pub(crate) caps_to_sync: Vec<SchedId>,
    /// Policies that ops.update_idle() is due for ([`OWES_SUB_IDLE`], [`OWES_ROOT_IDLE`]).
    pub(crate) owes_idle: u8,
    pub(crate) rescue: Box<Rescue>,
}

/// Flag of `owes_idle`: a sub-scheduler has missed that the CPU is idle (SCX_RQ_SUB_IDLE_RENOTIFY).
pub(crate) const OWES_SUB_IDLE: u8 = 1;
/// Flag of `owes_idle`: the root policy has missed that the CPU is idle (SCX_RQ_ROOT_IDLE_RENOTIFY).
pub(crate) const OWES_ROOT_IDLE: u8 = 2;

impl Default for ScxRq {
    fn default() -> ScxRq {
        ScxRq {
            nr_running: 0,
            online: true,
            in_balance: false,
            in_wakeup: false,
            cpu_released: false,
            can_stop_tick: false,
            runs_last: false,
            kick_sync: 0,
            kicks: Kicks::default(),
            nr_immed: 0,
            deferred: false,
            deferred_at: NEVER,
            ddsp_deferred: Vec::new(),
            reenq_local: 0,
            reenq_users: Vec::new(),
            caps_to_sync: Vec::new(),
            owes_idle: 0,
            rescue: Box::default(),
        }
    }
}

impl ScxRq {
    /// Returns the SCX_RQ_* flags that the debug dump shows for the CPU.
    pub(crate) fn flags(&self) -> u32 {
        u32::from(self.online)
            | u32::from(self.owes_idle) << 7
            | u32::from(self.in_wakeup) << 16
            | u32::from(self.in_balance) << 17
    }
}

/// State of sched_ext on a machine.
pub struct Core {
    pub state: EnableState,
    /// Whether tasks may belong to the class (scx_enabled).
    pub(crate) enabled: bool,
    /// Whether the core behaves like Linux 7.3, and not like Linux 7.2.
    pub(crate) is_linux_7_3: bool,
    /// Settings of rescues, from the root policy.
    pub(crate) rescue: RescueKnobs,
    /// Whether all normal tasks belong to the class, not only SCHED_EXT tasks.
    pub(crate) switching_all: bool,
    /// Whether the kernel thread scx_enable_helper executes: a policy is being enabled.
    pub(crate) enabling: bool,
    /// Whether a task without a parent is created. The current task is then the boot CPU's idle task,
    /// which is also the new task's parent, not the task that happens to run on the CPU.
    pub(crate) launching: bool,
    /// Whether ops.init_task() is called for new tasks.
    pub(crate) init_task_enabled: bool,
    /// Whether the cgroup callbacks are called.
    pub(crate) cgroup_enabled: bool,
    /// Cgroups for which ops.cgroup_init() has succeeded, in the order of the calls.
    pub(crate) initialized_cgroups: Vec<u32>,
    /// The sub-schedulers that know cgroups (Linux 7.3). The root policy knows all others.
    pub(crate) cgroup_owners: BTreeMap<u32, SchedId>,
    /// The hierarchy of policies. Those fields of this struct that belong to a policy are the ones of
    /// the current policy ([`Scheds::current`]).
    pub(crate) scheds: Scheds,
    /// Cgroups and exit records of the sub-schedulers that have ended.
    pub sub_exits: Vec<(u32, Exit)>,
    /// Costs of the sub-schedulers that have ended, in the order of their ends.
    pub(crate) ended_subs: Vec<SubCosts>,
    /// The task that ran before the running ops.dispatch() was called, for nested calls
    /// (sub_dispatch_prev).
    pub(crate) sub_dispatch_prev: TaskId,
    /// The policy, from the time when it is installed until it has been disabled.
    pub(crate) policy: Option<LoadedPolicy>,
    /// Bits about the policy that are tested in frequently executed code. All are zero if there is
    /// no policy.
    pub(crate) active: Active,
    /// Number of BPF timer starts since the machine was created. It is not reset when a policy
    /// ends, so every start has a different number.
    pub(crate) timer_starts: u32,
    /// BPF code and maps of the policy that ended last.
    pub(crate) last_vm: Option<Vm<Machine>>,
    /// Exit record of the policy that is ending. If no policy is loaded, the exit record of the
    /// last policy.
    pub exit: Option<Exit>,
    /// SCX_EFLAG_* flags for the exit record of the loaded policy.
    pub(crate) exit_flags: u64,
    pub(crate) ending: Ending,
    /// The callback that began last: time in ns, CPU and callback. Only set if lock waits are
    /// recorded by callback.
    pub(crate) recent_callback: Option<(u64, CpuId, Callback)>,
    pub stats: events::Stats,
    /// Statistics about the calls of each callback of the root policy since the machine was created,
    /// indexed by `Op as usize`. Those of sub-schedulers are in [`Core::sub_costs`].
    pub called: [Called; NR_OPS],
    /// Statistics about kicks since the machine was created.
    pub kicks: KickCounts,
    pub dsqs: Dsqs,
    /// Whether the policy reads `p->scx.dsq`, so that this field is kept.
    pub shows_dsqs: bool,
    pub(crate) cids: Cids,
    /// Whether the policy is a struct sched_ext_ops_cid.
    pub(crate) uses_cids: bool,
    /// Number of tasks that the policy has moved from one DSQ to another with scx_bpf_dsq_move().
    pub nr_moved: u32,
    /// Number of times that a task became runnable.
    pub(crate) nr_became_runnable: u64,
    /// The callback that is running, and the task and runqueue lock it was called with.
    pub frame: Frame,
    /// Number of BPF instructions whose cost has been charged to CPUs so far.
    pub(crate) settled_insns: u64,
    /// Cost of kernel functions that BPF code has called, ns. Only the part that has been charged
    /// to CPUs is included.
    pub(crate) settled_cost: u64,
    pub(crate) direct: DirectDispatch,
    pub(crate) dsp: DispatchContext,
    pub(crate) dsp_max_batch: u32,
    pub(crate) bypass_depth: u32,
    pub(crate) bypass_since: u64,
    /// Number of direct children that are in bypass mode. The policy runs the tasks on its bypass
    /// DSQs for them.
    pub(crate) nr_hosted: u32,
    /// Number of times that each CPU has considered the tasks of bypassed children
    /// (bypass_host_seq). It is empty until there is such a child.
    pub(crate) bypass_turns: Vec<u32>,
    pub(crate) slice_dfl: u64,
    pub(crate) dump: Dump,
    /// CPUs that have kicks to send or other deferred work to do at the end of the current event
    /// handler.
    pub(crate) irq_work: Vec<CpuId>,
    pub(crate) watchdog_timeout: u64,
    pub(crate) watchdog_due: u64,
    /// Number of hotplug events so far (/sys/kernel/sched_ext/hotplug_seq).
    pub hotplug_seq: u64,
    /// Number of policies that have been enabled so far.
    pub enable_seq: u64,
    /// Number of tasks for which the loaded policy's ops.init_task() has succeeded.
    pub nr_accepted: u64,
    /// Number of tasks that have entered the class under the loaded policy.
    pub nr_enabled: u64,
    /// Number of tasks that the policy excluded from SCHED_EXT by setting `disallow`.
    pub nr_rejected: u64,
    /// Addresses of tasks and cgroups whose BPF local storage is to be freed.
    pub(crate) storage_owners: VecDeque<u64>,
    /// Whether BPF local storage is being freed at the moment. Owners that are added meanwhile wait
    /// in `storage_owners`.
    pub(crate) is_freeing: bool,
}

impl Core {
    pub fn new(topology: &Topology) -> Core {
        Core {
            state: EnableState::Disabled,
            enabled: false,
            is_linux_7_3: false,
            rescue: RescueKnobs::default(),
            switching_all: false,
            enabling: false,
            launching: false,
            init_task_enabled: false,
            cgroup_enabled: false,
            initialized_cgroups: Vec::new(),
            cgroup_owners: BTreeMap::new(),
            scheds: Scheds::default(),
            sub_exits: Vec::new(),
            ended_subs: Vec::new(),
            sub_dispatch_prev: IDLE,
            policy: None,
            active: Active::default(),
            timer_starts: 0,
            last_vm: None,
            exit: None,
            exit_flags: 0,
            ending: Ending::No,
            stats: events::Stats::default(),
            called: [crate::sched::ext::state::ops_table::Called::default(); NR_OPS],
            kicks: KickCounts::default(),
            recent_callback: None,
            dsqs: Dsqs::new(topology.nr_cpus(), topology.nodes.len() as u32),
            shows_dsqs: false,
            uses_cids: false,
            cids: crate::sched::ext::state::cids::Cids::new(topology, &CpuSet::all(topology.nr_cpus())),
            nr_moved: 0,
            nr_became_runnable: 0,
            frame: Frame::NONE,
            settled_insns: 0,
            settled_cost: 0,
            direct: DirectDispatch::Closed,
            dsp: DispatchContext::default(),
            dsp_max_batch: SCX_DSP_DFL_MAX_BATCH as u32,
            bypass_depth: 0,
            bypass_since: 0,
            nr_hosted: 0,
            bypass_turns: Vec::new(),
            slice_dfl: SCX_SLICE_DFL,
            dump: crate::sched::ext::state::dump_text::Dump::default(),
            irq_work: Vec::new(),
            watchdog_timeout: MAX_TIMEOUT_NS,
            watchdog_due: 0,
            hotplug_seq: 0,
            enable_seq: 0,
            nr_accepted: 0,
            nr_enabled: 0,
            nr_rejected: 0,
            storage_owners: VecDeque::new(),
            is_freeing: false,
        }
    }

    /// Resets the state when a policy has been installed and is about to be enabled.
    pub(crate) fn begin(&mut self) {
        self.state = EnableState::Enabling;
        self.nr_accepted = 0;
        self.nr_enabled = 0;
        self.nr_rejected = 0;
        self.sub_exits.clear();
        self.ended_subs.clear();
        self.begin_sched();
    }

    /// Resets those fields that every policy has, the root policy or a sub-scheduler.
    pub(crate) fn begin_sched(&mut self) {
        self.exit = None;
        self.exit_flags = 0;
        self.stats = events::Stats::default();
        self.dsp_max_batch = match self.ops().dispatch_max_batch {
            0 => SCX_DSP_DFL_MAX_BATCH as u32,
            batch => batch,
        };
        self.watchdog_timeout = match self.ops().timeout_ms {
            0 => MAX_TIMEOUT_NS,
            ms => u64::from(ms) * 1_000_000,
        };
    }

    /// Returns whether sub-schedulers need capabilities to use CPUs.
    #[inline(always)]
    pub(crate) fn enforces_caps(&self) -> bool {
        self.is_linux_7_3 && self.has_subs()
    }

    /// Returns whether a CPU's local DSQ is empty. Idle CPU selection uses it.
    pub(crate) fn local_dsq_empty(&self, cpu: CpuId) -> bool {
        self.dsqs.is_empty(self.dsqs.local(cpu))
    }

    /// Returns whether bypass mode is on (scx_bypassing).
    #[inline]
    pub(crate) fn bypassing(&self) -> bool {
        self.bypass_depth > 0
    }

    /// Returns whether the policy knows a task in this state, that is, ops.init_task() has
    /// succeeded and ops.exit_task() has not been called (scx_task_on_sched).
    pub(crate) fn owns(&self, state: TaskState) -> bool {
        matches!(state, TaskState::Init | TaskState::Ready | TaskState::Enabled)
    }

    /// Returns whether the policy has ops.cpu_acquire() or ops.cpu_release()
    /// (SCX_OPS_HAS_CPU_PREEMPT).
    pub(crate) fn has_cpu_preempt(&self) -> bool {
        self.has_op(Callback::CpuAcquire) || self.has_op(Callback::CpuRelease)
    }

    /// Returns the maximum length of the debug dump in bytes, as requested by ops.exit_dump_len.
    pub(crate) fn exit_dump_len(&self) -> usize {
        match self.ops().exit_dump_len {
            0 => SCX_EXIT_DUMP_DFL_LEN as usize,
            len => len as usize,
        }
    }
}

impl Core {
    /// Returns whether tasks may belong to the class at the moment.
    pub(crate) fn takes_tasks(&self) -> bool {
        // While a policy ends, its tasks stay in the class until all of them leave together.
        self.enabled && (self.state != EnableState::Disabling || self.ending_of(SchedId::ROOT) != Ending::No)
    }
}

/// The task that ops.select_cpu() or ops.enqueue() may dispatch directly, which means that the
/// callback itself inserts the task into a DSQ (direct_dispatch_task).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectDispatch {
    /// Neither callback is running. Insertions into DSQs go to the dispatch buffer.
    #[default]
    Closed,
    /// The callback may dispatch this task directly.
    For(TaskId),
    /// The callback has already dispatched its task directly.
    Done,
}

/// An insertion that ops.dispatch() requested and that waits in the dispatch buffer (struct
/// scx_dsp_buf_ent).
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub task: TaskId,
    /// Whether the policy owned the task at the time of the insertion.
    pub queued: bool,
    /// The task's `qseq` at the time of the insertion.
    pub qseq: u32,
    pub dsq_id: u64,
    pub enq_flags: u64,
    /// Slice and vtime that the task gets when it is inserted. The task already has them if the core
    /// behaves like Linux 7.2.
    pub slice: u64,
    pub vtime: u64,
}

/// State of a running ops.dispatch() (struct scx_dsp_ctx).
#[derive(Debug, Default)]
pub struct DispatchContext {
    /// CPU for which tasks are dispatched.
    pub cpu: CpuId,
    pub buffer: Vec<Pending>,
    pub nr_tasks: u32,
}

/// A kick that has not been sent yet.
#[derive(Clone, Copy, Debug)]
pub struct Kick {
    pub target: CpuId,
    /// SCX_KICK_* flags.
    pub flags: u64,
    /// What requested the kick: an index into [`KickCounts::by`].
    pub by: u8,
    /// The policy that requested the kick. Before Linux 7.3, all kicks are those of the root policy.
    pub sched: SchedId,
}

/// Index of the kicks that no callback requested, for example those of a BPF timer.
pub(crate) const KICK_BY_OTHERS: u8 = NR_OPS as u8;
/// Index of the kicks that the kernel itself requested.
pub(crate) const KICK_BY_KERNEL: u8 = NR_OPS as u8 + 1;

/// Statistics about kicks. They do not influence the simulation.
#[derive(Clone, Debug)]
pub struct KickCounts {
    /// The kicks of each callback, indexed by `Op as usize`. The last two entries are
    /// [`KICK_BY_OTHERS`] and [`KICK_BY_KERNEL`].
    pub(crate) by: [KicksBy; NR_OPS + 2],
    /// IPIs that were sent to kicked CPUs.
    pub ipis: u64,
    /// Time in ns that kicks cost: the interrupts of the kicking and of the kicked CPUs, and the
    /// reschedules after which the kicked CPU did not switch to a different task.
    pub ns: u64,
}

impl Default for KickCounts {
    fn default() -> KickCounts {
        KickCounts {
            by: [KicksBy::default(); NR_OPS + 2],
            ipis: 0,
            ns: 0,
        }
    }
}

impl KickCounts {
    /// Returns the kicks that the policy requested, with the name of the callback. The name is
    /// `None` for kicks that no callback requested.
    pub fn by_callback(&self) -> impl Iterator<Item = (Option<&'static str>, KicksBy)> {
        let names = NAMES.iter().map(|name| Some(*name)).chain([None]);
        names.zip(self.by).filter(|(_, kicks)| kicks.calls > 0)
    }
}

/// The kicks of one callback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KicksBy {
    /// Calls of scx_bpf_kick_cpu() and scx_bpf_kick_cid().
    pub calls: u64,
    /// Kicks that made a CPU reschedule. The other kicks were merged with a kick for the same CPU,
    /// or the CPU was about to reschedule, was not idle (SCX_KICK_IDLE), or ran a higher class.
    pub reschedules: u64,
    /// Kicks after which the CPU switched to a different task.
    pub switches: u64,
}

/// Kicks that a CPU has to send, and kicked CPUs that it waits for.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Kicks {
    /// Whether the CPU is in the list `Core::irq_work`.
    pub(crate) queued: bool,
    /// Whether this CPU must reschedule, and then wait for kicked CPUs (SCX_KICK_WAIT).
    pub(crate) sync_pending: bool,
    /// Whether this CPU has rescheduled for `sync_pending`. It starts to wait at the end of the
    /// current event handler.
    pub(crate) sync_due: bool,
    /// CPUs that wait until this CPU has rescheduled.
    pub(crate) waiters: Vec<CpuId>,
    /// What kicked this CPU since it rescheduled last (an index into [`KickCounts::by`], plus 1), or
    /// 0 if nothing did.
    pub(crate) kicked_by: u8,
    /// Kicks that have not been sent yet, in the order of the calls.
    pub(crate) pending: Vec<Kick>,
    /// Kicked CPUs for which this CPU waits. Each has the value that its `kick_sync` had at the
    /// time of the kick.
    pub(crate) sync: Vec<(CpuId, u64)>,
}

/// State of sched_ext (enum scx_enable_state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnableState {
    Enabling,
    Enabled,
    Disabling,
    #[default]
    Disabled,
}

/// Next step of ending a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// No policy is ending.
    #[default]
    No,
    /// At time `at`, the dump is written and bypass mode begins.
    Bypass { at: u64 },
    /// At time `at`, all tasks leave the class.
    Disable { at: u64 },
}
