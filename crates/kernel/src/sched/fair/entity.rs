// SPDX-License-Identifier: GPL-2.0-only
//! The entities that compete (struct sched_entity), the queues they compete on (struct cfs_rq), and
//! the state of the fair class on each CPU.

use super::pelt::Avg;
use super::tree::{Position, Timeline};
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Load of a nice 0 task: its weight of 1024, shifted left by SCHED_FIXEDPOINT_SHIFT. The
/// additional bits give a group's share on a CPU more precision.
pub const NICE_0_LOAD: u32 = 1024 << LOAD_SHIFT;
const LOAD_SHIFT: u32 = 10;

/// Number of an entity. Below [`GROUP`] it is a task's slot; from there on it is a group on a CPU.
pub type EntityId = u32;
/// Stands for no entity.
pub const NONE: EntityId = EntityId::MAX;
/// Number of a queue. A root queue has the number of its CPU. A group's queue has the number of the
/// group's entity.
pub type CfsRqId = u32;
/// First number of entities and queues of groups.
pub const GROUP: u32 = 1 << 31;

/// Returns the load of a weight (scale_load).
pub fn scale_load(weight: u32) -> u32 {
    weight << LOAD_SHIFT
}

/// Returns the weight of a load (scale_load_down). It is at least 2 unless the load is 0.
#[inline]
pub fn scale_load_down(load: u64) -> u64 {
    if load == 0 { 0 } else { (load >> LOAD_SHIFT).max(2) }
}

/// A task in the fair class, or a group on a CPU. Virtual times are in ns of a nice 0 task.
#[derive(Clone)]
pub struct Entity {
    pub vruntime: i64,
    /// Virtual deadline. It is relative to vruntime while `rel_deadline` is set.
    pub deadline: i64,
    /// V - vruntime at the time of the last dequeue.
    pub vlag: i64,
    /// The entity may run at least up to this vruntime once it is picked (RUN_TO_PARITY).
    pub vprot: i64,
    pub rel_deadline: bool,
    /// Whether the entity is queued, running or `delayed`.
    pub on_rq: bool,
    /// Whether the entity is asleep but competes until its lag is paid back (sched_delayed).
    pub delayed: bool,
    /// Whether the task is counted in `h_nr_idle`.
    pub counted_idle: bool,
    /// Whether the task is off its queue because its cgroup has used up its runtime.
    pub throttled: bool,
    /// A task's load weight, or a group's share of its weight on this CPU; see [`NICE_0_LOAD`].
    pub load: u32,
    /// Cgroup on whose queue the entity competes; 0 is the root.
    pub group: u32,
    /// Time at which the entity last used CPU time, ns; 0 after a migration.
    pub exec_start: u64,
    /// CPU before the last one. Wake-ups try it as well.
    pub recent_used_cpu: CpuId,
    pub avg: Avg,
    /// Smoothed utilization at the times the task went to sleep.
    pub util_est: u64,
    pub(super) position: Position,
    /// Neighbours in the list of tasks by their last run (cfs_tasks).
    pub(super) newer: TaskId,
    pub(super) older: TaskId,
}

impl Default for Entity {
    fn default() -> Entity {
        Entity {
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            vprot: 0,
            rel_deadline: false,
            on_rq: false,
            delayed: false,
            counted_idle: false,
            throttled: false,
            load: NICE_0_LOAD,
            group: 0,
            exec_start: 0,
            recent_used_cpu: CpuId::BOOT,
            avg: Avg::default(),
            util_est: 0,
            position: (0, 0),
            newer: IDLE,
            older: IDLE,
        }
    }
}

impl Entity {
    /// Returns the entity of a new task in a cgroup.
    pub fn for_task(cgroup: u32) -> Entity {
        Entity {
            group: cgroup,
            ..Entity::default()
        }
    }

    /// Returns the virtual time that corresponds to `ns` of CPU time at this load
    /// (calc_delta_fair).
    #[inline]
    pub fn delta_fair(&self, ns: u64) -> i64 {
        if self.load == NICE_0_LOAD {
            ns as i64
        } else {
            ns as i64 * i64::from(NICE_0_LOAD) / i64::from(self.load)
        }
    }

    /// Returns the weight of the entity (se_weight).
    #[inline]
    pub fn weight(&self) -> u64 {
        u64::from((self.load >> LOAD_SHIFT).max(2))
    }

    /// Returns whether the current entity may not be preempted yet (RUN_TO_PARITY).
    pub fn protected(&self) -> bool {
        self.vruntime < self.vprot
    }

    /// Returns the greater of the current utilization and the one before the last sleep
    /// (task_util_est).
    pub fn util(&self) -> u64 {
        self.avg.util_avg.max(self.util_est)
    }
}

/// The entities of a CPU that compete with each other: those of the root or those of a cgroup
/// (struct cfs_rq).
pub struct CfsRq {
    /// All queued entities except `curr`.
    pub(super) timeline: Timeline,
    pub curr: EntityId,
    /// Number of entities that compete: queued, running and delayed.
    pub nr_queued: u32,
    /// Number of tasks that compete here and in the groups below.
    pub h_nr_queued: u32,
    /// Number of those tasks that are not delayed.
    pub h_nr_runnable: u32,
    /// Number of those tasks that have SCHED_IDLE or are in a group with cpu.idle.
    pub h_nr_idle: u32,
    /// Sum of the loads of the `nr_queued` entities.
    pub load: u64,
    /// Sums over the timeline: of the weights, and of weight * (vruntime - zero_vruntime).
    pub(super) sum_weight: i64,
    pub(super) sum_w_vruntime: i64,
    /// Origin of the vruntimes in these sums. It follows V.
    pub(super) zero_vruntime: i64,
    pub avg: Avg,
}

impl Default for CfsRq {
    fn default() -> CfsRq {
        CfsRq {
            timeline: Timeline::default(),
            curr: NONE,
            nr_queued: 0,
            h_nr_queued: 0,
            h_nr_runnable: 0,
            h_nr_idle: 0,
            load: 0,
            sum_weight: 0,
            sum_w_vruntime: 0,
            zero_vruntime: 0,
            avg: Avg::default(),
        }
    }
}

/// State of the fair class on a CPU.
pub struct FairRq {
    /// The root's queue.
    pub cfs: CfsRq,
    /// List of the queued tasks of all groups, the one that ran last first (cfs_tasks).
    pub(super) newest: TaskId,
    pub(super) oldest: TaskId,
    /// Time at which the high-resolution tick ends the slice, ns; NEVER for none.
    pub(super) hrtick_at: u64,
    /// Time of the pending event of that tick, ns; NEVER for none.
    pub(super) hrtick_event: u64,
    /// Time at which the CPU became idle, for new-idle balancing; 0 while it is busy.
    pub(super) idle_stamp: u64,
    /// Average time that the CPU idles, ns.
    pub(super) avg_idle: u64,
    /// Largest recent cost of new-idle balancing over all domains, ns.
    pub(super) max_idle_balance_cost: u64,
    /// Jiffy at which periodic balancing is due.
    pub(super) next_balance: u64,
    /// Load of the current task if it needs a faster CPU, otherwise 0.
    pub(super) misfit_task_load: u64,
    /// CPU to which the stopper, which has been started, will push a task (active_balance,
    /// push_cpu).
    pub(super) push_cpu: Option<CpuId>,
    /// Whether an IPI for nohz idle balancing is on its way.
    pub(super) nohz_kicked: bool,
    /// Wake-ups by the idle task, which are those by interrupts.
    pub(super) idle_wakes: WakeHistory,
}

/// A task's record of its wake-ups. It shows whether the task wakes many different tasks
/// (last_wakee, wakee_flips).
#[derive(Clone, Copy, Default)]
pub struct WakeHistory {
    pub last_wakee: TaskId,
    /// Number of times that the woken task was not `last_wakee`.
    pub flips: u32,
    /// Time at which `flips` was last halved, ns.
    pub decayed_at: u64,
}

/// A time that is never reached.
pub const NEVER: u64 = u64::MAX;
/// Time since its last run during which a task counts as cache-hot (sysctl_sched_migration_cost),
/// ns.
pub const MIGRATION_COST: u64 = 500_000;

impl Default for FairRq {
    fn default() -> FairRq {
        FairRq {
            cfs: CfsRq::default(),
            newest: IDLE,
            oldest: IDLE,
            hrtick_at: NEVER,
            hrtick_event: NEVER,
            idle_stamp: 0,
            avg_idle: 2 * MIGRATION_COST,
            max_idle_balance_cost: MIGRATION_COST,
            next_balance: 0,
            misfit_task_load: 0,
            push_cpu: None,
            nohz_kicked: false,
            idle_wakes: WakeHistory::default(),
        }
    }
}
