// SPDX-License-Identifier: GPL-2.0-only
//! The real-time class: SCHED_FIFO and SCHED_RR (kernel/sched/rt.c, kernel/sched/cpupri.c).
//!
//! Modelled:
//! - on each CPU, one list of tasks for each of the 99 priorities
//! - one more list, with a higher priority, for SCHED_DEADLINE tasks. These tasks run in order of
//!   arrival, and only their programs limit their CPU time.
//! - the round-robin slice of 100 ms
//! - push: if a task has to wait, its CPU moves the task to a CPU on which it can run
//! - pull: if the highest priority on a CPU decreases, the CPU takes waiting tasks from other CPUs. If
//!   such a task has disabled migration, the stopper of its CPU moves the running task away instead
//! - the deadline servers, which prevent real-time tasks from starving the other classes
//!
//! Not modelled:
//! - real-time task groups and their bandwidth
//! - deadlines and throttling of SCHED_DEADLINE
//! - RT_PUSH_IPI (off by default)
//! - uclamp: real-time tasks have the default boost of 1024, so they fit the fastest CPUs only

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
use balance::{could_move, curr_prio, find_lowest_rq, fits_capacity, migratable, prio};
pub(crate) use balance::{push_cpu_stop, push_tasks};

/// Slice of SCHED_RR tasks (sched_rr_timeslice), ms.
const RR_TIMESLICE_MS: u32 = 100;

/// Returns the slice of SCHED_RR tasks as a number of ticks.
fn rr_timeslice(m: &Machine) -> u32 {
    (RR_TIMESLICE_MS * m.spec.hz / 1000).max(1)
}

/// Tries to pull a task from other CPUs if the priority of `cpu` drops (balance_rt). The priority
/// also drops when the stopper has done its work.
pub(crate) fn balance(m: &mut Machine, cpu: CpuId) {
    let rq = &m.rqs[cpu];
    let prev = rq.curr;
    let drops = rq.stopping
        || prev != IDLE
            && m.tasks[prev].class == Class::Rt
            && !m.tasks[prev].rt.on_rq
            && rq.rt.highest() > prio(m, prev);
    if drops && m.online_cpus.contains(cpu) {
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
    m.root_domain.set_overloaded(cpu, !rt.pushable.is_empty());
}

/// Adds a waiting task to those that can be pushed to another CPU (enqueue_pushable_task).
fn add_pushable(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if migratable(m, task) {
        let prio = prio(m, task);
        let at = m.rqs[cpu].rt.pushable.partition_point(|&(other, _)| other <= prio);
        m.rqs[cpu].rt.pushable.insert(at, (prio, task));
    }
}

fn remove_pushable(m: &mut Machine, cpu: CpuId, task: TaskId) {
    m.rqs[cpu].rt.pushable.retain(|&(_, other)| other != task);
}

/// Returns whether a task leaves its list. While its affinity changes, it keeps its position
/// (move_entity).
fn moves(flags: u32) -> bool {
    flags & (flags::SAVE | flags::MOVE) != flags::SAVE
}

/// Adds a task to the list of its priority (enqueue_task_rt).
pub(crate) fn enqueue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    let (prio, rr) = (prio(m, task), m.is_round_robin(task));
    let rt = &mut m.rqs[cpu].rt;
    if moves(flags) {
        rt.link(&mut m.tasks, task, prio, flags & flags::HEAD != 0);
    }
    rt.nr_running += 1;
    rt.nr_round_robin += u32::from(rr);
    m.tasks[task].rt.on_rq = true;
    m.domains.overloaded |= m.rqs[cpu].nr_running == 2;
    if m.rqs[cpu].curr != task || m.rqs[cpu].stopping {
        add_pushable(m, cpu, task);
    }
    update_root_domain(m, cpu);
    m.track_deadline_task(task);
    m.cpufreq_update_util(cpu, false);
}

/// Removes a task from the list of its priority (dequeue_task_rt).
pub(crate) fn dequeue_task(m: &mut Machine, cpu: CpuId, task: TaskId, flags: u32) {
    let rr = m.is_round_robin(task);
    let rt = &mut m.rqs[cpu].rt;
    if moves(flags) {
        rt.unlink(&mut m.tasks, task);
    }
    rt.nr_running -= 1;
    rt.nr_round_robin -= u32::from(rr);
    m.tasks[task].rt.on_rq = false;
    remove_pushable(m, cpu, task);
    update_root_domain(m, cpu);
    m.cpufreq_update_util(cpu, false);
}

/// Moves the current task to the end of the list of its priority (yield_task_rt).
pub(crate) fn yield_task(m: &mut Machine, cpu: CpuId) {
    let curr = m.rqs[cpu].curr;
    m.rqs[cpu].rt.requeue(&mut m.tasks, curr, false);
}

/// Reschedules if the woken task has a higher priority than the current task (wakeup_preempt_rt).
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: CpuId, task: TaskId, _flags: u32) {
    let curr = m.rqs[cpu].curr;
    if m.class_of(curr) != Class::Rt {
        return;
    }
    if prio(m, task) < curr_prio(m, cpu) {
        m.resched_curr(cpu);
        return;
    }
    // If the current task could run on another CPU and the woken task could not, the woken task runs
    // here, and the current task is pushed away after the switch (check_preempt_equal_prio).
    if prio(m, task) == prio(m, curr) && !m.rqs[cpu].resched_pending() && could_move(m, curr) && !could_move(m, task) {
        m.rqs[cpu].rt.requeue(&mut m.tasks, task, true);
        m.resched_curr(cpu);
    }
}

/// Pushes waiting tasks to other CPUs if a woken task does not run soon (task_woken_rt).
pub(crate) fn task_woken(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let curr = m.rqs[cpu].curr;
    if !m.tasks[task].on_cpu()
        && !m.rqs[cpu].resched_pending()
        && migratable(m, task)
        && m.class_of(curr) == Class::Rt
        && (!migratable(m, curr) || prio(m, curr) <= prio(m, task))
    {
        balance::push_tasks(m, cpu);
    }
}

/// Returns the CPU for a woken or new task. Searches for another CPU only if the current task on
/// `prev_cpu` is a real-time task that is pinned or has at least the same priority, or if `prev_cpu`
/// is too slow. In all other cases the task stays on `prev_cpu` and preempts the current task.
pub(crate) fn select_task_rq(m: &mut Machine, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
    if wake_flags & (flags::WF_TTWU | flags::WF_FORK) == 0 {
        return prev_cpu;
    }
    let curr = m.rqs[prev_cpu].curr;
    let waits = m.class_of(curr) == Class::Rt && (!migratable(m, curr) || prio(m, curr) <= prio(m, task));
    if !waits && fits_capacity(m, task, prev_cpu) {
        return prev_cpu;
    }
    match find_lowest_rq(m, task) {
        Some(cpu) if !waits && !fits_capacity(m, task, cpu) => prev_cpu,
        Some(cpu) if prio(m, task) < m.rqs[cpu].rt.highest() => cpu,
        _ => prev_cpu,
    }
}

/// Handles a task that stops running. If it is still queued, it may be pushed to another CPU
/// (put_prev_task_rt).
pub(crate) fn put_prev_task(m: &mut Machine, cpu: CpuId, prev: TaskId, _next: TaskId) {
    if m.stepped.is_some() {
        m.update_curr(cpu);
    }
    if m.tasks[prev].rt.on_rq {
        add_pushable(m, cpu, prev);
        update_root_domain(m, cpu);
    }
}

/// Handles a real-time task that starts to run: updates averages, and requests a push if other
/// real-time tasks wait on this CPU (set_next_task_rt).
pub(crate) fn set_next_task(m: &mut Machine, cpu: CpuId, next: TaskId) {
    fair::exit_idle(m, cpu);
    set_curr_task(m, cpu, next);
    update_average(m, cpu, false);
    let rt = &mut m.rqs[cpu].rt;
    rt.push_wanted |= !rt.pushable.is_empty();
}

/// Handles the running task after a change (set_next_task_rt with `first` unset).
pub(crate) fn set_curr_task(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    remove_pushable(m, cpu, curr);
    update_root_domain(m, cpu);
}

/// Pushes waiting tasks to CPUs that run tasks of lower priority, or pulls tasks from other CPUs, if
/// this was requested. Runs after a context switch and after a change of a task
/// (balance_callbacks).
#[inline]
pub(crate) fn balance_callback(m: &mut Machine, cpu: CpuId) {
    if std::mem::take(&mut m.rqs[cpu].rt.push_wanted) {
        balance::push_tasks(m, cpu);
    }
    if std::mem::take(&mut m.rqs[cpu].rt.pull_wanted) {
        balance::pull_tasks(m, cpu);
    }
}

/// Updates the PELT average of the capacity that real-time tasks use (update_rt_rq_load_avg).
pub(crate) fn update_curr(m: &mut Machine, cpu: CpuId, _ns: u64) {
    update_average(m, cpu, true);
}

/// Updates the average of a CPU that may run a task of another class (update_other_load_avgs).
pub(crate) fn update_other_load_avgs(m: &mut Machine, cpu: CpuId) {
    if m.rqs[cpu].rt.avg.decays() || m.curr_class(cpu) == Class::Rt {
        update_average(m, cpu, m.curr_class(cpu) == Class::Rt);
    }
}

/// Updates the average up to now. `running` tells whether a real-time task has run since the last
/// update.
pub(crate) fn update_average(m: &mut Machine, cpu: CpuId, running: bool) {
    let now = m.clock_pelt(cpu);
    let state = State {
        load: u64::from(running),
        runnable: u64::from(running),
        running,
    };
    m.rqs[cpu].rt.avg.update(now, state, 1);
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

/// Sets the slice that a new task has if it becomes a SCHED_RR task (__sched_fork).
pub(crate) fn init_task(m: &mut Machine, task: TaskId) {
    m.tasks[task].rt.time_slice = rr_timeslice(m);
}

/// Does nothing: `init_task` initializes all tasks.
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}

/// Requests a pull if a CPU's last real-time task has left the class (switched_from_rt).
pub(crate) fn switched_from(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.tasks[task].on_rq() && m.rqs[cpu].rt.nr_running == 0 {
        m.rqs[cpu].rt.pull_wanted = true;
    }
}

/// Reschedules, or requests a push, after a task has entered the class (switched_to_rt).
pub(crate) fn switched_to(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let t = &m.tasks[task];
    if t.on_cpu() {
        // From now on, the running time is part of the average.
        update_average(m, cpu, false);
    } else if t.on_rq() {
        m.rqs[cpu].rt.push_wanted |= migratable(m, task) && !m.rqs[cpu].rt.pushable.is_empty();
        if prio(m, task) < curr_prio(m, cpu) {
            m.resched_curr(cpu);
        }
    }
}

/// Reschedules, or requests a pull, after a change of a task's priority (prio_changed_rt).
pub(crate) fn prio_changed(m: &mut Machine, cpu: CpuId, task: TaskId, old_prio: i32) {
    let t = &m.tasks[task];
    if !t.on_rq() {
        return;
    }
    if t.on_cpu() {
        m.rqs[cpu].rt.pull_wanted |= old_prio < t.prio();
        if prio(m, task) > m.rqs[cpu].rt.highest() {
            m.resched_curr(cpu);
        }
    } else if prio(m, task) < curr_prio(m, cpu) {
        m.resched_curr(cpu);
    }
}

/// Does nothing. The task is not queued during this change. When it is queued again, it is counted
/// according to its new affinity.
pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}
pub(crate) fn migrate_task_rq(_m: &mut Machine, _task: TaskId, _new_cpu: CpuId) {}
