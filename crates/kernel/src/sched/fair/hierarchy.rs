// SPDX-License-Identifier: GPL-2.0-only
//! Access to the queues and entities of the fair class, including those of task groups
//! ([`task_group`](crate::sched::fair::state::task_group)).

use crate::machine::Machine;
use crate::sched::fair::state::entity::{CfsRq, CfsRqId, Entity, EntityId, GROUP};
use crate::sched::fair::state::task_group::*;
use crate::simulation::id::{CpuId, IDLE, TaskId};

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
        let curr = self.rqs[cpu].fair.eevdf.curr;
        (curr != IDLE).then_some(curr)
    }
}
