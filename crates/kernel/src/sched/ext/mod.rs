// SPDX-License-Identifier: GPL-2.0-only
//! sched_ext: the class whose decisions a BPF object makes (kernel/sched/ext of Linux 7.2).
//!
//! `ops` is the policy's callbacks and calling them; `enqueue`, `dispatch` and `deferred` move tasks between the core,
//! the policy and the `dsq`s; `insert` and `kfuncs` is what the policy can do; `idle` knows idle CPUs; `enable`,
//! `lifecycle`, `bypass`, `watchdog`, `exit` and `dump` are a policy's coming and going. Sub-schedulers and core scheduling
//! (ops.core_sched_before() is never called) are left out. This file has the class' functions and the places where the
//! machine calls in.

mod bypass;
pub(crate) mod cgroup;
pub(crate) mod cid;
mod deferred;
mod dispatch;
pub mod dsq;
pub mod dump;
pub mod enable;
mod enqueue;
pub mod entity;
pub mod events;
pub mod exit;
pub mod idle;
pub mod insert;
pub mod kick;
mod lifecycle;
mod loaded;
pub mod ops;
pub mod watchdog;

pub use crate::policy::bpf_world::timer_fired;
pub(crate) use dispatch::{
    pick_task, put_prev_task, select_task_rq, set_next_task, task_tick, update_curr, yield_task,
};
pub use enable::{EnableState, unload};
pub(crate) use enqueue::{dequeue_task, enqueue_task};
pub use entity::Entity;
pub use exit::{Exit, Kind};
pub use ops::{Op, OpsTable, Policy};

use crate::hardware::cpuset::CpuSet;
use crate::machine::Machine;
use crate::policy::layout;
use crate::policy::tracepoint;
use crate::sched::class::Class;
use crate::sched::task::Task;
use crate::simulation::id::TaskId;
use bpf::engine::Vm;
use dsq::{DsqRef, Dsqs};
use enable::Ending;
use entity::TaskState;
use insert::{DirectDispatch, DispatchContext};
use layout::enums::*;
use loaded::{Active, LoadedPolicy};
use machine::Topology;
use ops::Frame;
use std::collections::VecDeque;
use workload::Policy as TaskPolicy;

/// sched_ext's part of a runqueue (struct scx_rq). The local DSQ is in [`Dsqs`].
#[derive(Debug)]
#[repr(C)]
pub struct ScxRq {
    pub nr_running: u32,
    /// The policy thinks that the CPU is up (SCX_RQ_ONLINE).
    online: bool,
    in_balance: bool,
    in_wakeup: bool,
    /// A higher class has the CPU and the policy was told.
    cpu_released: bool,
    /// Tasks on the local DSQ that were to run at once.
    nr_immed: u32,
    /// run_deferred() has been scheduled.
    deferred: bool,
    /// Counts reschedulings; SCX_KICK_WAIT watches it.
    kick_sync: u64,
    /// Re-enqueueing of the local DSQ: flags, 0 if not due.
    reenq_local: u64,
    kicks: kick::Kicks,
    /// Direct dispatches to other CPUs' local DSQs.
    ddsp_deferred: Vec<TaskId>,
    /// Re-enqueueing of policies' DSQs.
    reenq_users: Vec<(DsqRef, u64)>,
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
            kicks: kick::Kicks::default(),
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
    fn flags(&self) -> u32 {
        u32::from(self.online) | u32::from(self.in_wakeup) << 16 | u32::from(self.in_balance) << 17
    }
}

/// The sched_ext core of a machine: the loaded policy and what is kept for it.
pub struct Core {
    pub state: EnableState,
    /// There are tasks of the class (scx_enabled).
    enabled: bool,
    /// All normal tasks belong to the class, not only SCHED_EXT ones.
    switching_all: bool,
    /// New tasks are introduced to the policy.
    init_task_enabled: bool,
    /// Cgroups and moves between them are told to the policy.
    cgroup_enabled: bool,
    /// Cgroups that the policy has been told of, in that order.
    cgroups_known: Vec<u32>,
    /// The loaded policy; also while it is being enabled or disabled.
    pub(crate) policy: Option<LoadedPolicy>,
    /// What the hot paths ask of the policy; all zero without one.
    active: Active,
    /// Starts of BPF timers so far; each has its number, also beyond the end of a policy.
    pub(crate) timer_starts: u32,
    /// Code and maps of the policy that ended last.
    last_vm: Option<Vm<Machine>>,
    /// Why the policy ended or is ending; of the last policy if none is loaded.
    pub exit: Option<Exit>,
    exit_flags: u64,
    ending: Ending,
    pub stats: events::Stats,
    /// By `Op as usize`, since the machine was made.
    pub called: [ops::Called; ops::NR_OPS],
    pub dsqs: Dsqs,
    pub(crate) cids: cid::Cids,
    /// Tasks that the policy has moved from DSQ to DSQ while it walked one.
    pub nr_moved: u32,
    /// How often a task began to wait.
    nr_runnable_ever: u64,
    /// The callback that is running.
    pub frame: Frame,
    /// Executed instructions and costs of functions that have been charged.
    settled_insns: u64,
    settled_cost: u64,
    direct: DirectDispatch,
    dsp: DispatchContext,
    dsp_max_batch: u32,
    bypass_depth: u32,
    bypass_since: u64,
    slice_dfl: u64,
    dump: dump::Dump,
    /// CPUs with work to do when the running handler is through.
    irq_work: Vec<u32>,
    watchdog_timeout: u64,
    watchdog_due: u64,
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
    gone: VecDeque<u64>,
    freeing: bool,
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
            called: [ops::Called::default(); ops::NR_OPS],
            dsqs: Dsqs::new(topology.nr_cpus(), topology.nodes.len() as u32),
            cids: cid::Cids::new(topology, &CpuSet::all(topology.nr_cpus())),
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
            dump: dump::Dump::default(),
            irq_work: Vec::new(),
            watchdog_timeout: watchdog::MAX_TIMEOUT_NS,
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
    fn begin(&mut self) {
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
            0 => watchdog::MAX_TIMEOUT_NS,
            ms => u64::from(ms) * 1_000_000,
        };
    }

    /// Is a CPU's local DSQ empty? Asked by idle CPU selection.
    pub fn local_dsq_empty(&self, cpu: u32) -> bool {
        self.dsqs.is_empty(self.dsqs.local(cpu))
    }

    /// Decisions are made without the policy (scx_bypassing).
    #[inline]
    fn bypassing(&self) -> bool {
        self.bypass_depth > 0
    }

    /// Does the policy know a task in this state (scx_task_on_sched)?
    fn owns(&self, state: TaskState) -> bool {
        matches!(state, TaskState::Init | TaskState::Ready | TaskState::Enabled)
    }

    /// SCX_OPS_HAS_CPU_PREEMPT
    fn has_cpu_preempt(&self) -> bool {
        self.has_op(Op::CpuAcquire) || self.has_op(Op::CpuRelease)
    }

    fn exit_dump_len(&self) -> usize {
        match self.ops().exit_dump_len {
            0 => SCX_EXIT_DUMP_DFL_LEN as usize,
            len => len as usize,
        }
    }
}

/// The class a task belongs to by its policy and by what is loaded (task_should_scx).
pub(crate) fn class_for(m: &Machine, task: &Task) -> Class {
    match task.policy {
        TaskPolicy::Deadline | TaskPolicy::Fifo { .. } | TaskPolicy::RoundRobin { .. } => Class::Rt,
        TaskPolicy::Ext { .. } if m.ext.takes_tasks() => Class::Ext,
        _ if m.ext.switching_all && m.ext.takes_tasks() => Class::Ext,
        _ => Class::Fair,
    }
}

impl Core {
    fn takes_tasks(&self) -> bool {
        // While a policy ends, what is there stays until all tasks leave at once.
        self.enabled && (self.state != EnableState::Disabling || self.ending != Ending::No)
    }
}

/// May the task's policy be changed so? Not to SCHED_EXT if ops.init_task() disallowed it (scx_check_setscheduler).
pub(crate) fn check_setscheduler(m: &Machine, task: TaskId, policy: TaskPolicy) -> bool {
    let wants = matches!(policy, TaskPolicy::Ext { .. });
    !(m.ext.enabled && wants && m.tasks[task].policy != policy && m.scx_entity(task).disallow)
}

/// A CPU enters or leaves idle.
pub(crate) fn update_idle(m: &mut Machine, cpu: u32, idle: bool) {
    if !m.ext.enabled {
        return;
    }
    idle::update(m, cpu, idle);
    if m.ext.has_op(Op::UpdateIdle) && !m.ext.bypassing() {
        let arg = m.ext.cids.arg(cpu);
        ops::call_locked(m, Op::UpdateIdle, cpu, &[arg, u64::from(idle)]);
    }
}

/// A CPU that idles was made to look for work and found none: it can be claimed again.
pub(crate) fn stay_idle(m: &mut Machine, cpu: u32) {
    if m.ext.enabled && m.rqs[cpu as usize].idle() {
        idle::update(m, cpu, true);
    }
}

/// After every context switch.
pub(crate) fn sched_switch(m: &mut Machine, cpu: u32, prev: TaskId, next: TaskId) {
    layout::mirror_switch(m, cpu, prev, next);
    tracepoint::sched_switch(m, cpu, prev, next);
}

/// The CPU's kernel code is through: what was put off until now (irq_work).
#[inline]
pub(crate) fn irq_work(m: &mut Machine) {
    if !m.ext.irq_work.is_empty() {
        kick::run_irq_work(m);
    }
}

/// A task was woken and put on `cpu`'s queue, which is locked (task_woken_scx).
#[inline]
pub(crate) fn task_woken(m: &mut Machine, cpu: u32, task: TaskId) {
    layout::mirror_state(m, task);
    if deferred::pending(m, cpu) {
        deferred::run_deferred(m, cpu);
    }
}

/// Every tick, whatever runs.
pub(crate) fn tick(m: &mut Machine, cpu: u32) {
    tracepoint::sched_tick(m, cpu);
}

pub(crate) fn watchdog(m: &mut Machine) {
    watchdog::run(m);
}

/// The event of work put off to another moment.
pub(crate) fn deferred(m: &mut Machine, cpu: u32) {
    m.enter(cpu);
    deferred::arrived(m, cpu);
    enable::advance_ending(m);
}

/// A task slot was filled: its task_struct is laid out.
pub(crate) fn task_created(m: &mut Machine, task: TaskId) {
    layout::mirror_task(m, task);
    m.scx_init_entity(task);
}

/// scx_fork and scx_post_fork: init_task and, if it is an ext task, enable. The errno if the policy fails the fork.
pub(crate) fn post_fork(m: &mut Machine, task: TaskId) -> Result<(), i32> {
    lifecycle::forked(m, task)
}

pub(crate) fn task_renamed(m: &mut Machine, task: TaskId) {
    layout::mirror_exec(m, task);
}

/// sched_ext_dead: disable and exit_task.
pub(crate) fn task_dead(m: &mut Machine, task: TaskId) {
    lifecycle::dead(m, task);
    layout::mirror_reparent(m, task);
}

/// __put_task_struct: nobody holds the task any more.
pub(crate) fn task_gone(m: &mut Machine, task: TaskId) {
    let addr = m.tasks[task].addr;
    lifecycle::gone(m, [addr]);
}

pub(crate) fn task_cpu_changed(m: &mut Machine, task: TaskId) {
    layout::mirror_cpu(m, task);
    tracepoint::sched_migrate_task(m, task, m.tasks[task].cpu);
}

/// The task's class has just been set from `from` to another one; it is off the queues.
pub(crate) fn switching_class(m: &mut Machine, task: TaskId, from: Class) {
    debug_assert_ne!(m.tasks[task].class, from);
    if m.tasks[task].class == Class::Ext {
        lifecycle::switching_to(m, task);
    }
}

/// Nice, policy or weight changed: task_struct's copies and ops.set_weight.
pub(crate) fn params_changed(m: &mut Machine, task: TaskId) {
    layout::mirror_params(m, task);
    lifecycle::reweight(m, task);
}

/// A CPU came up; tasks can be queued there.
pub(crate) fn cpu_online(m: &mut Machine, cpu: u32) {
    m.rqs[cpu as usize].ext.online = true;
    hotplug(m, cpu, true);
}

/// A CPU is going down; its tasks are still there.
pub(crate) fn cpu_offline(m: &mut Machine, cpu: u32) {
    hotplug(m, cpu, false);
    m.rqs[cpu as usize].ext.online = false;
}

/// handle_hotplug
fn hotplug(m: &mut Machine, cpu: u32, online: bool) {
    m.ext.hotplug_seq += 1;
    if m.ext.state == EnableState::Disabled {
        return;
    }
    idle::update_topology(m);
    let (op, going) = if online {
        (Op::CpuOnline, "online")
    } else {
        (Op::CpuOffline, "offline")
    };
    if m.ext.has_op(op) {
        let arg = m.ext.cids.arg(cpu);
        ops::call(m, op, &[arg]);
    } else {
        let code = (SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG) as i64;
        exit::exit(
            m,
            Kind::UnregKern,
            code,
            format!("cpu {cpu} going {going}, exiting scheduler"),
        );
    }
}

/// The user ends the policy by the magic SysRq key.
pub fn sysrq_reset(m: &mut Machine) {
    exit::exit_on(m, Kind::Sysrq, 0, -1, "");
}

/// An ext task of a CPU became runnable beside another one: it waits its turn (wakeup_preempt_scx). One of a higher class
/// makes tasks go back that were to run at once.
pub(crate) fn wakeup_preempt(_m: &mut Machine, _cpu: u32, _task: TaskId, _flags: u32) {}

/// A task of a higher class preempts `cpu`'s curr.
pub(crate) fn preempted_by_class(m: &mut Machine, cpu: u32) {
    if m.rqs[cpu as usize].ext.nr_immed > 0 {
        deferred::schedule_reenq_local(m, cpu);
    }
}

/// What a forked task inherits is set when it is introduced to the policy.
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}

pub(crate) fn switched_from(m: &mut Machine, _cpu: u32, task: TaskId) {
    lifecycle::switched_from(m, task);
}

/// Everything has happened in `switching_class`; a running task of the class below makes way.
pub(crate) fn switched_to(m: &mut Machine, cpu: u32, task: TaskId) {
    if m.tasks[task].on_rq && m.rqs[cpu as usize].curr != task && m.curr_class(cpu) > Class::Ext {
        m.resched_curr(cpu);
    }
}

pub(crate) fn prio_changed(_m: &mut Machine, _cpu: u32, _task: TaskId) {}

pub(crate) fn set_cpus_allowed(m: &mut Machine, task: TaskId) {
    lifecycle::set_cpumask(m, task);
}

pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: u32) {}
