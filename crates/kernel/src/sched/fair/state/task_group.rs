// SPDX-License-Identifier: GPL-2.0-only
//! Task groups (struct task_group). A cgroup has a task group, which has a queue and an entity on
//! each CPU.
//!
//! The queue counts the load of the cgroup's tasks and of the entities of its child cgroups. The
//! group's entity represents the cgroup on the queue of its parent. The queue and the entity have
//! the same number, which is at least [`GROUP`]. EEVDF does not pick from these queues but from the
//! tasks of all groups ([`Eevdf`](super::entity::Eevdf)).
//!
//! ```text
//! root's queue on CPU 0:    task A   entity of /x
//!                                        |
//! queue of /x on CPU 0:              task B   task C
//! ```
//!
//! Tasks in the root cgroup are on the root queue of their CPU, so a machine without other cgroups
//! has no task groups.

use crate::sched::fair::state::entity::{CfsRq, CfsRqId, Entity, EntityId, GROUP, scale_load};
use crate::sched::fair::state::leaf::LeafList;
use crate::sched::fair::state::quota::{Bandwidth, Runtime};
use crate::sched::state::rq::Rq;
use crate::sched::state::task::Task;
use crate::simulation::id::{CpuId, TaskId};
use crate::simulation::table::{Id, Table};
use std::ops::{Index, IndexMut};

/// State of a cgroup in the fair class.
pub(crate) struct TaskGroup {
    /// The parent cgroup.
    pub parent: u32,
    /// Number of ancestors; 0 for the root.
    pub depth: u32,
    /// Weight of the group, which is divided among its CPUs. It is scaled like the load of an
    /// entity (tg->shares).
    pub shares: u64,
    /// Whether all tasks of the group count as SCHED_IDLE (cpu.idle).
    pub idle: bool,
    /// Sum of the contributions of the group's queues to its load (tg->load_avg).
    pub load_avg: u64,
    /// Sum of their contributions to its runnable average (tg->runnable_avg). Divided by 1024, it
    /// estimates the number of runnable tasks.
    pub runnable_avg: u64,
    pub bandwidth: Bandwidth,
}

/// The queue of a group on one CPU.
#[derive(Default)]
pub(crate) struct GroupRq {
    pub cfs: CfsRq,
    /// Number of runnable tasks when the group's entity was last updated (se->runnable_weight).
    pub runnable: u32,
    /// Load that has joined (positive) or left (negative) the queue since the group's entity was
    /// last updated (prop_runnable_sum).
    pub propagate: Option<i64>,
    /// Whether the queue is in the list of its CPU (cfs_rq->on_list).
    pub on_list: bool,
    /// Contribution of this queue to the group's `load_avg`.
    pub tg_load_avg_contrib: u64,
    /// Contribution of this queue to the group's `runnable_avg`.
    pub tg_runnable_avg_contrib: u64,
    /// Time at which the contributions were last updated, ns.
    pub last_update_tg: Option<u64>,
    pub runtime: Runtime,
}

/// Returns all groups except the root in the order of [`TaskGroups::bottom_up`].
fn bottom_up(groups: &[TaskGroup]) -> Vec<u32> {
    let mut children = vec![Vec::new(); groups.len()];
    for number in 1..groups.len() {
        children[groups[number].parent as usize].push(number as u32);
    }
    // The order is the reverse of the one in which each group comes before its children.
    let (mut order, mut rest) = (Vec::new(), vec![0]);
    while let Some(group) = rest.pop() {
        order.push(group);
        rest.extend(children[group as usize].iter().rev());
    }
    order.reverse();
    order.pop();
    order
}

/// All task groups of a machine.
#[derive(Default)]
pub struct TaskGroups {
    pub(crate) nr_cpus: u32,
    /// Groups, indexed by the number of their cgroup. The list is empty if the root is the only
    /// cgroup.
    pub(crate) groups: Vec<TaskGroup>,
    /// Entities, indexed by cgroup and CPU.
    pub(crate) entities: Vec<Entity>,
    /// Queues, indexed by cgroup and CPU.
    pub(crate) queues: Vec<GroupRq>,
    /// For each CPU, the queues whose load averages are updated at regular intervals.
    pub(crate) leaves: Vec<LeafList>,
    /// All cgroups except the root, children before parents, and the newest of several children first
    /// (walk_tg_tree).
    pub(crate) bottom_up: Vec<u32>,
    /// Whether any group has or had a cpu.max limit (cfs_bandwidth_used).
    pub(crate) limited: bool,
    /// Whether any task has or had a custom slice.
    pub(crate) custom_slices: bool,
}

impl TaskGroups {
    /// Creates the task groups. `cgroups` contains the parent and the weight of each cgroup,
    /// starting with the root.
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
            runnable_avg: 0,
            bandwidth: Bandwidth::default(),
        };
        let groups: Vec<TaskGroup> = cgroups.iter().enumerate().map(group).collect();
        let bottom_up = bottom_up(&groups);
        let of_parent = |group: &TaskGroup| Entity {
            group: group.parent,
            ..Entity::default()
        };
        let per_cpu = |group| (0..nr_cpus).map(move |_| of_parent(group));
        TaskGroups {
            nr_cpus,
            entities: groups.iter().flat_map(per_cpu).collect(),
            queues: (0..nr_cpus * groups.len() as u32).map(|_| GroupRq::default()).collect(),
            leaves: vec![LeafList::default(); nr_cpus as usize],
            groups,
            bottom_up,
            limited: false,
            custom_slices: false,
        }
    }

    /// Returns whether any group has or had a cpu.max limit (cfs_bandwidth_used).
    #[inline]
    pub(crate) fn limited(&self) -> bool {
        self.limited
    }

    /// Returns the number that a cgroup's queue and its entity have on a CPU.
    #[inline]
    pub(crate) fn id(&self, group: u32, cpu: CpuId) -> CfsRqId {
        debug_assert!(group > 0 && cpu.nr() < self.nr_cpus);
        GROUP | (group * self.nr_cpus + cpu.nr())
    }

    /// Returns the cgroup to which a queue or entity belongs.
    pub(crate) fn group_number(&self, id: CfsRqId) -> u32 {
        (id & !GROUP) / self.nr_cpus
    }

    pub(crate) fn group(&self, id: CfsRqId) -> &TaskGroup {
        &self.groups[self.group_number(id) as usize]
    }

    pub(crate) fn rq(&self, id: CfsRqId) -> &GroupRq {
        &self.queues[(id & !GROUP) as usize]
    }

    pub(crate) fn rq_mut(&mut self, id: CfsRqId) -> &mut GroupRq {
        &mut self.queues[(id & !GROUP) as usize]
    }

    /// Returns the CPU of a group's queue.
    fn cpu(&self, id: CfsRqId) -> usize {
        ((id & !GROUP) % self.nr_cpus) as usize
    }

    /// Returns the queue of the parent group on the same CPU, or `None` if the parent is the root.
    fn above(&self, id: CfsRqId) -> Option<CfsRqId> {
        let parent = self.group(id).parent;
        (parent > 0).then(|| GROUP | (parent * self.nr_cpus + self.cpu(id) as u32))
    }

    /// Adds a group's queue to the list of its CPU, unless it is there (list_add_leaf_cfs_rq).
    pub(crate) fn add_leaf(&mut self, id: CfsRqId) {
        if !std::mem::replace(&mut self.rq_mut(id).on_list, true) {
            let (cpu, above) = (self.cpu(id), self.above(id));
            self.leaves[cpu].add(id, above);
        }
    }

    /// Removes a group's queue from the list of its CPU, if it is there (list_del_leaf_cfs_rq).
    pub(crate) fn remove_leaf(&mut self, id: CfsRqId) {
        if std::mem::take(&mut self.rq_mut(id).on_list) {
            let cpu = self.cpu(id);
            self.leaves[cpu].remove(id);
        }
    }

    /// Returns whether neither a group's queue nor those of its children have any load left
    /// (cfs_rq_is_decayed).
    pub(crate) fn is_decayed(&self, id: CfsRqId) -> bool {
        let rq = self.rq(id);
        if rq.cfs.load > 0 || rq.cfs.avg.decays() || rq.tg_load_avg_contrib > 0 {
            return false;
        }
        let before = self.leaves[self.cpu(id)].before(id);
        before.is_none_or(|before| self.above(before) != Some(id))
    }

    /// Returns whether `group` is the group `above` or one of its descendants.
    pub(crate) fn is_in(&self, group: u32, above: u32) -> bool {
        let mut at = group;
        while at != above && at != 0 {
            at = self.groups[at as usize].parent;
        }
        at == above
    }

    /// Resets a cgroup's queues and entities to their initial state.
    pub(crate) fn reset(&mut self, group: u32, weight: u32) {
        let TaskGroup { parent, depth, .. } = self.groups[group as usize];
        let generation = self.groups[group as usize].bandwidth.generation;
        self.groups[group as usize] = TaskGroup {
            parent,
            depth,
            shares: shares(weight),
            idle: false,
            load_avg: 0,
            runnable_avg: 0,
            bandwidth: Bandwidth::after(generation),
        };
        for cpu in 0..self.nr_cpus {
            let at = (group * self.nr_cpus + cpu) as usize;
            debug_assert!(self.queues[at].cfs.nr_queued == 0 && !self.entities[at].on_rq);
            self.entities[at] = Entity {
                group: parent,
                ..Entity::default()
            };
            self.remove_leaf(GROUP | at as u32);
            self.queues[at] = GroupRq::default();
        }
    }
}

/// Converts cpu.weight to shares. A weight of 100 corresponds to a nice 0 task
/// (sched_weight_from_cgroup).
pub(crate) fn shares(weight: u32) -> u64 {
    scale_load((weight * 1024 + 50) / 100)
}

/// The entities of all tasks and groups, indexed by entity number.
pub(crate) struct Entities<'a> {
    pub(crate) tasks: &'a mut Table<TaskId, Task>,
    pub(crate) groups: &'a mut Vec<Entity>,
}

impl TaskId {
    /// Returns the task whose entity has this number, which must be below [`GROUP`].
    #[inline]
    pub(crate) fn from_entity(id: EntityId) -> TaskId {
        TaskId::new(id as usize)
    }
}

impl CpuId {
    /// Returns the CPU whose root queue has this number, which must be below [`GROUP`].
    #[inline]
    pub(crate) fn from_root_queue(id: CfsRqId) -> CpuId {
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
            &self.tasks[TaskId::from_entity(id)].fair
        } else {
            &self.groups[(id & !GROUP) as usize]
        }
    }
}

impl IndexMut<EntityId> for Entities<'_> {
    #[inline]
    fn index_mut(&mut self, id: EntityId) -> &mut Entity {
        if id < GROUP {
            &mut self.tasks[TaskId::from_entity(id)].fair
        } else {
            &mut self.groups[(id & !GROUP) as usize]
        }
    }
}

/// Returns a queue and, at the same time, access to all entities.
#[inline]
pub(crate) fn queue<'a>(
    rqs: &'a mut Table<CpuId, Rq>,
    tasks: &'a mut Table<TaskId, Task>,
    groups: &'a mut TaskGroups,
    id: CfsRqId,
) -> (&'a mut CfsRq, Entities<'a>) {
    let TaskGroups { entities, queues, .. } = groups;
    let cfs = if id < GROUP {
        &mut rqs[CpuId::from_root_queue(id)].fair.cfs
    } else {
        &mut queues[(id & !GROUP) as usize].cfs
    };
    let groups = entities;
    (cfs, Entities { tasks, groups })
}
