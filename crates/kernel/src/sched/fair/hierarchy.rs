// SPDX-License-Identifier: GPL-2.0-only
//! Access to the queues and entities of the fair class, including those of task groups
//! ([`task_group`](crate::sched::fair::state::task_group)).

use crate::machine::Machine;
use crate::sched::fair::state::entity::{CfsRq, CfsRqId, Entity, EntityId, GROUP, NONE};
use crate::sched::fair::state::task_group::*;
use crate::simulation::id::{CpuId, TaskId};

impl Machine {
    #[inline]
    pub(super) fn queue(&mut self, id: CfsRqId) -> (&mut CfsRq, Entities<'_>) {
        queue(&mut self.rqs, &mut self.tasks, &mut self.task_groups, id)
    }

    #[inline]
    pub(crate) fn cfs(&self, id: CfsRqId) -> &CfsRq {
        if id < GROUP {
            &self.rqs[CpuId::from_root_queue(id)].fair.cfs
        } else {
            &self.task_groups.rq(id).cfs
        }
    }

    #[inline]
    pub(super) fn cfs_mut(&mut self, id: CfsRqId) -> &mut CfsRq {
        if id < GROUP {
            &mut self.rqs[CpuId::from_root_queue(id)].fair.cfs
        } else {
            &mut self.task_groups.rq_mut(id).cfs
        }
    }

    #[inline]
    pub(crate) fn se(&self, id: impl Into<EntityId>) -> &Entity {
        let id = id.into();
        if id < GROUP {
            &self.tasks[TaskId::from_entity(id)].fair
        } else {
            &self.task_groups.entities[(id & !GROUP) as usize]
        }
    }

    #[inline]
    pub(super) fn se_mut(&mut self, id: impl Into<EntityId>) -> &mut Entity {
        let id = id.into();
        if id < GROUP {
            &mut self.tasks[TaskId::from_entity(id)].fair
        } else {
            &mut self.task_groups.entities[(id & !GROUP) as usize]
        }
    }

    /// Returns the queue of `cpu` to which an entity belongs. A group's queue
    /// and the group's entity on the same CPU have the same number.
    #[inline]
    pub(crate) fn cfs_rq_of(&self, cpu: CpuId, id: impl Into<EntityId>) -> CfsRqId {
        match self.se(id).group {
            0 => cpu.nr(),
            group => self.task_groups.id(group, cpu),
        }
    }

    /// Returns the queue of `cpu` to which a task belongs.
    #[inline]
    pub(super) fn task_cfs_rq(&self, cpu: CpuId, task: TaskId) -> CfsRqId {
        match self.tasks[task].fair.group {
            0 => cpu.nr(),
            group => self.task_groups.id(group, cpu),
        }
    }

    #[inline]
    pub(super) fn queue_cpu(&self, id: CfsRqId) -> CpuId {
        if id < GROUP {
            CpuId::from_root_queue(id)
        } else {
            CpuId::from_root_queue((id & !GROUP) % self.task_groups.nr_cpus)
        }
    }

    /// Returns the fair task that runs on `cpu`.
    #[inline]
    pub(super) fn fair_curr(&self, cpu: CpuId) -> Option<TaskId> {
        let mut curr = self.rqs[cpu].fair.cfs.curr;
        while curr >= GROUP {
            if curr == NONE {
                return None;
            }
            curr = self.cfs(curr).curr;
        }
        Some(TaskId::from_entity(curr))
    }

    /// Returns the two entities that are compared to decide which of two tasks of `cpu` runs first,
    /// and the queue to which both entities belong (find_matching_se). Each entity is the task
    /// itself or a group that contains it.
    #[inline]
    pub(super) fn find_matching_se(&self, cpu: CpuId, a: TaskId, b: TaskId) -> (EntityId, EntityId, CfsRqId) {
        if self.tasks[a].fair.group == 0 && self.tasks[b].fair.group == 0 {
            return (a.into(), b.into(), cpu.nr());
        }
        self.find_matching_groups(cpu, a, b)
    }

    #[inline(never)]
    fn find_matching_groups(&self, cpu: CpuId, a: TaskId, b: TaskId) -> (EntityId, EntityId, CfsRqId) {
        let depth = |id: EntityId| self.task_groups.depth(self.se(id).group);
        let (mut a, mut b) = (EntityId::from(a), EntityId::from(b));
        while depth(a) > depth(b) {
            a = self.cfs_rq_of(cpu, a);
        }
        while depth(b) > depth(a) {
            b = self.cfs_rq_of(cpu, b);
        }
        while self.cfs_rq_of(cpu, a) != self.cfs_rq_of(cpu, b) {
            a = self.cfs_rq_of(cpu, a);
            b = self.cfs_rq_of(cpu, b);
        }
        (a, b, self.cfs_rq_of(cpu, a))
    }
}
