// SPDX-License-Identifier: GPL-2.0-only
//! The real-time class: SCHED_FIFO and SCHED_RR (kernel/sched/rt.c, kernel/sched/cpupri.c).
//!
//! Modelled:
//! - on each CPU, one list of tasks for each of the 99 priorities
//! - one more list, with a higher priority, for SCHED_DEADLINE tasks. These tasks run in order of
//!   arrival, and only their programs limit their CPU time.
//! - the round-robin slice of 100 ms
//! - push: if a task has to wait, its CPU moves the task to a CPU on which it can run
//! - pull: if the highest priority on a CPU decreases, the CPU takes waiting tasks from other CPUs
//! - the deadline servers, which prevent real-time tasks from starving the other classes
//!
//! Not modelled:
//! - real-time task groups and their bandwidth
//! - deadlines and throttling of SCHED_DEADLINE
//! - RT_PUSH_IPI (off by default)
//! - moving a running task away through the stopper so that a pinned task can run
//! - placement according to CPU capacity

mod balance;

pub mod state;
#[cfg(test)]
mod tests;

use crate::layout::SCHED_RR;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair;
use crate::sched::fair::state::pelt::State;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use balance::{curr_prio, find_lowest_rq, movable, prio};

/// Slice of SCHED_RR tasks (sched_rr_timeslice), ms.
const RR_TIMESLICE_MS: u32 = 100;

/// Returns the slice of SCHED_RR tasks as a number of ticks.
fn rr_timeslice(m: &Machine) -> u32 {
    (RR_TIMESLICE_MS * m.spec.hz / 1000).max(1)
}

/// Tries to pull a task from other CPUs if the priority of `cpu` drops (balance_rt).
pub(crate) fn balance(m: &mut Machine, cpu: CpuId) {
    let prev = m.rqs[cpu].curr;
    if prev != IDLE
        && m.tasks[prev].class == Class::Rt
        && !m.tasks[prev].rt.on_list
        && m.rqs[cpu].rt.highest() > prio(m, prev)
        && m.online_cpus.contains(cpu)
    {
        balance::pull_tasks(m, cpu);
    }
}

/// Returns the queued task with the highest priority.
pub(crate) fn pick_task(m: &Machine, cpu: CpuId) -> Option<TaskId> {
    m.rqs[cpu].rt.first()
}

/// Updates the data about `cpu` in the root domain: its highest queued priority, and whether it has
/// a waiting task that could run on another CPU.
fn update_root_domain(m: &mut Machine, cpu: CpuId) {
    let rt = &m.rqs[cpu].rt;
    m.root_domain.set(cpu, rt.highest());
    m.root_domain
        .set_overloaded(cpu, rt.nr_running > 1 && rt.nr_movable > 0);
}

/// Returns whether a task leaves its list. While its affinity changes, it keeps its position
/// (move_entity).
fn moves(flags: u32) -> bool {
    flags & (flags::SAVE | flags::MOVE) != flags::SAVE
}

/// Adds a task to the list of its priority (enqueue_task_rt).
pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    let (prio, movable, rr) = (prio(m, task), movable(m, task), m.is_round_robin(task));
    let rt = &mut m.rqs[cpu].rt;
    if moves(flags) {
        rt.link(&mut m.tasks, task, prio, flags & flags::HEAD != 0);
    }
    rt.nr_running += 1;
    rt.nr_movable += u32::from(movable);
    rt.nr_round_robin += u32::from(rr);
    update_root_domain(m, cpu);
    m.track_deadline_task(task);
    m.cpufreq_update_util(cpu, false);
}

/// Removes a task from the list of its priority (dequeue_task_rt).
pub(crate) fn dequeue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    let (movable, rr) = (movable(m, task), m.is_round_robin(task));
    let rt = &mut m.rqs[cpu].rt;
    if moves(flags) {
        rt.unlink(&mut m.tasks, task);
    }
    rt.nr_running -= 1;
    rt.nr_movable -= u32::from(movable);
    rt.nr_round_robin -= u32::from(rr);
    update_root_domain(m, cpu);
    m.cpufreq_update_util(cpu, false);
}

/// Moves the current task to the end of the list of its priority (yield_task_rt).
pub(crate) fn yield_task(m: &mut Machine, cpu: CpuId) {
    let curr = m.rqs[cpu].curr;
    m.rqs[cpu].rt.requeue(&mut m.tasks, curr, false);
}

/// Reschedules if the woken task has a higher priority than the current task. Otherwise tries to
/// push the woken task to another CPU.
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: CpuId, task: TaskId, _flags: u32) {
    let curr = m.rqs[cpu].curr;
    if prio(m, task) < curr_prio(m, cpu) {
        m.resched_curr(cpu);
        return;
    }
    if m.rqs[cpu].resched_pending() || task == curr {
        return;
    }
    if prio(m, task) == prio(m, curr) && !movable(m, task) && movable(m, curr) && find_lowest_rq(m, curr).is_some() {
        // Both tasks have the same priority. The current task could run on another CPU, but the
        // woken task could not. The woken task runs here, and the current task is pushed away after
        // the switch.
        m.rqs[cpu].rt.requeue(&mut m.tasks, task, true);
        m.resched_curr(cpu);
        return;
    }
    if movable(m, task) {
        balance::push_tasks(m, cpu);
    }
}

/// Returns the CPU for a woken or new task. Searches for another CPU only if the current task on
/// `prev_cpu` is a real-time task that is pinned or has at least the same priority. In all other
/// cases the task stays on `prev_cpu` and preempts the current task.
pub(crate) fn select_task_rq(m: &mut Machine, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
    if wake_flags & (flags::WF_TTWU | flags::WF_FORK) == 0 {
        return prev_cpu;
    }
    let curr = m.rqs[prev_cpu].curr;
    let stays = m.class_of(curr) != Class::Rt || (movable(m, curr) && prio(m, curr) > prio(m, task));
    if stays {
        return prev_cpu;
    }
    match find_lowest_rq(m, task) {
        Some(cpu) if prio(m, task) < m.rqs[cpu].rt.highest() => cpu,
        _ => prev_cpu,
    }
}

/// Handles a task that stops running. If it is still queued, it may be pushed to another CPU after
/// the switch.
pub(crate) fn put_prev_task(m: &mut Machine, cpu: CpuId, prev: TaskId, _next: TaskId) {
    if m.tasks[prev].rt.on_list {
        m.rqs[cpu].rt.push_wanted = true;
    }
}

/// Handles a real-time task that starts to run: updates averages, and requests a push if other
/// real-time tasks wait on this CPU (set_next_task_rt).
pub(crate) fn set_next_task(m: &mut Machine, cpu: CpuId, _next: TaskId) {
    fair::exit_idle(m, cpu);
    let now = m.clock_pelt(cpu);
    let rt = &mut m.rqs[cpu].rt;
    rt.avg.update(
        now,
        State {
            load: 0,
            runnable: 0,
            running: false,
        },
        1,
    );
    rt.push_wanted |= rt.nr_running > 1;
}

/// Pushes waiting tasks to CPUs that run tasks of lower priority. Runs after a context switch.
pub(crate) fn balance_callback(m: &mut Machine, cpu: CpuId) {
    if std::mem::take(&mut m.rqs[cpu].rt.push_wanted) {
        balance::push_tasks(m, cpu);
    }
}

/// Updates the PELT average of the capacity that real-time tasks use (update_rt_rq_load_avg).
pub(crate) fn update_curr(m: &mut Machine, cpu: CpuId, _ns: u64) {
    let now = m.clock_pelt(cpu);
    let rt = &mut m.rqs[cpu].rt;
    rt.avg.update(
        now,
        State {
            load: 1,
            runnable: 1,
            running: true,
        },
        1,
    );
}

/// Counts down the slice of a SCHED_RR task. When the slice is used up, moves the task to the end
/// of its list (task_tick_rt).
pub(crate) fn task_tick(m: &mut Machine, cpu: CpuId) {
    let curr = m.rqs[cpu].curr;
    if m.tasks[curr].policy() != SCHED_RR {
        return;
    }
    let slice = rr_timeslice(m);
    let e = &mut m.tasks[curr].rt;
    e.time_slice = e.time_slice.saturating_sub(1);
    if e.time_slice > 0 {
        return;
    }
    e.time_slice = slice;
    if !m.rqs[cpu].rt.is_alone(&m.tasks, curr) {
        m.rqs[cpu].rt.requeue(&mut m.tasks, curr, false);
        m.resched_curr(cpu);
    }
}

pub(crate) fn task_fork(m: &mut Machine, task: TaskId) {
    m.tasks[task].rt.time_slice = rr_timeslice(m);
}

/// Pulls tasks from other CPUs if a CPU's last real-time task has left the class
/// (switched_from_rt).
pub(crate) fn switched_from(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.tasks[task].on_rq() && m.rqs[cpu].rt.nr_running == 0 && balance::pull_tasks(m, cpu) {
        m.resched_curr(cpu);
    }
}

/// Reschedules, or pushes tasks to other CPUs, after a task has entered the class (switched_to_rt).
pub(crate) fn switched_to(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.tasks[task].rt.time_slice = rr_timeslice(m);
    let t = &m.tasks[task];
    if t.on_rq() && !t.on_cpu() {
        if prio(m, task) < curr_prio(m, cpu) {
            m.resched_curr(cpu);
        } else {
            balance::push_tasks(m, cpu);
        }
    }
}

/// Reschedules, or pulls tasks from other CPUs, after a change of a task's priority
/// (prio_changed_rt).
pub(crate) fn prio_changed(m: &mut Machine, cpu: CpuId, task: TaskId, _old_prio: i32) {
    let t = &m.tasks[task];
    if t.on_cpu() {
        balance::pull_tasks(m, cpu);
        if prio(m, task) > m.rqs[cpu].rt.highest() {
            m.resched_curr(cpu);
        }
    } else if t.on_rq() && prio(m, task) < curr_prio(m, cpu) {
        m.resched_curr(cpu);
    }
}

/// Does nothing. The task is not queued during this change. When it is queued again, it is counted
/// according to its new affinity.
pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: CpuId) {}
