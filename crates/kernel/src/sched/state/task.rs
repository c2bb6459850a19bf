// SPDX-License-Identifier: GPL-2.0-only
//! The simulated kernel's data about a task.
//!
//! Fields that BPF programs can see are in the task's `task_struct` (`layout`). All other fields
//! are in [`Task`].

use crate::hardware::footprint::state::Footprint;
use crate::layout::*;
use crate::programs::state::cursor::Cursor;
use crate::sched::class::state::Class;
use crate::sched::ext::state::entity::{Entity as ExtEntity, Linux73};
use crate::sched::fair::state::entity::{Entity as FairEntity, scale_load, scale_load_down};
use crate::sched::fair::state::numa::NumaTask;
use crate::sched::rt::state::queue::Entity as RtEntity;
use crate::simulation::cpuset::{ALL_CPUS, AffinityGroup, CpuSet, single_cpu};
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::on_demand::{OnDemand, Unchanged};
use crate::simulation::table::Id;
use bpf::memory::Owned;
use std::rc::Rc;
use workload::SchedPolicy;

/// State of a task (TASK_* in include/linux/sched.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    Running = 0x0,
    Interruptible = 0x1,
    Uninterruptible = 0x2,
    /// The task has exited.
    Dead = 0x80,
    /// The task was woken but is not queued yet. It may be on the wake list of its CPU, which will
    /// queue it.
    Waking = 0x200,
}

/// Values of `on_rq` (TASK_ON_RQ_* in kernel/sched/sched.h).
const ON_RQ_QUEUED: i32 = 1;
const ON_RQ_MIGRATING: i32 = 2;

/// Next action of the running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The task has work to do and keeps the CPU.
    Work,
    Yield,
    /// The task goes to sleep. With `State::Dead`, it has exited.
    Block(State),
}

/// A sleep that may end late (a hrtimer with a range).
pub(crate) struct SoftTimer {
    pub(crate) cpu: CpuId,
    /// Time from which the sleep may end, ns.
    pub(crate) from: u64,
    pub(crate) task: TaskId,
    /// `wake_generation` of the task while the timer is armed.
    pub(crate) generation: u32,
}

/// A task. The fields that every wake-up and every switch use come first, so that these operations
/// touch few of the host's cache lines.
#[repr(C, align(64))]
pub struct Task {
    /// The fields that BPF programs can read, and in part write.
    pub task_struct: Owned<task_struct>,
    /// Time at which the task's wait for a CPU began, ns. The task either became runnable or was
    /// switched out while it was still runnable.
    pub waiting_since: u64,
    /// `Checks::idle_while_waiting_ns` at the time when the task last began to wait for a CPU.
    pub idle_before_wait: u64,
    /// Number by which `watch::state::check` identifies the set `cpus`.
    pub affinity: AffinityGroup,
    /// Number of the set of CPUs that could run the task when it began to wait.
    pub(crate) waiting_group: AffinityGroup,
    /// Time at which the CPU that ran the task last finishes its switch to the next task, ns. In
    /// Linux, `p->on_cpu` is set until then.
    pub off_cpu_at: u64,
    /// Generation number of the pending Wake event. Wake events with other numbers are ignored.
    pub wake_generation: u32,
    pub class: Class,
    /// Whether the task is background work of the machine and not part of the workload.
    pub noise: bool,
    /// Whether the task is queued on a CPU of `preferred_llc` (pref_llc_queued).
    pub(crate) on_preferred_llc: bool,
    pub ext: ExtEntity,
    pub program: Cursor,
    pub fair: FairEntity,
    pub rt: RtEntity,
    /// CPUs on which the task may run. Tasks with equal sets share one set ([`Checks::group`]). The
    /// task_struct contains a copy, because BPF programs see a separate mask in each task.
    ///
    /// [`Checks::group`]: crate::watch::state::check::Checks::group
    pub cpus: Rc<CpuSet>,
    /// Task that this task has woken most recently (wake_wide, kernel/sched/fair.c).
    pub last_wakee: TaskId,
    pub wakee_flips: u32,
    pub wakee_flip_decay: u64,
    pub footprint: Footprint,
    /// State of NUMA balancing, if it is on and the task has a footprint.
    pub(crate) numa: Option<Box<NumaTask>>,
    /// Index of the task's process in the state of cache-aware scheduling.
    pub(crate) cache_process: u32,
    /// LLC that the task prefers because of cache-aware scheduling. A machine has at most 8192.
    pub(crate) preferred_llc: Option<u16>,
    /// Whether the task searches for the preferred LLC of its process before it returns to user space.
    pub(crate) cache_work: bool,
    /// Whether this task is or was the `real_parent` of another one.
    pub(crate) is_parent: bool,
    /// Number of tasks whose `creator` is this task.
    pub children: u32,
    /// Task that has created this one and may wait for its exit, or [`IDLE`].
    pub creator: TaskId,
    /// Number of the task's process in the simulator. Tasks of a process share an address space.
    pub process: u32,
    pub rare: OnDemand<RareState>,
}

/// State that few tasks have.
#[derive(Clone, Debug)]
pub struct RareState {
    /// CPU to which the task will move because its affinity has changed (migration_pending). A task with
    /// migration disabled moves when it enables migration again, a running one when the stopper runs.
    pub(crate) migration_pending: Option<CpuId>,
    /// Timer slack of the task while it has no real-time policy, ns (default_timer_slack_ns).
    pub timer_slack: u64,
    /// CPU of the timer that ends the task's sleep, if it is not the task's own CPU (NO_HZ_FULL).
    pub timer_cpu: Option<CpuId>,
    /// Cgroup that the task is about to leave (cgrp_moving_from).
    pub moving_from: Option<u32>,
    /// State of a task of a policy for Linux 7.3.
    pub(crate) linux_7_3: Linux73,
}

impl Unchanged for RareState {
    const UNCHANGED: &'static RareState = &RareState {
        migration_pending: None,
        timer_slack: 0,
        timer_cpu: None,
        moving_from: None,
        linux_7_3: Linux73::UNUSED,
    };
}

// Each further line of the host counts, see `simulation::on_demand`.
const _: () = assert!(size_of::<Task>() == 7 * 64);

impl Task {
    /// Returns the address at which BPF programs see the task's `task_struct`.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.task_struct.addr()
    }

    #[inline]
    pub fn pid(&self) -> u32 {
        self.task_struct.pid as u32
    }

    #[inline]
    pub fn tgid(&self) -> u32 {
        self.task_struct.tgid as u32
    }

    pub fn comm(&self) -> String {
        let comm = self.task_struct.comm.iter().map(|&byte| byte as u8);
        let comm: Vec<u8> = comm.take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&comm).into_owned()
    }

    /// Returns the number of the task's cgroup. 0 is the root.
    pub fn cgroup(&self) -> u32 {
        self.fair.group
    }

    /// Returns the PF_* flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.task_struct.flags
    }

    pub fn is_kthread(&self) -> bool {
        self.flags() & PF_KTHREAD != 0
    }

    /// Returns the CPU on which the task runs or ran last. BPF programs cannot write this number.
    #[inline]
    pub fn cpu(&self) -> CpuId {
        CpuId::new(self.task_struct.thread_info.cpu as usize)
    }

    #[inline]
    pub(crate) fn set_cpu(&mut self, cpu: CpuId) {
        let s = &mut *self.task_struct;
        s.thread_info.cpu = cpu.nr();
        s.wake_cpu = cpu.nr() as i32;
    }

    /// Sets the CPU on which the task ran before its last CPU, and returns the previous value. The
    /// fair class also tests this CPU when it searches for an idle CPU.
    #[inline]
    pub(crate) fn replace_recent_used_cpu(&mut self, cpu: CpuId) -> CpuId {
        let recent = std::mem::replace(&mut self.task_struct.recent_used_cpu, cpu.nr() as i32);
        CpuId::new(recent as usize)
    }

    #[inline]
    pub fn nr_cpus_allowed(&self) -> u32 {
        self.task_struct.nr_cpus_allowed as u32
    }

    /// Returns the nesting depth of migrate_disable(). Migration is disabled while it is above 0.
    #[inline]
    pub fn migration_disabled(&self) -> u16 {
        self.task_struct.migration_disabled
    }

    /// Returns whether the task waits for I/O, or has not run since the I/O completed.
    #[inline]
    pub fn in_iowait(&self) -> bool {
        self.task_struct.bits & IN_IOWAIT != 0
    }

    #[inline]
    pub(crate) fn set_in_iowait(&mut self, waits: bool) {
        self.task_struct.bits = if waits { IN_IOWAIT } else { 0 };
    }

    /// Returns the CPU time that the task has used, ns.
    #[inline]
    pub fn sum_exec_runtime(&self) -> u64 {
        self.task_struct.se.sum_exec_runtime
    }

    /// Adds `ns` to the CPU time that the task has used. All of it counts as user time.
    #[inline]
    pub(crate) fn add_exec_runtime(&mut self, ns: u64) {
        let s = &mut *self.task_struct;
        s.se.sum_exec_runtime += ns;
        s.utime = s.se.sum_exec_runtime;
    }

    /// Returns the key that orders live tasks: by process, then by pid.
    pub(crate) fn sort_key(&self) -> u64 {
        u64::from(self.tgid()) << 32 | u64::from(self.pid())
    }

    /// Returns the priority: -1 for deadline tasks, 0 to 98 for real-time tasks and 100 to 139 for
    /// normal tasks.
    #[inline]
    pub fn prio(&self) -> i32 {
        self.task_struct.prio
    }

    /// Returns the scheduling policy, SCHED_*.
    #[inline]
    pub fn policy(&self) -> u32 {
        self.task_struct.policy
    }

    /// Returns the load weight of the nice value (sched_prio_to_weight).
    pub fn weight(&self) -> u32 {
        scale_load_down(self.task_struct.se.load.weight) as u32
    }

    /// Returns the number of a scheduling policy (SCHED_*) and the real-time priority.
    pub(crate) fn policy_number(policy: SchedPolicy) -> (u32, u32) {
        match policy {
            SchedPolicy::Normal { .. } => (SCHED_NORMAL, 0),
            SchedPolicy::Fifo { rt_priority } => (SCHED_FIFO, rt_priority),
            SchedPolicy::RoundRobin { rt_priority } => (SCHED_RR, rt_priority),
            SchedPolicy::Batch { .. } => (SCHED_BATCH, 0),
            SchedPolicy::Idle => (SCHED_IDLE, 0),
            SchedPolicy::Deadline { .. } => (SCHED_DEADLINE, 0),
            SchedPolicy::Ext { .. } => (SCHED_EXT, 0),
        }
    }

    /// Returns the priority that the task has with a scheduling policy (__normal_prio).
    pub(crate) fn prio_with(&self, policy: SchedPolicy) -> i32 {
        match policy {
            SchedPolicy::Deadline { .. } => -1,
            SchedPolicy::Fifo { rt_priority } | SchedPolicy::RoundRobin { rt_priority } => 99 - rt_priority as i32,
            SchedPolicy::Normal { nice } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } => 120 + nice,
            SchedPolicy::Idle => self.task_struct.static_prio,
        }
    }

    /// Returns whether the task has been created, but not woken up (TASK_NEW).
    pub(crate) fn is_new(&self) -> bool {
        self.state() == State::Running && !self.on_rq() && !self.on_cpu() && !self.fair.throttled
    }

    /// Sets the fields of the task_struct that depend on the scheduling policy and the nice value
    /// (__setscheduler_params).
    pub(crate) fn set_params(&mut self, policy: SchedPolicy) {
        if let SchedPolicy::Deadline { bandwidth } = policy {
            self.rt.bandwidth = bandwidth;
        }
        let s = &mut *self.task_struct;
        (s.policy, s.rt_priority) = Task::policy_number(policy);
        // The other policies keep the nice value, which has no effect on them.
        let fair = match policy {
            SchedPolicy::Normal { nice } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } => {
                Some((nice, PRIO_TO_WEIGHT[(nice + 20) as usize]))
            }
            // The nice value has no effect but remains.
            SchedPolicy::Idle => Some(((s.static_prio - 120).clamp(-20, 19), WEIGHT_IDLEPRIO)),
            SchedPolicy::Deadline { .. } | SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. } => None,
        };
        if let Some((nice, _)) = fair {
            s.static_prio = 120 + nice;
        }
        // A real-time task has the weight that it would have as a normal task (set_load_weight).
        let normal = PRIO_TO_WEIGHT[(s.static_prio - 100).clamp(0, 39) as usize];
        s.se.load.weight = scale_load(fair.map_or(normal, |(_, weight)| weight));
        s.prio = match s.policy {
            SCHED_DEADLINE => -1,
            SCHED_FIFO | SCHED_RR => 99 - s.rt_priority as i32,
            _ => s.static_prio,
        };
        s.normal_prio = s.prio;
        // The timers of real-time tasks have no slack.
        s.timer_slack_ns = if s.prio < 100 { 0 } else { self.rare.timer_slack };
    }

    /// Returns whether `cpu` is in the task's affinity. Most tasks have an affinity to all CPUs, so
    /// this case is tested first. It needs no access to the CPU set.
    #[inline]
    pub(crate) fn has_affinity_to(&self, cpu: CpuId) -> bool {
        self.affinity == ALL_CPUS || self.cpus.contains(cpu)
    }

    /// Returns the CPU that the task cannot leave, because its migration is disabled.
    #[inline]
    fn held_by(&self) -> Option<CpuId> {
        (self.migration_disabled() > 0).then(|| self.cpu())
    }

    /// Returns whether `cpu` may run the task now: `cpu` must be in the task's affinity or, while
    /// migration is disabled, must be the task's own CPU.
    #[inline]
    pub fn may_use(&self, cpu: CpuId) -> bool {
        match self.held_by() {
            None => self.has_affinity_to(cpu),
            Some(own) => own == cpu,
        }
    }

    /// Returns the set of the CPUs for which [`Task::may_use`] is true.
    pub fn usable_cpus(&self) -> CpuSet {
        let mut cpus = CpuSet::clone(&self.cpus);
        if let Some(own) = self.held_by() {
            cpus.clear();
            cpus.insert(own);
        }
        cpus
    }

    /// Returns the affinity group of [`Task::usable_cpus`].
    #[inline]
    pub(crate) fn usable_group(&self) -> AffinityGroup {
        self.held_by().map_or(self.affinity, single_cpu)
    }

    pub fn runnable(&self) -> bool {
        self.state() == State::Running
    }

    #[inline]
    pub fn state(&self) -> State {
        match self.task_struct.__state {
            0x0 => State::Running,
            0x1 => State::Interruptible,
            0x2 => State::Uninterruptible,
            0x200 => State::Waking,
            _ => State::Dead,
        }
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: State) {
        self.task_struct.__state = state as u32;
    }

    /// Returns whether the task is running or queued in its class.
    #[inline]
    pub fn on_rq(&self) -> bool {
        self.task_struct.on_rq == ON_RQ_QUEUED
    }

    /// Returns whether the task was removed from a queue and will be queued on a different CPU
    /// (task_on_rq_migrating).
    pub(crate) fn is_migrating(&self) -> bool {
        self.task_struct.on_rq == ON_RQ_MIGRATING
    }

    #[inline]
    pub(crate) fn set_queued(&mut self) {
        self.task_struct.on_rq = ON_RQ_QUEUED;
    }

    /// Marks the task as not queued. A task that does not sleep will be queued again soon.
    #[inline]
    pub(crate) fn set_dequeued(&mut self, sleeps: bool) {
        self.task_struct.on_rq = if sleeps { 0 } else { ON_RQ_MIGRATING };
    }

    /// Returns whether the task is the current task of its CPU.
    #[inline]
    pub fn on_cpu(&self) -> bool {
        self.task_struct.on_cpu != 0
    }

    /// Records the time at which the task begins to wait for a CPU (sched_info_enqueue).
    #[inline]
    pub(crate) fn sched_info_enqueue(&mut self, now: u64) {
        if self.on_rq() && !self.on_cpu() && self.task_struct.sched_info.last_queued == 0 {
            self.task_struct.sched_info.last_queued = now;
        }
    }

    /// Updates the task's fields when the task stops running (finish_task, sched_info_depart).
    #[inline]
    pub(crate) fn depart(&mut self, now: u64) {
        let runnable = self.runnable();
        let s = &mut *self.task_struct;
        s.on_cpu = 0;
        s.nivcsw += u64::from(runnable);
        s.nvcsw += u64::from(!runnable);
        self.sched_info_enqueue(now);
        self.waiting_since = now;
    }

    /// Updates the task's fields when the task begins to run (prepare_task, sched_info_arrive).
    #[inline]
    pub(crate) fn arrive(&mut self, now: u64) {
        let s = &mut *self.task_struct;
        s.on_cpu = 1;
        let info = &mut s.sched_info;
        if info.last_queued != 0 {
            info.run_delay += now - info.last_queued;
            info.last_queued = 0;
        }
        info.pcount += 1;
    }
}

/// Load weights of the nice values from -20 to 19. Adjacent weights differ by about 25 %
/// (sched_prio_to_weight, kernel/sched/core.c).
pub const PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// Load weight of SCHED_IDLE tasks (WEIGHT_IDLEPRIO).
pub const WEIGHT_IDLEPRIO: u32 = 3;
