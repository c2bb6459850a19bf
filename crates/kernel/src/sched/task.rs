// SPDX-License-Identifier: GPL-2.0-only
//! The simulated kernel's data about a task.
//!
//! BPF programs do not see this struct. They see a separate `task_struct` (`policy::layout`). Each
//! field exists in only one of the two. The exceptions are the task's identity and affinity, which
//! are copied to the `task_struct` whenever they change.

use super::{ext, fair, rt};
use crate::hardware::caches::Footprint;
use crate::hardware::cpuset::CpuSet;
use crate::programs::cursor::Cursor;
use crate::sched::class::Class;
use crate::simulation::id::{CpuId, TaskId};
use std::rc::Rc;
use workload::Policy;

/// State of a task (`__state` of task_struct).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    /// The task is on the wake list of its CPU, which will queue it (TASK_WAKING).
    Waking,
    Interruptible,
    Uninterruptible,
    /// The task has exited.
    Dead,
}

/// Next action of the running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The task has work to do and keeps the CPU.
    Work,
    Yield,
    /// The task goes to sleep. With `State::Dead`, it has exited.
    Block(State),
}

/// Number that identifies a set of allowed CPUs: 0 for all CPUs, `1 + cpu` for a single CPU. Other
/// sets get larger numbers in the order in which they are first used.
pub type AffinityGroup = u32;

pub const ALL_CPUS: AffinityGroup = 0;

/// A task. The fields that every wake-up and every switch use come first, so that these operations
/// access few cache lines of the computer that runs the simulation.
#[repr(C, align(64))]
pub struct Task {
    /// Address at which BPF programs see the task's `task_struct`.
    pub addr: u64,
    /// CPU time that the task has used, ns.
    pub sum_exec_runtime: u64,
    /// Time at which the task's wait for a CPU began, ns. The task either became runnable or was
    /// switched out while it was still runnable.
    pub waiting_since: u64,
    pub pid: u32,
    /// CPU on which the task runs or ran last.
    pub cpu: CpuId,
    /// Number by which `watch::check` identifies the set `cpus`.
    pub affinity: AffinityGroup,
    pub nr_cpus_allowed: u32,
    /// Nesting depth of migrate_disable(); migration is disabled while it is above 0.
    pub migration_disabled: u32,
    /// PF_* flags such as PF_WQ_WORKER and PF_EXITING, as in task_struct.
    pub flags: u32,
    /// Time at which the CPU that ran the task last finishes its switch to the next task, ns. In
    /// Linux, `p->on_cpu` is set until then.
    pub off_cpu_at: u64,
    /// Generation number of the pending Wake event. Wake events with other numbers are ignored.
    pub wake_generation: u32,
    pub state: State,
    pub class: Class,
    /// Whether the task is running or queued in its class.
    pub on_rq: bool,
    /// Whether the task is the current task of `cpu`.
    pub on_cpu: bool,
    pub ext: ext::entity::Entity,
    pub program: Cursor,
    pub fair: fair::entity::Entity,
    pub rt: rt::queue::Entity,
    pub policy: Policy,
    /// Static priority: 120 plus the nice value.
    pub static_prio: i32,
    /// Real-time priority: 1 to 99 for SCHED_FIFO and SCHED_RR, 100 for SCHED_DEADLINE, 0 for all
    /// other policies.
    pub rt_priority: u32,
    /// Load weight of the nice value (sched_prio_to_weight).
    pub weight: u32,
    /// CPUs on which the task may run. Tasks with equal sets share one set ([`Checks::group`]).
    ///
    /// [`Checks::group`]: crate::watch::check::Checks::group
    pub cpus: Rc<CpuSet>,
    /// Task that this task has woken most recently (wake_wide, kernel/sched/fair.c).
    pub last_wakee: TaskId,
    pub wakee_flips: u32,
    pub wakee_flip_decay: u64,
    pub footprint: Footprint,
    /// State of NUMA balancing, if it is on and the task has a footprint.
    pub(crate) numa: Option<Box<fair::numa::NumaTask>>,
    pub tgid: u32,
    /// Pid of the parent, which may have exited. It is 0 if the workload itself started the task.
    pub parent: u32,
    pub children: u32,
    /// Number of the task's process in the simulator. Tasks of a process share an address space.
    pub process: u32,
    pub cgroup: u32,
    /// Cgroup that the task is about to leave (cgrp_moving_from).
    pub moving_from: Option<u32>,
    pub comm: String,
}

impl Task {
    /// Returns the key that orders live tasks: by process, then by pid.
    pub(crate) fn sort_key(&self) -> u64 {
        u64::from(self.tgid) << 32 | u64::from(self.pid)
    }

    /// Returns `p->prio` as the kernel calculates it: -1 for deadline tasks, 0 to 98 for real-time
    /// tasks and 100 to 139 for normal tasks.
    pub fn prio(&self) -> i32 {
        if self.rt_priority > 0 {
            99 - self.rt_priority as i32
        } else {
            self.static_prio
        }
    }

    pub fn nice(&self) -> i32 {
        self.static_prio - 120
    }

    /// Returns whether the task may run on `cpu`. Most tasks may run on all CPUs, so this case is
    /// tested first. It needs no access to the CPU set.
    #[inline]
    pub fn allows(&self, cpu: CpuId) -> bool {
        self.affinity == ALL_CPUS || self.cpus.contains(cpu)
    }

    pub fn runnable(&self) -> bool {
        self.state == State::Running
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
