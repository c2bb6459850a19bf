// SPDX-License-Identifier: GPL-2.0-only
//! A task as the simulated kernel keeps it. What a BPF program can see of it is its `task_struct` in the
//! machine's region (`policy::layout`); a field lives in one of the two places only, but for identity and affinity,
//! which never change behind the kernel's back and are mirrored when set.

use super::{ext, fair, rt};
use crate::hardware::caches::Footprint;
use crate::hardware::cpuset::CpuSet;
use crate::programs::cursor::Cursor;
use crate::sched::class::Class;
use crate::simulation::id::{CpuId, TaskId};
use crate::watch::check::{ALL_CPUS, AffinityGroup};
use workload::Policy;

/// `__state` of task_struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Interruptible,
    Uninterruptible,
    /// Exited; the slot is free.
    Dead,
}

/// What every wake-up and switch touches stands first, so that it takes few cache lines.
#[repr(C, align(64))]
pub struct Task {
    /// Address of its task_struct in the region.
    pub addr: u64,
    /// CPU time used, ns.
    pub sum_exec_runtime: u64,
    /// When it last became runnable (woken, or switched out while runnable).
    pub waiting_since: u64,
    pub pid: u32,
    /// The CPU it runs on or ran on last.
    pub cpu: CpuId,
    /// `cpus` as the checker knows it.
    pub affinity: AffinityGroup,
    pub nr_cpus_allowed: u32,
    /// Migration is disabled while above 0.
    pub migration_disabled: u32,
    /// PF_WQ_WORKER, PF_EXITING and so on, as in task_struct.
    pub flags: u32,
    /// Generation of its pending Wake event.
    pub wake_generation: u32,
    pub state: State,
    pub class: Class,
    /// Queued in its class, or running.
    pub on_rq: bool,
    /// It is `curr` of `cpu`.
    pub on_cpu: bool,
    pub ext: ext::entity::Entity,
    pub program: Cursor,
    pub fair: fair::entity::Entity,
    pub rt: rt::queue::Entity,
    pub policy: Policy,
    /// 100 + 20 + nice.
    pub static_prio: i32,
    /// 1..=99 for SCHED_FIFO and SCHED_RR, else 0.
    pub rt_priority: u32,
    /// sched_prio_to_weight of the nice level.
    pub weight: u32,
    pub cpus: CpuSet,
    /// Who woke it last, for wake_affine's wide test.
    pub last_wakee: TaskId,
    pub wakee_flips: u32,
    pub wakee_flip_decay: u64,
    pub footprint: Footprint,
    pub tgid: u32,
    /// Pid of the creator; 0 for a task of the workload's start, or once the creator has gone it names nobody.
    pub parent: u32,
    pub children: u32,
    /// Process (address space) number.
    pub process: u32,
    pub cgroup: u32,
    /// Cgroup it is about to leave (cgrp_moving_from).
    pub moving_from: Option<u32>,
    pub comm: String,
}

impl Task {
    /// What live tasks are ordered by: process, then thread.
    pub(crate) fn place(&self) -> u64 {
        u64::from(self.tgid) << 32 | u64::from(self.pid)
    }

    /// The kernel's effective priority: -1 deadline, 0..=98 realtime, 100..=139 normal.
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

    /// May it run on `cpu`, which is one of the machine? Most may run on all, and then there is no need to look at the set.
    #[inline]
    pub fn allows(&self, cpu: CpuId) -> bool {
        self.affinity == ALL_CPUS || self.cpus.contains(cpu)
    }

    pub fn runnable(&self) -> bool {
        self.state == State::Running
    }
}

/// CPU share weights of nice -20..=19, each step about 25 % (sched_prio_to_weight, kernel/sched/core.c).
pub const PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];
/// Weight of SCHED_IDLE tasks (WEIGHT_IDLEPRIO).
pub const WEIGHT_IDLEPRIO: u32 = 3;
