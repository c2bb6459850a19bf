// SPDX-License-Identifier: GPL-2.0-only
//! Queueing and dequeueing of tasks (enqueue_task_fair, dequeue_task_fair).
//!
//! All tasks of a CPU are in one queue, from which EEVDF picks. In addition, each task is counted in
//! the queue of its group, and the group's entity in the queue of the parent group while the group
//! has tasks on the CPU. From these loads follows the weight of the task. A task that goes to sleep
//! with negative lag first remains queued as "delayed" until its lag is no longer negative.

use super::hrtick::hrtick_update;
use super::idle_scan::sched_idle_cpu;
use super::load::Update;
use super::{is_idle_policy, sched_cache};
use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::deadline;
use crate::sched::fair::state::entity::{CfsRqId, EntityId, GROUP};
use crate::sched::state::task::State;
use crate::simulation::id::{CpuId, IDLE, Server, TaskId};
use machine::Feature;

/// Why a task is dequeued.
#[derive(Clone, Copy, Default)]
struct Dequeue {
    /// The task sleeps (DEQUEUE_SLEEP).
    sleep: bool,
    /// The dequeue of a delayed sleeper is completed (DEQUEUE_DELAYED).
    delayed: bool,
    /// The task's group is throttled (DEQUEUE_THROTTLE).
    throttle: bool,
    /// The task leaves for a different CPU (TASK_ON_RQ_MIGRATING).
    migrate: bool,
}

/// Queues a task that became runnable (enqueue_task_fair).
pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    if m.tasks[task].fair.throttled && m.enqueue_throttled_task(cpu, task) {
        return;
    }
    m.util_est_enqueue(cpu, task);
    if m.tasks[task].fair.delayed {
        requeue_delayed(m, cpu, task);
        return;
    }
    if m.tasks[task].in_iowait() {
        m.cpufreq_update_util(cpu, true);
    }
    enqueue(m, cpu, task, flags, true);
}

/// Queues a task. `runnable` is false for a delayed sleeper.
fn enqueue(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32, runnable: bool) {
    let others = m.rqs[cpu].fair.cfs.h_nr_queued > 0;
    let is_curr = m.rqs[cpu].fair.eevdf.curr == task;
    if is_curr {
        m.place_entity(cpu, task, flags, others);
    }
    if flags & flags::INITIAL != 0 {
        m.init_load_avg(m.task_cfs_rq(cpu, task), task);
    }
    let idle = is_idle_policy(m, task);
    m.tasks[task].fair.counted_idle = idle;
    if m.tasks[task].fair.group == 0 {
        enqueue_entity(m, cpu, cpu.nr(), task.into(), flags);
        let cfs = &mut m.rqs[cpu].fair.cfs;
        cfs.h_nr_queued += 1;
        cfs.h_nr_runnable += u32::from(runnable);
        cfs.h_nr_idle += u32::from(idle);
    } else {
        enqueue_hierarchy(m, cpu, task, flags, runnable, idle);
    }
    sched_cache::count(m, cpu, task, true);
    m.rqs[cpu].fair.push_newest(&mut m.tasks, task);
    if !is_curr {
        m.reweight_eevdf(cpu, task, m.prop_weight(cpu, task), false);
        m.place_entity(cpu, task, flags, others);
        m.rqs[cpu].fair.eevdf.insert(&mut m.tasks, task);
    }
    m.domains.overloaded |= m.rqs[cpu].nr_running == 2;
    m.domains.update_idle_policy(cpu, &m.rqs[cpu].fair.cfs);
    if !others {
        deadline::start(m, cpu, Server::Fair);
    }
    hrtick_update(m, cpu);
}

/// Adds a task to the queue of its group, and groups that were empty to the queues of their parents
/// (enqueue_hierarchy).
#[inline(never)]
fn enqueue_hierarchy(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32, runnable: bool, idle: bool) {
    let (mut id, mut flags, mut idle) = (EntityId::from(task), flags, idle);
    loop {
        let above = m.cfs_rq_of(cpu, id);
        m.update_curr_of(above);
        if m.se(id).on_rq {
            m.update_load_avg(above, id, Update::Group);
            m.update_runnable(id);
            m.update_cfs_group(cpu, id);
        } else {
            enqueue_entity(m, cpu, above, id, flags);
        }
        let cfs = m.cfs_mut(above);
        cfs.h_nr_runnable = cfs.h_nr_runnable.wrapping_add(runnable.into());
        cfs.h_nr_queued += 1;
        cfs.h_nr_idle += u32::from(idle);
        if above < GROUP {
            return;
        }
        idle |= m.task_groups.group(above).idle;
        flags = flags::WAKEUP;
        id = above;
    }
}

/// Adds an entity to a queue (enqueue_entity).
#[inline]
fn enqueue_entity(m: &mut Machine, cpu: CpuId, above: CfsRqId, id: EntityId, flags: u32) {
    if m.se(id).avg.detached() {
        m.attach_load_avg(above, id);
    } else {
        m.update_load_avg(above, id, Update::Group);
    }
    if id >= GROUP {
        m.update_runnable(id);
        m.update_cfs_group(cpu, id);
    }
    let (cfs, mut entities) = m.queue(above);
    let e = &mut entities[id];
    cfs.load += e.load;
    cfs.nr_queued += 1;
    if flags & flags::MIGRATED != 0 {
        e.exec_start = 0;
    }
    e.on_rq = true;
    if above >= GROUP && m.cfs(above).nr_queued == 1 {
        if m.task_groups.limited {
            m.check_enqueue_throttle(above);
        }
        m.task_groups.add_leaf(above);
        m.start_pelt_clock(above);
    }
}

/// Counts a task that becomes a delayed sleeper, or is one no longer (set_delayed, clear_delayed).
fn count_runnable(m: &mut Machine, cpu: CpuId, task: TaskId, runnable: bool) {
    let mut at = m.task_cfs_rq(cpu, task);
    loop {
        let cfs = m.cfs_mut(at);
        cfs.h_nr_runnable = match runnable {
            true => cfs.h_nr_runnable.wrapping_add(1),
            false => cfs.h_nr_runnable.wrapping_sub(1),
        };
        if at < GROUP {
            return;
        }
        at = m.cfs_rq_of(cpu, at);
    }
}

/// Makes a delayed sleeper runnable again, because it was woken (requeue_delayed_entity). The
/// sleeper keeps the negative lag that it has left. If none is left, its lag is 0.
fn requeue_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.update_entity_lag(cpu, task) {
        let rq = &mut m.rqs[cpu].fair;
        let others = rq.cfs.h_nr_queued > 1;
        let is_curr = rq.eevdf.curr == task;
        if !is_curr {
            rq.eevdf.remove(&m.tasks, task);
        }
        m.place_entity(cpu, task, 0, others);
        if !is_curr {
            m.rqs[cpu].fair.eevdf.insert(&mut m.tasks, task);
        }
    }
    // Linux updates the averages of the CPU, also for a task of a group.
    m.update_load_avg(cpu.nr(), task.into(), Update::Queue);
    m.tasks[task].fair.delayed = false;
    count_runnable(m, cpu, task, true);
    sched_cache::count_delayed(m, cpu, task, false);
}

/// Dequeues a task. If the task goes to sleep with negative lag, it stays queued as delayed
/// (dequeue_task_fair).
pub(crate) fn dequeue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    let how = Dequeue {
        sleep: flags & flags::SLEEP != 0,
        migrate: m.tasks[task].is_migrating(),
        ..Dequeue::default()
    };
    if m.tasks[task].fair.throttled {
        m.dequeue_throttled_task(cpu, task, how.sleep, how.migrate);
        return;
    }
    m.util_est_dequeue(cpu, task);
    dequeue(m, cpu, task, how);
}

/// Dequeues a task, or makes it a delayed sleeper (__dequeue_task).
fn dequeue(m: &mut Machine, cpu: CpuId, task: TaskId, how: Dequeue) {
    let was_idle = sched_idle_cpu(m, cpu);
    m.rqs[cpu].fair.eevdf.clear_buddy(task);
    m.update_entity_lag(cpu, task);
    let exits = m.tasks[task].state() == State::Dead;
    let may_delay = how.sleep && !how.delayed && !how.throttle && !exits;
    if may_delay && !m.eligible(cpu, task) && m.sched_feat(Feature::DelayDequeue) {
        let cfs_rq = m.task_cfs_rq(cpu, task);
        m.update_load_avg(cfs_rq, task.into(), Update::Queue);
        m.util_est_update(task);
        sched_cache::count_delayed(m, cpu, task, true);
        m.tasks[task].fair.delayed = true;
        count_runnable(m, cpu, task, false);
        return;
    }
    let e = &mut m.tasks[task].fair;
    let runnable = how.sleep || how.delayed || !e.delayed;
    let idle = std::mem::take(&mut e.counted_idle);
    sched_cache::count(m, cpu, task, false);
    if m.tasks[task].fair.group == 0 {
        dequeue_entity(m, cpu, cpu.nr(), task.into(), how);
        let cfs = &mut m.rqs[cpu].fair.cfs;
        cfs.h_nr_runnable = cfs.h_nr_runnable.wrapping_sub(runnable.into());
        cfs.h_nr_queued -= 1;
        cfs.h_nr_idle -= u32::from(idle);
    } else {
        dequeue_hierarchy(m, cpu, task, how, runnable, idle);
    }
    let relative = m.sched_feat(Feature::PlaceRelDeadline);
    let e = &mut m.tasks[task].fair;
    if !how.sleep && relative {
        e.deadline -= e.vruntime;
        e.rel_deadline = true;
    }
    let rq = &mut m.rqs[cpu].fair;
    if rq.eevdf.curr != task {
        rq.eevdf.remove(&m.tasks, task);
    }
    rq.unlink(&mut m.tasks, task);
    m.domains.update_idle_policy(cpu, &m.rqs[cpu].fair.cfs);
    let left = m.rqs[cpu].nr_running - 1;
    if !was_idle && left > 0 && left == m.rqs[cpu].fair.cfs.h_nr_idle && !m.rqs[cpu].stopping {
        // The CPU looks early for a task that is not SCHED_IDLE.
        m.rqs[cpu].fair.next_balance = m.jiffies();
    }
    if how.delayed {
        m.tasks[task].fair.delayed = false;
        count_runnable(m, cpu, task, true);
    }
}

/// Removes a task from the queue of its group, and groups that become empty from the queues of their
/// parents (dequeue_hierarchy).
#[inline(never)]
fn dequeue_hierarchy(m: &mut Machine, cpu: CpuId, task: TaskId, how: Dequeue, runnable: bool, idle: bool) {
    let (mut id, mut idle, mut leaves) = (EntityId::from(task), idle, true);
    loop {
        let above = m.cfs_rq_of(cpu, id);
        m.update_curr_of(above);
        if leaves {
            dequeue_entity(m, cpu, above, id, how);
            leaves = m.cfs(above).load == 0;
        } else {
            m.update_load_avg(above, id, Update::Group);
            m.update_runnable(id);
            m.update_cfs_group(cpu, id);
        }
        let cfs = m.cfs_mut(above);
        cfs.h_nr_runnable = cfs.h_nr_runnable.wrapping_sub(runnable.into());
        cfs.h_nr_queued -= 1;
        cfs.h_nr_idle -= u32::from(idle);
        if above < GROUP {
            return;
        }
        idle |= m.task_groups.group(above).idle;
        id = above;
    }
}

/// Removes an entity from a queue (dequeue_entity).
#[inline]
fn dequeue_entity(m: &mut Machine, cpu: CpuId, above: CfsRqId, id: EntityId, how: Dequeue) {
    if id < GROUP && how.migrate {
        m.detach_load_avg(above, id);
    } else {
        m.update_load_avg(above, id, Update::Group);
    }
    if id >= GROUP {
        m.update_runnable(id);
    } else if how.sleep && !how.delayed {
        m.util_est_update(TaskId::from_entity(id));
    }
    let (cfs, mut entities) = m.queue(above);
    let e = &mut entities[id];
    e.on_rq = false;
    cfs.load -= e.load;
    cfs.nr_queued -= 1;
    let empty = cfs.nr_queued == 0;
    if empty && above >= GROUP && m.task_groups.limited {
        m.return_cfs_rq_runtime(above);
    }
    if id >= GROUP {
        m.update_cfs_group(cpu, id);
    }
    if empty && above >= GROUP && m.task_groups.limited {
        m.update_idle_cfs_rq_clock_pelt(above);
        m.stop_pelt_clock(above);
    }
}

/// Dequeues a delayed sleeper that has become eligible, or whose class, CPU or cgroup is about to
/// change.
pub(super) fn dequeue_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let how = Dequeue {
        sleep: true,
        delayed: true,
        ..Dequeue::default()
    };
    dequeue(m, cpu, task, how);
    m.rqs[cpu].nr_running -= 1;
}

/// Dequeues a task if it is a delayed sleeper in a queue.
pub(crate) fn finish_delayed(m: &mut Machine, task: TaskId) {
    if task != IDLE && m.tasks[task].fair.delayed && m.tasks[task].fair.on_rq {
        let cpu = m.tasks[task].cpu();
        dequeue_delayed(m, cpu, task);
    }
}

/// Removes a delayed sleeper from its queue while an attribute of the task changes. Until
/// [`restore_delayed`], it is in no queue.
pub(crate) fn save_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    dequeue(m, cpu, task, Dequeue::default());
    m.rqs[cpu].nr_running -= 1;
}

/// Queues a delayed sleeper after a change of the task. The sleeper keeps its lag, and competes
/// until its lag is no longer negative.
pub(crate) fn restore_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.rqs[cpu].nr_running += 1;
    enqueue(m, cpu, task, flags::RESTORE, false);
}

/// Removes a delayed sleeper from its queue because load balancing moves it to another CPU. The
/// task keeps its negative lag. Until [`attach_delayed`], it counts as an ordinary sleeper.
pub(super) fn detach_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.charge_before_dequeueing(cpu, task);
    let how = Dequeue {
        migrate: true,
        ..Dequeue::default()
    };
    dequeue(m, cpu, task, how);
    m.tasks[task].fair.delayed = false;
    m.rqs[cpu].nr_running -= 1;
}

/// Queues a delayed sleeper on the CPU to which load balancing has moved it. There, it competes
/// until its lag is no longer negative.
pub(super) fn attach_delayed(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.charge_before_queueing(cpu, task);
    m.tasks[task].fair.delayed = true;
    m.rqs[cpu].nr_running += 1;
    enqueue(m, cpu, task, flags::MIGRATED, false);
}

/// Dequeues a task whose group is throttled.
pub(super) fn dequeue_throttled_group(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.util_est_dequeue(cpu, task);
    let how = Dequeue {
        sleep: true,
        throttle: true,
        ..Dequeue::default()
    };
    dequeue(m, cpu, task, how);
}
