// SPDX-License-Identifier: GPL-2.0-only
//! The fair class: EEVDF, wake-up placement and load balancing, as Linux 7.2 behaves (kernel/sched/fair.c, topology.c).
//!
//! Modelled: virtual time, lag, deadlines and eligibility; RUN_TO_PARITY; delayed dequeue with DELAY_ZERO; the high
//! resolution tick that ends a slice on time; wake-up preemption; SCHED_BATCH and SCHED_IDLE; load and utilisation
//! averages; wake_affine, select_idle_sibling with SIS_UTIL, asymmetric capacity; fork and exec placement; scheduling
//! domains with periodic, new-idle, nohz-idle and active balancing. Features have their default values.
//!
//! Left out: task groups (a cgroup's cpu.weight and quota do not count here: all tasks compete on one level), custom
//! slices (all requests are one base slice, so PREEMPT_SHORT never applies), NUMA balancing (preferred nodes), cache
//! aware scheduling, energy aware scheduling, core scheduling, asymmetric packing, clusters within an LLC, uclamp,
//! isolated CPUs. The kernel is taken as fully preemptible: a lazy reschedule is one at once. As Linux, NEXT_BUDDY and
//! LB_MIN are off.
//!
//! Looking at another CPU's runqueue in a scan costs a cache line by its distance.

mod balance;
mod detach;
mod domains;
mod eevdf;
mod entity;
mod fork;
mod group;
mod idle_scan;
mod load;
mod newidle;
mod nohz;
pub(crate) mod pelt;
mod tree;
mod wake;

#[cfg(test)]
mod tests;

pub use domains::Domains;
pub use entity::{CfsRq, Entity};
pub(crate) use newidle::exit_idle;
pub(crate) use nohz::{nohz_balance, trigger_load_balance};
pub(crate) use wake::select_task_rq;

use crate::class::flags;
use crate::machine::Machine;
use crate::task::{IDLE, State, TaskId};
use entity::NEVER;
use workload::Policy;

/// No high resolution tick is shorter (hrtick_start), ns.
const HRTICK_MIN_NS: u64 = 10_000;

fn is_idle_policy(m: &Machine, task: TaskId) -> bool {
    m.tasks[task as usize].policy == Policy::Idle
}

/// The task to run next; balances (new-idle) if there is none of this class.
pub(crate) fn pick_task(m: &mut Machine, cpu: u32, _prev: TaskId) -> Option<TaskId> {
    loop {
        if m.rqs[cpu as usize].fair.nr_queued == 0 {
            if newidle::balance(m, cpu) {
                continue;
            }
            idle_scan::update_idle_core(m, cpu);
            return None;
        }
        if let Some(task) = pick_next_entity(m, cpu, true) {
            return Some(task);
        }
    }
}

/// What EEVDF picks; a sleeper that paid its debt leaves instead and None is returned.
fn pick_next_entity(m: &mut Machine, cpu: u32, protect: bool) -> Option<TaskId> {
    let task = m.pick_eevdf(cpu, protect).expect("somebody is always eligible");
    if m.tasks[task as usize].fair.delayed {
        dequeue_entity(m, cpu, task, true);
        return None;
    }
    Some(task)
}

pub(crate) fn enqueue_task(m: &mut Machine, cpu: u32, task: TaskId, flags: u32) {
    if m.tasks[task as usize].fair.delayed {
        requeue_delayed(m, cpu, task);
        hrtick_update(m, cpu);
        return;
    }
    if flags & flags::INITIAL != 0 {
        m.init_load_avg(cpu, task);
    }
    if m.tasks[task as usize].fair.avg.detached() {
        m.attach_load_avg(cpu, task);
    } else {
        m.update_load_avg(cpu, task);
    }
    m.place_entity(cpu, task, flags);
    let idle = is_idle_policy(m, task);
    let t = &mut m.tasks[task as usize];
    if flags & flags::MIGRATED != 0 {
        t.fair.exec_start = 0;
    }
    t.fair.on_rq = true;
    t.fair.counted_idle = idle;
    let cfs = &mut m.rqs[cpu as usize].fair;
    cfs.nr_queued += 1;
    cfs.nr_runnable += 1;
    cfs.nr_idle += u32::from(idle);
    cfs.load_weight += u64::from(t.fair.weight);
    m.domains.nr_queued += 1;
    m.domains.overloaded |= m.rqs[cpu as usize].nr_running >= 2;
    let cfs = &mut m.rqs[cpu as usize].fair;
    cfs.push_newest(&mut m.tasks, task);
    if cfs.curr != task {
        cfs.insert(&mut m.tasks, task);
    }
    m.domains.note_idle_policy(cpu, &m.rqs[cpu as usize].fair);
    hrtick_update(m, cpu);
}

/// A delayed sleeper is woken: it may run again and owes at most what is left of its debt.
fn requeue_delayed(m: &mut Machine, cpu: u32, task: TaskId) {
    if m.update_entity_lag(cpu, task) {
        let is_curr = m.rqs[cpu as usize].fair.curr == task;
        let weight = u64::from(m.tasks[task as usize].fair.weight);
        let cfs = &mut m.rqs[cpu as usize].fair;
        cfs.nr_queued -= 1;
        cfs.load_weight -= weight;
        if !is_curr {
            cfs.remove(&m.tasks, task);
        } else {
            // It must not count in V while it is placed anew.
            m.tasks[task as usize].fair.on_rq = false;
        }
        m.place_entity(cpu, task, 0);
        m.tasks[task as usize].fair.on_rq = true;
        let cfs = &mut m.rqs[cpu as usize].fair;
        if !is_curr {
            cfs.insert(&mut m.tasks, task);
        }
        cfs.nr_queued += 1;
        cfs.load_weight += weight;
    }
    m.update_load_avg(cpu, task);
    m.tasks[task as usize].fair.delayed = false;
    m.rqs[cpu as usize].fair.nr_runnable += 1;
}

pub(crate) fn dequeue_task(m: &mut Machine, cpu: u32, task: TaskId, flags: u32) {
    let sleep = flags & flags::SLEEP != 0;
    let exits = m.tasks[task as usize].state == State::Dead;
    m.update_load_avg(cpu, task);
    if sleep {
        m.util_est_update(task);
        if !exits && !m.rqs[cpu as usize].fair.eligible(&m.tasks, task) {
            m.update_entity_lag(cpu, task);
            m.tasks[task as usize].fair.delayed = true;
            m.rqs[cpu as usize].fair.nr_runnable -= 1;
            return;
        }
    }
    dequeue_entity(m, cpu, task, sleep);
    if exits {
        m.detach_load_avg(cpu, task);
    }
}

/// Takes an entity off its runqueue. One that was delayed has been counted out of the runnable ones before.
fn dequeue_entity(m: &mut Machine, cpu: u32, task: TaskId, sleep: bool) {
    m.update_load_avg(cpu, task);
    m.update_entity_lag(cpu, task);
    let cfs = &mut m.rqs[cpu as usize].fair;
    if cfs.curr != task {
        cfs.remove(&m.tasks, task);
    }
    let e = &mut m.tasks[task as usize].fair;
    if !sleep {
        e.deadline -= e.vruntime;
        e.rel_deadline = true;
    }
    e.on_rq = false;
    cfs.nr_queued -= 1;
    cfs.nr_runnable -= u32::from(!e.delayed);
    cfs.nr_idle -= u32::from(e.counted_idle);
    cfs.load_weight -= u64::from(e.weight);
    e.delayed = false;
    e.counted_idle = false;
    m.domains.nr_queued -= 1;
    cfs.unlink(&mut m.tasks, task);
    m.domains.note_idle_policy(cpu, &m.rqs[cpu as usize].fair);
}

/// A sleeper that still competes leaves for good: it changes class or CPU.
fn finish_delayed(m: &mut Machine, task: TaskId) {
    if m.tasks[task as usize].fair.delayed {
        let cpu = m.tasks[task as usize].cpu;
        dequeue_entity(m, cpu, task, true);
    }
}

/// Gives up the rest of the request, if it was owed one.
pub(crate) fn yield_task(m: &mut Machine, cpu: u32) {
    let curr = m.rqs[cpu as usize].curr;
    if m.rqs[cpu as usize].nr_running == 1 {
        return;
    }
    if m.rqs[cpu as usize].fair.eligible(&m.tasks, curr) {
        let e = &mut m.tasks[curr as usize].fair;
        e.vruntime = e.deadline;
        m.update_deadline(cpu, curr);
    }
}

/// Should the woken `task` run before curr? BATCH and IDLE tasks never ask, IDLE ones are preempted at once.
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: u32, task: TaskId, wake_flags: u32) {
    let curr = m.rqs[cpu as usize].curr;
    if curr == task || m.rqs[cpu as usize].need_resched {
        return;
    }
    if is_idle_policy(m, curr) && !is_idle_policy(m, task) {
        let e = &mut m.tasks[curr as usize].fair;
        e.vprot = e.vprot.min(e.vruntime);
        m.resched_curr(cpu);
        return;
    }
    let normal = matches!(
        m.tasks[task as usize].policy,
        Policy::Normal { .. } | Policy::Ext { .. }
    );
    if !normal || wake_flags & flags::WF_FORK != 0 || m.tasks[task as usize].fair.delayed {
        return;
    }
    loop {
        match pick_next_entity(m, cpu, true) {
            Some(next) if next == task => return m.resched_curr(cpu),
            Some(_) => break,
            // A paid up sleeper left; `task` is still queued.
            None => {}
        }
    }
    let slice = m.domains.base_slice;
    let e = &mut m.tasks[curr as usize].fair;
    e.vprot = e.vprot.min(e.vruntime + e.delta_fair(slice));
}

pub(crate) fn put_prev_task(m: &mut Machine, cpu: u32, prev: TaskId, _next: TaskId) {
    if m.tasks[prev as usize].fair.on_rq {
        m.update_load_avg(cpu, prev);
        let cfs = &mut m.rqs[cpu as usize].fair;
        cfs.curr = IDLE;
        cfs.insert(&mut m.tasks, prev);
    } else {
        m.update_cfs_avg(cpu);
        m.rqs[cpu as usize].fair.curr = IDLE;
    }
}

pub(crate) fn set_next_task(m: &mut Machine, cpu: u32, next: TaskId) {
    exit_idle(m, cpu);
    let now = m.now;
    if m.tasks[next as usize].fair.on_rq {
        let cfs = &mut m.rqs[cpu as usize].fair;
        cfs.remove(&m.tasks, next);
        cfs.unlink(&mut m.tasks, next);
        cfs.push_newest(&mut m.tasks, next);
        m.update_load_avg(cpu, next);
        let e = &mut m.tasks[next as usize].fair;
        e.vprot = e.deadline;
    }
    m.tasks[next as usize].fair.exec_start = now;
    m.rqs[cpu as usize].fair.curr = next;
    hrtick_start(m, cpu);
    m.update_misfit_status(cpu, next);
}

pub(crate) fn update_curr(m: &mut Machine, cpu: u32, ns: u64) {
    let now = m.now;
    let curr = m.rqs[cpu as usize].fair.curr;
    if curr == IDLE {
        return;
    }
    let e = &mut m.tasks[curr as usize].fair;
    e.exec_start = now;
    e.vruntime += e.delta_fair(ns);
    let over = m.update_deadline(cpu, curr);
    if m.rqs[cpu as usize].fair.nr_queued > 1 && (over || !m.tasks[curr as usize].fair.protected()) {
        m.resched_curr(cpu);
    }
}

pub(crate) fn task_tick(m: &mut Machine, cpu: u32) {
    let curr = m.rqs[cpu as usize].fair.curr;
    m.update_load_avg(cpu, curr);
    m.update_misfit_status(cpu, curr);
}

/// Starts the high resolution tick for the end of curr's request, when others wait (hrtick_start_fair).
fn hrtick_start(m: &mut Machine, cpu: u32) {
    let rq = &m.rqs[cpu as usize];
    if rq.fair.nr_runnable <= 1 {
        m.rqs[cpu as usize].fair.hrtick_at = NEVER;
        return;
    }
    let e = &m.tasks[rq.fair.curr as usize].fair;
    let left = (e.deadline - e.vruntime).max(0) as u64 * u64::from(e.weight) / entity::NICE_0_LOAD as u64;
    let at = m.local_time(cpu) + left.max(HRTICK_MIN_NS);
    let cfs = &mut m.rqs[cpu as usize].fair;
    cfs.hrtick_at = at;
    if at < cfs.hrtick_event {
        cfs.hrtick_event = at;
        m.events.push(at, crate::event::Event::Hrtick { cpu });
    }
}

/// Somebody joined: curr's request now ends at its deadline.
fn hrtick_update(m: &mut Machine, cpu: u32) {
    let cfs = &m.rqs[cpu as usize].fair;
    if cfs.curr != IDLE && m.tasks[cfs.curr as usize].fair.on_rq && cfs.hrtick_at == NEVER {
        hrtick_start(m, cpu);
    }
}

/// The high resolution tick. It may have been set to a later time, or not be needed any more.
pub(crate) fn hrtick(m: &mut Machine, cpu: u32) {
    let now = m.now;
    let cfs = &mut m.rqs[cpu as usize].fair;
    if cfs.hrtick_event != now {
        return;
    }
    cfs.hrtick_event = NEVER;
    if cfs.curr == IDLE || cfs.hrtick_at == NEVER {
        cfs.hrtick_at = NEVER;
        return;
    }
    if cfs.hrtick_at > now {
        cfs.hrtick_event = cfs.hrtick_at;
        m.events.push(cfs.hrtick_at, crate::event::Event::Hrtick { cpu });
        return;
    }
    cfs.hrtick_at = NEVER;
    m.enter(cpu);
    if m.rqs[cpu as usize].need_resched {
        return;
    }
    m.charge(cpu, u64::from(m.spec.costs.tick_ns));
    // Kernel work held the task up: the rest of its request is still to come.
    hrtick_start(m, cpu);
}

pub(crate) fn task_fork(m: &mut Machine, task: TaskId) {
    let t = &mut m.tasks[task as usize];
    t.fair.weight = t.weight;
    t.fair.recent_used_cpu = t.cpu;
}

/// The task's weight changed while it was off the queue.
pub(crate) fn reweight(m: &mut Machine, task: TaskId) {
    let t = &m.tasks[task as usize];
    let (cpu, weight) = (t.cpu, t.weight);
    m.reweight_entity(cpu, task, weight);
}

pub(crate) fn switched_from(m: &mut Machine, cpu: u32, task: TaskId) {
    finish_delayed(m, task);
    m.detach_load_avg(cpu, task);
}

pub(crate) fn switched_to(m: &mut Machine, cpu: u32, task: TaskId) {
    if m.tasks[task as usize].on_cpu {
        m.resched_curr(cpu);
    } else if m.tasks[task as usize].on_rq {
        m.wakeup_preempt(cpu, task, 0);
    }
}

pub(crate) fn prio_changed(m: &mut Machine, cpu: u32, task: TaskId) {
    let t = &m.tasks[task as usize];
    if m.rqs[cpu as usize].fair.nr_queued <= 1 {
        return;
    }
    if t.on_cpu {
        m.resched_curr(cpu);
    } else if t.on_rq {
        m.wakeup_preempt(cpu, task, 0);
    }
}

pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}

/// Its load goes with the task, its lag was noted when it was dequeued.
pub(crate) fn migrate_task_rq(m: &mut Machine, task: TaskId, _new_cpu: u32) {
    finish_delayed(m, task);
    let cpu = m.tasks[task as usize].cpu;
    m.detach_load_avg(cpu, task);
}

impl CfsRq {
    /// To the recently run end of cfs_tasks.
    fn push_newest(&mut self, tasks: &mut [crate::task::Task], task: TaskId) {
        let second = std::mem::replace(&mut self.newest, task);
        let e = &mut tasks[task as usize].fair;
        (e.newer, e.older) = (IDLE, second);
        match second {
            IDLE => self.oldest = task,
            second => tasks[second as usize].fair.newer = task,
        }
    }

    fn unlink(&mut self, tasks: &mut [crate::task::Task], task: TaskId) {
        let e = &tasks[task as usize].fair;
        let (newer, older) = (e.newer, e.older);
        match newer {
            IDLE => self.newest = older,
            newer => tasks[newer as usize].fair.older = older,
        }
        match older {
            IDLE => self.oldest = newer,
            older => tasks[older as usize].fair.newer = newer,
        }
    }
}
