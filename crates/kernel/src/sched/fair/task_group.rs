// SPDX-License-Identifier: GPL-2.0-only
//! Task groups (struct task_group): for each cgroup and CPU a queue of what is in it, and an entity that stands for it on
//! the queue of the cgroup above.
//!
//! A task in the root competes on its CPU's own queue, so a machine without cgroups has none of this. The entity of a
//! group on a CPU and its queue have the same number, from [`GROUP`] on.

use super::entity::{CfsRq, CfsRqId, Entity, EntityId, GROUP, scale_load};
use crate::sched::fair::quota::{Bandwidth, Runtime};
use crate::sched::rq::Rq;
use crate::sched::task::Task;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::{Id, Table};
use std::ops::{Index, IndexMut};

/// A cgroup as the fair class has it.
pub(super) struct TaskGroup {
    /// The cgroup it is in.
    pub parent: u32,
    /// Cgroups above it; the root has 0.
    pub depth: u32,
    /// What its entities share, scaled as an entity's load (tg->shares).
    pub shares: u32,
    /// cpu.idle
    pub idle: bool,
    /// Sum of what its queues contribute (tg->load_avg).
    pub load_avg: u64,
    pub bandwidth: Bandwidth,
}

/// The queue of a group on one CPU.
#[derive(Default)]
pub(super) struct GroupRq {
    pub cfs: CfsRq,
    /// Tasks that could run when the entity was last brought up to date (se->runnable_weight).
    pub runnable: u32,
    /// Load that came or went and that the entity does not show yet (prop_runnable_sum).
    pub propagate: Option<i64>,
    /// Part in the group's `load_avg`, and when that was last set, ns.
    pub tg_load_avg_contrib: u64,
    pub last_update_tg: u64,
    pub runtime: Runtime,
}

#[derive(Default)]
pub struct TaskGroups {
    pub(super) nr_cpus: u32,
    /// By number of the cgroup; empty if there is the root alone.
    pub(super) groups: Vec<TaskGroup>,
    /// By cgroup and CPU.
    pub(super) entities: Vec<Entity>,
    pub(super) queues: Vec<GroupRq>,
    /// Cgroups but the root, each before the one it is in.
    pub(super) bottom_up: Vec<u32>,
    /// Some group has or had a limit (cfs_bandwidth_used).
    pub(super) limited: bool,
    /// When the load of idle CPUs decays next, ns.
    pub(super) next_blocked: u64,
}

impl TaskGroups {
    /// The groups of these cgroups, given the number of the one above and the weight of each. The first is the root.
    pub(crate) fn new(nr_cpus: u32, cgroups: &[(Option<u32>, u32)]) -> TaskGroups {
        if cgroups.len() <= 1 {
            return TaskGroups::default();
        }
        let depth = |at: u32| std::iter::successors(Some(at), |&at| cgroups[at as usize].0).count() as u32 - 1;
        let group = |(number, &(parent, weight)): (usize, &(Option<u32>, u32))| TaskGroup {
            parent: parent.unwrap_or(0),
            depth: depth(number as u32),
            shares: shares(weight),
            idle: false,
            load_avg: 0,
            bandwidth: Bandwidth::default(),
        };
        let groups: Vec<TaskGroup> = cgroups.iter().enumerate().map(group).collect();
        let mut bottom_up: Vec<u32> = (1..groups.len() as u32).collect();
        bottom_up.sort_by_key(|&number| std::cmp::Reverse(groups[number as usize].depth));
        let of_parent = |group: &TaskGroup| Entity {
            group: group.parent,
            load: group.shares,
            ..Entity::default()
        };
        let per_cpu = |group| (0..nr_cpus).map(move |_| of_parent(group));
        TaskGroups {
            nr_cpus,
            entities: groups.iter().flat_map(per_cpu).collect(),
            queues: (0..nr_cpus * groups.len() as u32).map(|_| GroupRq::default()).collect(),
            groups,
            bottom_up,
            limited: false,
            next_blocked: 0,
        }
    }

    /// There is the root alone.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Some group has or had a limit (cfs_bandwidth_used).
    #[inline]
    pub(crate) fn limited(&self) -> bool {
        self.limited
    }

    /// Number of a cgroup's queue and entity on a CPU.
    #[inline]
    pub(super) fn id(&self, group: u32, cpu: CpuId) -> CfsRqId {
        debug_assert!(group > 0 && cpu.nr() < self.nr_cpus);
        GROUP | (group * self.nr_cpus + cpu.nr())
    }

    /// The cgroup that a number is of.
    pub(super) fn group_of(&self, id: CfsRqId) -> u32 {
        (id & !GROUP) / self.nr_cpus
    }

    pub(super) fn group(&self, id: CfsRqId) -> &TaskGroup {
        &self.groups[self.group_of(id) as usize]
    }

    pub(super) fn rq(&self, id: CfsRqId) -> &GroupRq {
        &self.queues[(id & !GROUP) as usize]
    }

    pub(super) fn rq_mut(&mut self, id: CfsRqId) -> &mut GroupRq {
        &mut self.queues[(id & !GROUP) as usize]
    }

    /// Whether `group` is `above` or somewhere in it.
    pub(super) fn is_in(&self, group: u32, above: u32) -> bool {
        let mut at = group;
        while at != above && at != 0 {
            at = self.groups[at as usize].parent;
        }
        at == above
    }

    pub(super) fn depth(&self, group: u32) -> u32 {
        self.groups.get(group as usize).map_or(0, |group| group.depth)
    }

    /// Makes a cgroup's queues as they are at first.
    pub(super) fn reset(&mut self, group: u32, weight: u32) {
        let TaskGroup { parent, depth, .. } = self.groups[group as usize];
        let generation = self.groups[group as usize].bandwidth.generation;
        self.groups[group as usize] = TaskGroup {
            parent,
            depth,
            shares: shares(weight),
            idle: false,
            load_avg: 0,
            bandwidth: Bandwidth::after(generation),
        };
        for cpu in 0..self.nr_cpus {
            let at = (group * self.nr_cpus + cpu) as usize;
            debug_assert!(self.queues[at].cfs.nr_queued == 0 && !self.entities[at].on_rq);
            self.entities[at] = Entity {
                group: parent,
                load: shares(weight),
                ..Entity::default()
            };
            self.queues[at] = GroupRq::default();
        }
    }
}

/// What a cpu.weight is worth (sched_weight_from_cgroup): 100 is a nice 0 task.
pub(super) fn shares(weight: u32) -> u32 {
    scale_load((weight * 1024 + 50) / 100)
}

/// Tasks' and groups' entities by number.
pub(super) struct Entities<'a> {
    pub(super) tasks: &'a mut Table<TaskId, Task>,
    pub(super) groups: &'a mut Vec<Entity>,
}

impl TaskId {
    /// The task that an entity below [`GROUP`] is.
    #[inline]
    pub(super) fn of_entity(id: EntityId) -> TaskId {
        TaskId::new(id as usize)
    }
}

impl CpuId {
    /// Returns the CPU of a root queue, whose number is below [`GROUP`].
    #[inline]
    pub(super) fn of_root_queue(id: CfsRqId) -> CpuId {
        CpuId::new(id as usize)
    }
}

impl From<TaskId> for EntityId {
    #[inline]
    fn from(task: TaskId) -> EntityId {
        task.slot()
    }
}

impl Index<EntityId> for Entities<'_> {
    type Output = Entity;

    #[inline]
    fn index(&self, id: EntityId) -> &Entity {
        if id < GROUP {
            &self.tasks[TaskId::of_entity(id)].fair
        } else {
            &self.groups[(id & !GROUP) as usize]
        }
    }
}

impl IndexMut<EntityId> for Entities<'_> {
    #[inline]
    fn index_mut(&mut self, id: EntityId) -> &mut Entity {
        if id < GROUP {
            &mut self.tasks[TaskId::of_entity(id)].fair
        } else {
            &mut self.groups[(id & !GROUP) as usize]
        }
    }
}

/// A queue and all entities.
#[inline]
pub(super) fn queue<'a>(
    rqs: &'a mut Table<CpuId, Rq>,
    tasks: &'a mut Table<TaskId, Task>,
    groups: &'a mut TaskGroups,
    id: CfsRqId,
) -> (&'a mut CfsRq, Entities<'a>) {
    let TaskGroups { entities, queues, .. } = groups;
    let cfs = if id < GROUP {
        &mut rqs[CpuId::of_root_queue(id)].fair.cfs
    } else {
        &mut queues[(id & !GROUP) as usize].cfs
    };
    let groups = entities;
    (cfs, Entities { tasks, groups })
}
