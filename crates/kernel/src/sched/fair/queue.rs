// SPDX-License-Identifier: GPL-2.0-only
//! Queueing and dequeueing of tasks and task groups (enqueue_task_fair, dequeue_entities).
//!
//! An entity is a task, or a task group on one CPU. When a group gets its first task, the group's
//! entity is queued on the queue above, which is the queue of the parent group. When the last task
//! of the group leaves, its entity is dequeued. Like a sleeping task, an entity with negative lag
//! first remains queued as "delayed" until its lag is no longer negative.

use super::{hrtick_update, is_idle_policy, sched_cache};
use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::deadline;
use crate::sched::fair::state::entity::{CfsRqId, EntityId, GROUP};
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, Server, TaskId};

/// Amounts by which a task or group changes the counters of a queue.
#[derive(Clone, Copy, Default)]
struct Counts {
    queued: u32,
    runnable: u32,
    idle: u32,
}

/// Queues a task that became runnable, and the groups that contain it (enqueue_task_fair).
pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    let cfs_rq = m.task_cfs_rq(cpu, task);
    m.util_est_enqueue(cpu, task);
    if m.tasks[task].in_iowait() {
        m.cpufreq_update_util(cpu, true);
    }
    if m.tasks[task].fair.delayed {
        requeue_delayed(m, cfs_rq, task.into());
        count_runnable(m, cpu, cfs_rq, true);
        sched_cache::count_delayed(m, cpu, task, false);
        return;
    }
    enqueue_entities(m, cpu, task, flags, true);
}

/// Inserts a task into its queue, and the groups that contain it into theirs. `runnable` is false
/// for a delayed sleeper.
fn enqueue_entities(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32, runnable: bool) {
    let cfs_rq = m.task_cfs_rq(cpu, task);
    if flags & flags::INITIAL != 0 {
        m.init_load_avg(cfs_rq, task);
    }
    if m.tasks[task].fair.avg.detached() {
        m.attach_load_avg(cfs_rq, task.into());
    } else {
        m.update_load_avg(cfs_rq, task.into());
    }
    let idle = is_idle_policy(m, task);
    let e = &mut m.tasks[task].fair;
    if flags & flags::MIGRATED != 0 {
        e.exec_start = 0;
    }
    e.counted_idle = idle;
    enqueue_entity(m, cfs_rq, task.into(), flags);
    let counts = Counts {
        queued: 1,
        runnable: runnable.into(),
        idle: idle.into(),
    };
    add_counts(m, cfs_rq, counts);
    if cfs_rq >= GROUP {
        enqueue_groups(m, cpu, cfs_rq, counts);
    }
    sched_cache::count(m, cpu, task, true);
    m.domains.nr_queued += 1;
    m.domains.overloaded |= m.rqs[cpu].nr_running >= 2;
    let rq = &mut m.rqs[cpu].fair;
    rq.push_newest(&mut m.tasks, task);
    m.domains.update_idle_policy(cpu, &rq.cfs);
    if rq.cfs.h_nr_queued == 1 {
        deadline::start(m, cpu, Server::Fair);
    }
    hrtick_update(m, cpu);
}

/// Inserts an entity into its queue. The load averages of the queue already include the entity.
#[inline]
fn enqueue_entity(m: &mut Machine, cfs_rq: CfsRqId, id: EntityId, flags: u32) {
    m.place_entity(cfs_rq, id, flags);
    let (cfs, mut entities) = m.queue(cfs_rq);
    let e = &mut entities[id];
    e.on_rq = true;
    cfs.nr_queued += 1;
    cfs.load += u64::from(e.load);
    if cfs.curr != id {
        cfs.insert(&mut entities, id);
    }
}

fn add_counts(m: &mut Machine, cfs_rq: CfsRqId, counts: Counts) {
    let cfs = m.cfs_mut(cfs_rq);
    cfs.h_nr_queued += counts.queued;
    cfs.h_nr_runnable += counts.runnable;
    cfs.h_nr_idle += counts.idle;
}

fn subtract_counts(m: &mut Machine, cfs_rq: CfsRqId, counts: Counts) {
    let cfs = m.cfs_mut(cfs_rq);
    cfs.h_nr_queued -= counts.queued;
    cfs.h_nr_runnable -= counts.runnable;
    cfs.h_nr_idle -= counts.idle;
}

/// Updates the number of runnable tasks on a queue and on all queues above it, because a task has
/// become delayed or is no longer delayed.
fn count_runnable(m: &mut Machine, cpu: CpuId, cfs_rq: CfsRqId, runnable: bool) {
    let mut at = cfs_rq;
    loop {
        let cfs = m.cfs_mut(at);
        if runnable {
            cfs.h_nr_runnable += 1;
        } else {
            cfs.h_nr_runnable -= 1;
        }
        if at < GROUP {
            return;
        }
        at = m.cfs_rq_of(cpu, at);
    }
}

/// Updates the queues above a group after a task was queued in it. Groups that were empty are
/// queued themselves.
fn enqueue_groups(m: &mut Machine, cpu: CpuId, group: EntityId, mut counts: Counts) {
    let mut id = group;
    while id >= GROUP {
        if m.task_groups.group(id).idle {
            counts.idle = counts.queued;
        }
        let above = m.cfs_rq_of(cpu, id);
        if m.se(id).on_rq {
            if m.se(id).delayed {
                requeue_delayed(m, above, id);
            }
            m.update_group_entity(cpu, id);
            update_group_slice(m, above, id, id);
        } else {
            if m.se(id).avg.detached() {
                m.attach_load_avg(above, id);
            }
            m.update_group_entity(cpu, id);
            update_group_slice(m, above, id, id);
            enqueue_entity(m, above, id, flags::WAKEUP);
        }
        add_counts(m, above, counts);
        id = above;
    }
}

/// Sets the slice of a group on a CPU to the shortest slice of a queue. `above` is the queue on
/// which the group's entity is.
fn update_group_slice(m: &mut Machine, above: CfsRqId, group: EntityId, queue: CfsRqId) {
    if !m.task_groups.custom_slices {
        return;
    }
    let base_slice = m.domains.base_slice;
    let shortest = m.shortest_slice(queue).filter(|&slice| slice != base_slice);
    let slice = shortest.unwrap_or(0);
    let (cfs, mut entities) = m.queue(above);
    let is_curr = cfs.curr == group;
    let e = &mut entities[group];
    if e.on_rq && !is_curr {
        cfs.slices.remove(e.slice);
        cfs.slices.insert(slice);
    }
    e.slice = slice;
}

/// Makes a delayed sleeper runnable again, because it was woken (requeue_delayed_entity). The
/// sleeper keeps the negative lag that it has left. If none is left, its lag is 0.
fn requeue_delayed(m: &mut Machine, cfs_rq: CfsRqId, id: EntityId) {
    if m.update_entity_lag(cfs_rq, id) {
        let (cfs, mut entities) = m.queue(cfs_rq);
        let load = u64::from(entities[id].load);
        let is_curr = cfs.curr == id;
        cfs.nr_queued -= 1;
        cfs.load -= load;
        if !is_curr {
            cfs.remove(&entities, id);
        } else {
            // The entity must not be included in V, the average vruntime, while it is placed again.
            entities[id].on_rq = false;
        }
        m.place_entity(cfs_rq, id, 0);
        let (cfs, mut entities) = m.queue(cfs_rq);
        entities[id].on_rq = true;
        if !is_curr {
            cfs.insert(&mut entities, id);
        }
        cfs.nr_queued += 1;
        cfs.load += load;
    }
    m.update_load_avg(cfs_rq, id);
    m.se_mut(id).delayed = false;
}

/// Dequeues a task. If the task goes to sleep with negative lag, it stays queued as delayed
/// (dequeue_task_fair).
pub(crate) fn dequeue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    if m.tasks[task].fair.throttled {
        m.leave_limbo(cpu, task);
        return;
    }
    let sleep = flags & flags::SLEEP != 0;
    let exits = m.tasks[task].state() == State::Dead;
    let cfs_rq = m.task_cfs_rq(cpu, task);
    m.util_est_dequeue(cpu, task);
    m.update_load_avg(cfs_rq, task.into());
    if sleep {
        m.util_est_update(task);
        if !exits && delay_dequeue(m, cfs_rq, task.into()) {
            count_runnable(m, cpu, cfs_rq, false);
            sched_cache::count_delayed(m, cpu, task, true);
            return;
        }
    }
    dequeue_entities(m, cpu, task, sleep, true);
}

/// Keeps an entity with negative lag queued until it is eligible (DELAY_DEQUEUE). Returns whether
/// the dequeue of the entity is delayed.
fn delay_dequeue(m: &mut Machine, cfs_rq: CfsRqId, id: EntityId) -> bool {
    if m.eligible(cfs_rq, id) {
        return false;
    }
    m.update_entity_lag(cfs_rq, id);
    m.cfs_mut(cfs_rq).clear_buddy(id);
    m.se_mut(id).delayed = true;
    true
}

/// Removes a task from its queue. Also removes the groups that become empty from the queues above.
/// With `delay`, the dequeue of such a group may be delayed.
///
/// If the dequeue of the task itself was delayed, the task is not counted in `h_nr_runnable`, so
/// this counter does not change.
fn dequeue_entities(m: &mut Machine, cpu: CpuId, task: TaskId, sleep: bool, delay: bool) {
    let cfs_rq = m.task_cfs_rq(cpu, task);
    sched_cache::count(m, cpu, task, false);
    let e = &mut m.tasks[task].fair;
    let counts = Counts {
        queued: 1,
        runnable: (!e.delayed).into(),
        idle: e.counted_idle.into(),
    };
    e.counted_idle = false;
    dequeue_entity(m, cfs_rq, task.into(), sleep);
    subtract_counts(m, cfs_rq, counts);
    if cfs_rq >= GROUP {
        dequeue_groups(m, cpu, cfs_rq, counts, delay);
    }
    m.domains.nr_queued -= 1;
    let rq = &mut m.rqs[cpu].fair;
    rq.unlink(&mut m.tasks, task);
    m.domains.update_idle_policy(cpu, &rq.cfs);
}

/// Removes an entity from its queue and stores its lag (dequeue_entity).
fn dequeue_entity(m: &mut Machine, cfs_rq: CfsRqId, id: EntityId, sleep: bool) {
    m.update_load_avg(cfs_rq, id);
    m.update_entity_lag(cfs_rq, id);
    let (cfs, mut entities) = m.queue(cfs_rq);
    cfs.clear_buddy(id);
    if cfs.curr != id {
        cfs.remove(&entities, id);
    }
    let e = &mut entities[id];
    if !sleep {
        e.deadline -= e.vruntime;
        e.rel_deadline = true;
    }
    e.on_rq = false;
    e.delayed = false;
    cfs.nr_queued -= 1;
    cfs.load -= u64::from(e.load);
    if cfs_rq >= GROUP && m.task_groups.limited && m.cfs(cfs_rq).nr_queued == 0 {
        m.return_cfs_rq_runtime(cfs_rq);
    }
}

/// Updates the queues above a group after an entity has left it. Groups that have become empty are
/// dequeued themselves.
fn dequeue_groups(m: &mut Machine, cpu: CpuId, group: EntityId, mut counts: Counts, delay: bool) {
    let mut id = group;
    let mut leaves = true;
    while id >= GROUP {
        if m.task_groups.group(id).idle {
            counts.idle = counts.queued;
        }
        let above = m.cfs_rq_of(cpu, id);
        leaves &= m.cfs(id).nr_queued == 0;
        m.update_group_entity(cpu, id);
        if !leaves {
            update_group_slice(m, above, id, id);
        } else if delay && delay_dequeue(m, above, id) {
            // An empty group has no slice of its own.
            update_group_slice(m, above, id, above);
            leaves = false;
        } else {
            dequeue_entity(m, above, id, true);
        }
        subtract_counts(m, above, counts);
        id = above;
    }
}

/// Dequeues an entity whose dequeue was delayed and that has become eligible.
pub(super) fn dequeue_delayed(m: &mut Machine, cpu: CpuId, cfs_rq: CfsRqId, id: EntityId) {
    if id < GROUP {
        dequeue_entities(m, cpu, TaskId::from_entity(id), true, true);
        m.rqs[cpu].nr_running -= 1;
        return;
    }
    dequeue_entity(m, cfs_rq, id, true);
    if cfs_rq >= GROUP {
        dequeue_groups(m, cpu, cfs_rq, Counts::default(), true);
    }
}

/// Dequeues a delayed sleeper because its class, CPU or cgroup is about to change.
pub(super) fn finish_delayed(m: &mut Machine, task: TaskId) {
    if m.tasks[task].fair.delayed {
        let cpu = m.tasks[task].cpu();
        dequeue_entities(m, cpu, task, true, true);
        m.rqs[cpu].nr_running -= 1;
    }
}

/// Removes a delayed sleeper from its queue because load balancing moves it to another CPU. The
/// task keeps its negative lag. Until [`attach_delayed`], it counts as an ordinary sleeper.
pub(super) fn detach_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.update_curr(cpu);
    dequeue_entities(m, cpu, task, false, true);
    m.rqs[cpu].nr_running -= 1;
}

/// Queues a delayed sleeper on the CPU to which load balancing has moved it. There, it competes
/// until its lag is no longer negative.
pub(super) fn attach_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.update_curr(cpu);
    m.tasks[task].fair.delayed = true;
    m.rqs[cpu].nr_running += 1;
    enqueue_entities(m, cpu, task, flags::MIGRATED, false);
}

/// Dequeues a task whose group is throttled. The dequeues of the task and of groups that become
/// empty are not delayed.
pub(super) fn dequeue_throttled_entities(m: &mut Machine, cpu: CpuId, task: TaskId) {
    dequeue_entities(m, cpu, task, true, false);
}
