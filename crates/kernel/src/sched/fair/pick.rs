// SPDX-License-Identifier: GPL-2.0-only
//! Choice of the next fair task of a CPU, and the start and end of the time for which a task runs there
//! (pick_task_fair, set_next_task_fair, put_prev_task_fair).

use super::hrtick::hrtick_start;
use super::load::Update;
use super::preempt::set_protect_slice;
use super::queue::dequeue_delayed;
use super::{exit_idle, newidle};
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::entity::{EntityId, GROUP, NONE};
use crate::simulation::id::{CpuId, IDLE, TaskId};

/// Returns the task to run next. If the CPU has no fair task, new-idle balancing tries to pull one.
#[inline(always)]
pub(crate) fn pick_task(m: &mut Machine, cpu: CpuId, _prev: TaskId) -> Option<TaskId> {
    match m.ext.switching_all {
        true => None,
        false => pick_fair_task(m, cpu),
    }
}

fn pick_fair_task(m: &mut Machine, cpu: CpuId) -> Option<TaskId> {
    loop {
        if m.rqs[cpu].fair.cfs.h_nr_queued == 0 {
            if newidle::balance(m, cpu) {
                continue;
            }
            return None;
        }
        if let Some(task) = pick_next_entity(m, cpu, true) {
            return Some(task);
        }
    }
}

/// Returns the task that EEVDF picks. With `protect`, the current task continues until its
/// protection ends. If the task is a delayed sleeper (a sleeping task that is still queued), dequeues
/// the sleeper and returns `None`.
pub(super) fn pick_next_entity(m: &mut Machine, cpu: CpuId, protect: bool) -> Option<TaskId> {
    let task = m.pick_eevdf(cpu, protect).expect("one task is always eligible");
    if m.tasks[task].fair.delayed {
        dequeue_delayed(m, cpu, task);
        return None;
    }
    Some(task)
}

/// Handles a task `prev` that stops running because `next` runs now. Groups that contain both tasks
/// remain the running entities of their queues (put_prev_task_fair).
pub(crate) fn put_prev_task(m: &mut Machine, cpu: CpuId, prev: TaskId, next: TaskId) {
    let group = m.tasks[prev].fair.group;
    if group == 0 {
        put_prev_entity(m, cpu, prev.into());
    } else {
        let stays = if next != prev && m.class_of(next) == Class::Fair {
            m.tasks[next].fair.group
        } else {
            0
        };
        let mut id = EntityId::from(prev);
        loop {
            let above = put_prev_entity(m, cpu, id);
            if above < GROUP || m.task_groups.is_in(stays, m.task_groups.group_number(above)) {
                break;
            }
            id = above;
        }
    }
    let rq = &mut m.rqs[cpu].fair.eevdf;
    rq.curr = IDLE;
    if m.tasks[prev].fair.on_rq {
        rq.insert(&mut m.tasks, prev);
    }
}

/// Makes an entity stop running (put_prev_entity). Returns its queue.
fn put_prev_entity(m: &mut Machine, cpu: CpuId, id: EntityId) -> EntityId {
    let cfs_rq = m.cfs_rq_of(cpu, id);
    if m.se(id).on_rq {
        m.update_curr_of(cfs_rq);
        m.update_load_avg(cfs_rq, id, Update::Queue);
    }
    m.cfs_mut(cfs_rq).curr = NONE;
    cfs_rq
}

/// Makes a task the running task, together with those groups above it that are not running yet
/// (set_next_task_fair).
pub(crate) fn set_next_task(m: &mut Machine, cpu: CpuId, next: TaskId) {
    exit_idle(m, cpu);
    set_task(m, cpu, next, true);
    hrtick_start(m, cpu, next);
    m.update_misfit_status(cpu, next);
}

/// Makes the current task the running task of its queue again, after a change of the task. Its
/// protection from preemption and the high-resolution tick remain as they were.
pub(crate) fn set_curr_task(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    set_task(m, cpu, curr, false);
}

/// Makes a task and the groups above it the running entities of their queues.
fn set_task(m: &mut Machine, cpu: CpuId, next: TaskId, first: bool) {
    let on_rq = m.tasks[next].fair.on_rq;
    let rq = &mut m.rqs[cpu].fair;
    rq.eevdf.clear_buddy(next);
    if on_rq {
        rq.eevdf.remove(&m.tasks, next);
        rq.unlink(&mut m.tasks, next);
        rq.push_newest(&mut m.tasks, next);
    }
    let above = set_next_entity(m, cpu, next.into());
    if above >= GROUP {
        set_next_groups(m, cpu, above);
        if m.task_groups.limited {
            account_groups(m, cpu, next);
        }
    }
    m.rqs[cpu].fair.eevdf.curr = next;
    if on_rq {
        m.reweight_eevdf(cpu, next, m.prop_weight(cpu, next), true);
        if first {
            set_protect_slice(m, cpu, next);
        }
    }
}

/// Makes the groups above a task that starts to run the running entities of their queues.
fn set_next_groups(m: &mut Machine, cpu: CpuId, group: EntityId) {
    let mut id = group;
    // If the previous task is in the same group, this group is already the running entity of its
    // queue, and so are all groups that contain it.
    while id >= GROUP && m.cfs(m.cfs_rq_of(cpu, id)).curr == NONE {
        id = set_next_entity(m, cpu, id);
    }
}

/// Visits the groups that contain `task`, which starts to run. If a group has a cpu.max limit and
/// its queue on this CPU has no runtime left, takes runtime from the group's pool. If the pool is
/// empty, the task is dequeued when it returns to user space.
fn account_groups(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let mut id = m.task_cfs_rq(cpu, task);
    let mut throttled = false;
    while id >= GROUP {
        throttled |= m.account_cfs_rq_runtime(id, 0);
        id = m.cfs_rq_of(cpu, id);
    }
    if throttled {
        m.throttle_on_return(task);
    }
}

/// Makes an entity the running entity of its queue (set_next_entity). Returns the queue.
#[inline]
fn set_next_entity(m: &mut Machine, cpu: CpuId, id: EntityId) -> EntityId {
    let now = m.now;
    let cfs_rq = m.cfs_rq_of(cpu, id);
    if m.se(id).on_rq {
        m.update_load_avg(cfs_rq, id, Update::Group);
    }
    m.se_mut(id).exec_start = now.max(1);
    if id >= GROUP && cfs_rq >= GROUP {
        m.task_groups.rq_mut(cfs_rq).runtime.behind = 0;
    }
    m.cfs_mut(cfs_rq).curr = id;
    cfs_rq
}
