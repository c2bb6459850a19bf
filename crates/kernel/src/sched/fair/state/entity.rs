// SPDX-License-Identifier: GPL-2.0-only
//! Data types of the fair class: entities (struct sched_entity), their queues (struct cfs_rq), and
//! the state of the class on one CPU. An entity is a task, or a task group on one CPU.
//!
//! As in Linux since 7.3, each CPU has a single queue from which EEVDF picks, with the tasks of all
//! groups ([`Eevdf`]). The queues of groups ([`CfsRq`]) only add up load. They determine the weight
//! with which each task competes (`h_load`).

use crate::sched::fair::state::clock::PeltClock;
use crate::sched::fair::state::pelt::{Avg, Removed};
use crate::sched::fair::state::slices::Slices;
use crate::sched::fair::state::timeline::{Position, Timeline};
use crate::sched::state::task::Task;
use crate::simulation::event::NEVER;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::Table;

/// Load of a task with nice 0: its weight, 1024, shifted left by SCHED_FIXEDPOINT_SHIFT. The
/// additional bits make the share of a group on a CPU more precise.
pub const NICE_0_LOAD: u64 = 1024 << LOAD_SHIFT;
const LOAD_SHIFT: u32 = 10;

/// Marks a slice that is a former base slice.
const FORMER_BASE_SLICE: u64 = 1 << 63;

/// Number of an entity. A number below [`GROUP`] is a task's index in the table of tasks. Other
/// numbers denote a group on a CPU.
pub type EntityId = u32;
/// Value that means "no entity".
pub const NONE: EntityId = EntityId::MAX;
/// Smallest weight of a task on its CPU, and smallest load of a group's entity (MIN_SHARES).
pub(crate) const MIN_SHARES: u64 = 2;
/// Number of a queue. The root queue of a CPU has the number of that CPU. The queue of a group has
/// the number of the group's entity.
pub type CfsRqId = u32;
/// Lowest number of the entities and queues that belong to groups.
pub const GROUP: u32 = 1 << 31;

/// Returns the load that corresponds to a weight (scale_load).
pub fn scale_load(weight: u32) -> u64 {
    u64::from(weight) << LOAD_SHIFT
}

/// Returns the weight that corresponds to a load (scale_load_down). It is at least 2 unless the
/// load is 0.
#[inline]
pub fn scale_load_down(load: u64) -> u64 {
    if load == 0 { 0 } else { (load >> LOAD_SHIFT).max(2) }
}

/// A task in the fair class, or a task group on one CPU. Virtual times are in ns of CPU time of a
/// nice 0 task.
#[derive(Clone)]
pub struct Entity {
    pub vruntime: i64,
    /// Virtual deadline. It is relative to vruntime while `rel_deadline` is set.
    pub deadline: i64,
    /// V - vruntime at the last dequeue, where V is the average vruntime of the queue.
    pub vlag: i64,
    /// Vruntime up to which the entity may run without being preempted, once it has been picked
    /// (RUN_TO_PARITY).
    pub vprot: i64,
    /// Length of the slice that the task has requested, ns; 0 is the base slice (custom_slice,
    /// slice). With FORMER_BASE_SLICE, it is a base slice that has changed since.
    pub(crate) slice: u64,
    pub rel_deadline: bool,
    /// Whether the entity is queued, running or `delayed`.
    pub on_rq: bool,
    /// Whether the entity sleeps but remains queued until its negative lag is used up
    /// (sched_delayed).
    pub delayed: bool,
    /// Whether the task is counted in `h_nr_idle`.
    pub counted_idle: bool,
    /// Whether the task has been dequeued because its cgroup has used up its CPU time (cpu.max).
    pub throttled: bool,
    /// Whether the task's throttling is checked when it returns to user space
    /// (sched_throttle_work).
    pub(crate) throttle_work: bool,
    /// Load weight of a task, or the share of a group on this CPU; see [`NICE_0_LOAD`].
    pub load: u64,
    /// Weight with which a task competes on its CPU: the part of the CPU's load that it has
    /// according to its own load and the shares of its groups (h_load). It has the scale of `load`.
    pub h_load: u64,
    /// Cgroup on whose queue the entity is queued; 0 is the root.
    pub group: u32,
    /// Time up to which the CPU time of the entity is accounted, ns. It is 0 if the entity has never
    /// run, and after a migration.
    pub exec_start: u64,
    pub avg: Avg,
    /// Smoothed average of the task's utilization at the times when it went to sleep.
    pub util_est: u64,
    /// Whether the utilization has not been recalculated since `util_est` was updated.
    pub(crate) util_unchanged: bool,
    pub(crate) position: Position,
    /// Neighbours in the list of the CPU's tasks, ordered by when they last ran (cfs_tasks).
    pub(crate) newer: TaskId,
    pub(crate) older: TaskId,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity {
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            vprot: 0,
            slice: 0,
            rel_deadline: false,
            on_rq: false,
            delayed: false,
            counted_idle: false,
            throttled: false,
            throttle_work: false,
            load: NICE_0_LOAD,
            h_load: NICE_0_LOAD,
            group: 0,
            exec_start: 0,
            avg: Avg::default(),
            util_est: 0,
            util_unchanged: false,
            position: (0, 0),
            newer: IDLE,
            older: IDLE,
        }
    }
}

impl Entity {
    /// Returns the entity of a new task that belongs to a cgroup.
    pub fn for_task(cgroup: u32) -> Entity {
        Entity {
            group: cgroup,
            ..Entity::default()
        }
    }

    /// Converts `ns` of CPU time to virtual time according to the task's weight (calc_delta_fair).
    #[inline]
    pub fn delta_fair(&self, ns: u64) -> i64 {
        if self.h_load == NICE_0_LOAD {
            ns as i64
        } else {
            (ns * NICE_0_LOAD / self.h_load) as i64
        }
    }

    /// Lets the entity keep a base slice that has just changed, ns.
    pub(crate) fn keep_base_slice(&mut self, ns: u64) {
        self.slice = ns | FORMER_BASE_SLICE;
    }

    /// Gives the entity the present base slice, unless it has requested a different one.
    #[inline]
    pub(crate) fn renew_base_slice(&mut self) {
        if self.slice & FORMER_BASE_SLICE != 0 {
            self.slice = 0;
        }
    }

    /// Returns the slice that the task has requested, ns; 0 is the base slice.
    pub(crate) fn requested_slice(&self) -> u64 {
        if self.slice & FORMER_BASE_SLICE != 0 {
            0
        } else {
            self.slice
        }
    }

    /// Returns the slice if it differs from the base slice, ns, or 0.
    #[inline]
    pub(crate) fn own_slice(&self) -> u64 {
        self.slice & !FORMER_BASE_SLICE
    }

    /// Returns the length of the entity's slice, ns.
    #[inline]
    pub(crate) fn slice(&self, base_slice: u64) -> u64 {
        if self.slice == 0 { base_slice } else { self.own_slice() }
    }

    /// Returns the weight of the entity (se_weight).
    #[inline]
    pub fn weight(&self) -> u64 {
        (self.load >> LOAD_SHIFT).max(2)
    }

    /// Returns whether the entity, which is running, may not be preempted yet (RUN_TO_PARITY).
    pub fn protected(&self) -> bool {
        self.vruntime < self.vprot
    }

    /// Returns an estimate of the task's utilization (task_util_est). This is the current
    /// utilization or `util_est`, whichever is greater.
    pub fn util(&self) -> u64 {
        self.avg.util_avg.max(self.util_est)
    }
}

/// Virtual time at which a queue begins (init_cfs_rq).
pub(crate) const FIRST_VRUNTIME: i64 = -(1 << 20);

/// The load of the entities on one CPU that belong to the root or to the same cgroup (struct
/// cfs_rq).
pub struct CfsRq {
    /// Entity of this queue that runs: a task, or the group of the running task (h_curr).
    pub curr: EntityId,
    /// Number of queued entities, including the running entity and delayed ones.
    pub nr_queued: u32,
    /// Number of queued tasks in this queue and in the groups whose entities are on it, directly or
    /// indirectly.
    pub h_nr_queued: u32,
    /// Number of the tasks in `h_nr_queued` that are not delayed.
    pub h_nr_runnable: u32,
    /// Number of the tasks in `h_nr_queued` that have the policy SCHED_IDLE or are in a group with
    /// cpu.idle.
    pub h_nr_idle: u32,
    /// Sum of the loads of the `nr_queued` entities.
    pub load: u64,
    pub avg: Avg,
    pub(crate) removed: Removed,
    /// Part that the queue contributed to its CPU's load at the jiffy `last_h_load_update`
    /// (h_load).
    pub(crate) h_load: u64,
    pub(crate) last_h_load_update: Option<u64>,
}

impl Default for CfsRq {
    fn default() -> CfsRq {
        CfsRq {
            curr: NONE,
            nr_queued: 0,
            h_nr_queued: 0,
            h_nr_runnable: 0,
            h_nr_idle: 0,
            load: 0,
            avg: Avg::of_queue(),
            removed: Removed::default(),
            h_load: 0,
            last_h_load_update: None,
        }
    }
}

/// The queue from which EEVDF picks the next task of a CPU. It contains the queued tasks of all
/// groups. In Linux, these fields belong to the root's struct cfs_rq.
pub struct Eevdf {
    /// Tree of all queued tasks except `curr` (tasks_timeline).
    pub(crate) timeline: Timeline,
    /// Custom slices of the tasks in `timeline`.
    pub(crate) slices: Slices,
    /// Task that runs, or the idle task's number.
    pub(crate) curr: TaskId,
    /// Task that is picked next if it is eligible (PICK_BUDDY), or the idle task's number.
    pub(crate) next: TaskId,
    /// Sum of the weights (`h_load`) of the tasks in `timeline`.
    pub(crate) sum_weight: i64,
    /// Sum of weight * (vruntime - `zero_vruntime`) of the tasks in `timeline`.
    pub(crate) sum_w_vruntime: i128,
    /// Origin of the vruntimes in `sum_w_vruntime`. It is regularly set to V, the average vruntime,
    /// so that the sum stays small.
    pub(crate) zero_vruntime: i64,
}

impl Default for Eevdf {
    fn default() -> Eevdf {
        Eevdf {
            timeline: Timeline::default(),
            slices: Slices::default(),
            curr: IDLE,
            next: IDLE,
            sum_weight: 0,
            sum_w_vruntime: 0,
            zero_vruntime: FIRST_VRUNTIME,
        }
    }
}

/// Work of the stopper for active balancing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    /// CPU to which a task moves.
    pub to: CpuId,
    /// Whether only tasks that prefer the LLC of this CPU may move (LBF_ACTIVE_LB_LLC).
    pub llc: bool,
}

/// State of the fair class on a CPU.
pub struct FairRq {
    /// The load of the CPU.
    pub cfs: CfsRq,
    /// The tasks of the CPU.
    pub(crate) eevdf: Eevdf,
    /// List of the fair tasks queued on the CPU in all groups. `newest` is the task that ran most
    /// recently (cfs_tasks).
    pub(crate) newest: TaskId,
    pub(crate) oldest: TaskId,
    /// Time at which the high-resolution tick ends the current slice, ns; NEVER if it is not set.
    pub(crate) hrtick_at: u64,
    /// Time for which the high-resolution tick was requested last, ns.
    pub(crate) hrtick_time: u64,
    /// Time at which the high-resolution tick was last moved to a later time, ns.
    pub(crate) hrtick_moved_at: u64,
    /// Whether an IPI that starts the high-resolution tick is on its way.
    pub(crate) hrtick_ipi: bool,
    /// Time of the pending event for the high-resolution tick, ns; NEVER if there is none.
    pub(crate) hrtick_event: u64,
    /// Time at which the CPU became idle, for new-idle balancing, ns; 0 while the CPU is busy.
    pub(crate) idle_stamp: u64,
    /// Average length of the CPU's idle periods, ns.
    pub(crate) avg_idle: u64,
    /// Largest recent cost of new-idle balancing of all domains together, ns.
    pub(crate) max_idle_balance_cost: u64,
    /// Jiffy at which periodic balancing is due.
    pub(crate) next_balance: u64,
    /// Load of the current task if the task needs a faster CPU, otherwise 0.
    pub(crate) misfit_task_load: u64,
    /// Work that the stopper will do. `None` unless it has been started (active_balance, push_cpu).
    pub(crate) push: Option<Push>,
    /// Capacity that the CPU has for fair tasks; 0 until it is calculated (cpu_capacity).
    pub(crate) cpu_capacity: u64,
    /// Work that other CPUs or the CPU itself have requested (nohz_flags): `nohz::STATS` and others.
    pub(crate) nohz_flags: u8,
    /// Whether the CPU's load is not 0, so that it decays while the CPU is idle.
    pub(crate) has_blocked_load: bool,
    /// Jiffy of the last update of the load of an idle CPU (last_blocked_load_update_tick).
    pub(crate) last_blocked_update: u64,
    /// Sum of the `util_est` of the tasks that are queued on the CPU and not delayed, in all groups
    /// (cfs.avg.util_est).
    pub(crate) util_est: u64,
    /// History of the wake-ups by interrupt handlers that ran while the CPU was idle.
    pub(crate) idle_wakes: WakeHistory,
    /// Clock of the load averages.
    pub(crate) clock: PeltClock,
}

/// History of the wake-ups that one task performs. It shows whether the task wakes many different
/// tasks (last_wakee, wakee_flips).
#[derive(Clone, Copy, Default)]
pub struct WakeHistory {
    pub last_wakee: TaskId,
    /// Number of wake-ups in which the woken task was not `last_wakee`, with decay.
    pub flips: u32,
    /// Time at which `flips` was last halved, ns.
    pub decayed_at: u64,
}

/// A task counts as cache-hot for this time after it last ran, ns (sysctl_sched_migration_cost).
pub const MIGRATION_COST: u64 = 500_000;

impl Default for FairRq {
    fn default() -> FairRq {
        FairRq {
            cfs: CfsRq::default(),
            eevdf: Eevdf::default(),
            newest: IDLE,
            oldest: IDLE,
            hrtick_at: NEVER,
            hrtick_time: 0,
            hrtick_moved_at: 0,
            hrtick_ipi: false,
            hrtick_event: NEVER,
            idle_stamp: 0,
            avg_idle: 2 * MIGRATION_COST,
            max_idle_balance_cost: MIGRATION_COST,
            next_balance: 0,
            misfit_task_load: 0,
            push: None,
            cpu_capacity: 0,
            nohz_flags: 0,
            has_blocked_load: false,
            last_blocked_update: 0,
            util_est: 0,
            idle_wakes: WakeHistory::default(),
            clock: PeltClock::default(),
        }
    }
}

impl FairRq {
    /// Adds a task to the list of the CPU's tasks, as the task that ran most recently (cfs_tasks).
    pub(crate) fn push_newest(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId) {
        let second = std::mem::replace(&mut self.newest, task);
        let e = &mut tasks[task].fair;
        (e.newer, e.older) = (IDLE, second);
        match second {
            IDLE => self.oldest = task,
            second => tasks[second].fair.newer = task,
        }
    }

    /// Removes a task from the list of the CPU's tasks (cfs_tasks).
    pub(crate) fn unlink(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId) {
        let e = &tasks[task].fair;
        let (newer, older) = (e.newer, e.older);
        match newer {
            IDLE => self.newest = older,
            newer => tasks[newer].fair.older = older,
        }
        match older {
            IDLE => self.oldest = newer,
            older => tasks[older].fair.newer = newer,
        }
    }
}
