// SPDX-License-Identifier: GPL-2.0-only
//! What competes (struct sched_entity), what it competes on (struct cfs_rq), and what the fair class keeps of each CPU.

use super::pelt::Avg;
use super::tree::{Place, Timeline};
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Load of a nice 0 task: its weight of 1024, with SCHED_FIXEDPOINT_SHIFT bits for what groups have of theirs on a CPU.
pub const NICE_0_LOAD: u32 = 1024 << LOAD_SHIFT;
const LOAD_SHIFT: u32 = 10;

/// What competes on a CfsRq: a task by its slot, or from [`GROUP`] on a group on a CPU.
pub type EntityId = u32;
/// No entity.
pub const NONE: EntityId = EntityId::MAX;
/// CPU of a root queue; a group's queue has the number of the entity that stands for it above.
pub type CfsRqId = u32;
/// Numbers of groups on CPUs begin here.
pub const GROUP: u32 = 1 << 31;

/// The load of a weight (scale_load).
pub fn scale_load(weight: u32) -> u32 {
    weight << LOAD_SHIFT
}

/// The weight of a load (scale_load_down). What has a load has a weight of 2 at least.
#[inline]
pub fn scale_load_down(load: u64) -> u64 {
    if load == 0 { 0 } else { (load >> LOAD_SHIFT).max(2) }
}

/// A task in the fair class, or a group on a CPU. Virtual times are ns of a nice 0 task.
#[derive(Clone)]
pub struct Entity {
    pub vruntime: i64,
    /// Relative to vruntime while `rel_deadline`.
    pub deadline: i64,
    /// V - vruntime when it was dequeued.
    pub vlag: i64,
    /// It runs at least up to this vruntime once picked (RUN_TO_PARITY).
    pub vprot: i64,
    pub rel_deadline: bool,
    /// Queued or running, or `delayed`.
    pub on_rq: bool,
    /// Asleep but still competing until its lag is paid back (sched_delayed).
    pub delayed: bool,
    /// Counted in the runqueue's `nr_idle`.
    pub counted_idle: bool,
    /// In a cgroup that is throttled, and off its queue until that has runtime.
    pub throttled: bool,
    /// Of a task the weight, of a group what this CPU has of its; see [`NICE_0_LOAD`].
    pub load: u32,
    /// Cgroup whose queue it competes on; 0: the root's.
    pub group: u32,
    /// When it last used CPU time; 0 after a migration.
    pub exec_start: u64,
    /// The CPU before its last one, a candidate at wake-up.
    pub recent_used_cpu: CpuId,
    pub avg: Avg,
    /// Utilisation when it last went to sleep, smoothed.
    pub util_est: u64,
    pub(super) place: Place,
    /// Neighbours in cfs_tasks.
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
            place: (0, 0),
            newer: IDLE,
            older: IDLE,
        }
    }
}

impl Entity {
    /// Of a new task in a cgroup.
    pub fn of_task(cgroup: u32) -> Entity {
        Entity {
            group: cgroup,
            ..Entity::default()
        }
    }

    /// Virtual time that `ns` of CPU time are for this load (calc_delta_fair).
    #[inline]
    pub fn delta_fair(&self, ns: u64) -> i64 {
        if self.load == NICE_0_LOAD {
            ns as i64
        } else {
            ns as i64 * i64::from(NICE_0_LOAD) / i64::from(self.load)
        }
    }

    /// se_weight
    #[inline]
    pub fn weight(&self) -> u64 {
        u64::from((self.load >> LOAD_SHIFT).max(2))
    }

    pub fn protected(&self) -> bool {
        self.vruntime < self.vprot
    }

    /// task_util_est: the greater of what it uses and what it used before it slept.
    pub fn util(&self) -> u64 {
        self.avg.util_avg.max(self.util_est)
    }
}

/// Entities of a CPU that compete with each other: the root's, or those in a cgroup.
pub struct CfsRq {
    /// All queued entities but `curr`.
    pub(super) timeline: Timeline,
    pub curr: EntityId,
    /// Entities that compete: queued, running and delayed ones.
    pub nr_queued: u32,
    /// Tasks that compete here and in the groups below.
    pub h_nr_queued: u32,
    /// Those that can run.
    pub h_nr_runnable: u32,
    /// SCHED_IDLE tasks, and those in groups with cpu.idle, among `h_nr_queued`.
    pub h_nr_idle: u32,
    /// Sum of the loads of `nr_queued`.
    pub load: u64,
    /// Sums over the timeline: weights, and (vruntime - zero_vruntime) by weight.
    pub(super) sum_weight: i64,
    pub(super) sum_w_vruntime: i64,
    /// Follows V closely.
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

/// The fair class' part of a runqueue.
pub struct FairRq {
    /// The root's queue.
    pub cfs: CfsRq,
    /// cfs_tasks: queued tasks of all groups, the one that ran last first.
    pub(super) newest: TaskId,
    pub(super) oldest: TaskId,
    /// When the slice ends by the high resolution tick, and the time of its pending event; NEVER if none.
    pub(super) hrtick_at: u64,
    pub(super) hrtick_event: u64,
    /// When the CPU became idle as newidle balancing sees it; 0 while busy.
    pub(super) idle_stamp: u64,
    pub(super) avg_idle: u64,
    pub(super) max_idle_balance_cost: u64,
    /// Jiffy at which periodic balancing is due.
    pub(super) next_balance: u64,
    /// Load of curr if it needs a faster CPU, else 0.
    pub(super) misfit_task_load: u64,
    /// The stopper is on its way to push a task to this CPU (active_balance, push_cpu).
    pub(super) push_cpu: Option<CpuId>,
    /// An IPI is on its way that asks for nohz idle balancing.
    pub(super) nohz_kicked: bool,
    /// What the idle task, in interrupts, woke last.
    pub(super) idle_wakes: Wakes,
}

/// Whom a task wakes, for the test whether it wakes many (last_wakee and wakee_flips).
#[derive(Clone, Copy, Default)]
pub struct Wakes {
    pub last_wakee: TaskId,
    pub flips: u32,
    pub decayed_at: u64,
}

pub const NEVER: u64 = u64::MAX;
/// sysctl_sched_migration_cost, ns.
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
            idle_wakes: Wakes::default(),
        }
    }
}
