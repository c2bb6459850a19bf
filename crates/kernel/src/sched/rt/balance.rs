// SPDX-License-Identifier: GPL-2.0-only
//! Push and pull of real-time tasks between CPUs, so that the tasks with the highest priorities on
//! the whole machine run (find_lowest_rq, push_rt_task, pull_rt_task).

use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::rt::state::queue::NO_RT;
use crate::simulation::cpuset::CpuSet;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::stepped::Mover;
use trace::MigrateReason;

/// Returns the priority index of a real-time task: 0 for SCHED_DEADLINE, 1 to 99 from the highest
/// to the lowest real-time priority.
pub(super) fn prio(m: &Machine, task: TaskId) -> u32 {
    (m.tasks[task].prio() + 1).clamp(0, NO_RT as i32) as u32
}

/// Returns the priority index of the running task of `cpu`, or [`NO_RT`] if it is not a real-time
/// task.
pub(super) fn curr_prio(m: &Machine, cpu: CpuId) -> u32 {
    let curr = m.rqs[cpu].curr;
    if curr == IDLE { NO_RT } else { prio(m, curr) }
}

/// Returns whether the affinity of a task has several CPUs. The task may have disabled migration.
pub(super) fn migratable(m: &Machine, task: TaskId) -> bool {
    m.tasks[task].nr_cpus_allowed() > 1
}

/// Returns whether a task could move to a CPU whose tasks have a lower priority
/// (check_preempt_equal_prio).
pub(super) fn could_move(m: &Machine, task: TaskId) -> bool {
    migratable(m, task)
        && m.root_domain
            .find(prio(m, task), |cpu| m.tasks[task].cpus.contains(cpu))
            .is_some()
}

/// Returns whether a CPU is fast enough for a task (rt_task_fits_capacity). Real-time tasks need the
/// full capacity, unless uclamp says otherwise.
pub(super) fn fits_capacity(m: &Machine, _task: TaskId, cpu: CpuId) -> bool {
    !m.domains.asym || m.spec.topology.cpus[cpu.index()].capacity >= 1024
}

/// Returns a CPU on which no queued or running real-time task has the priority of `task` or a
/// higher one. Returns `None` if there is no such CPU.
///
/// The task's own CPU is preferred, then the CPU that is nearest to it. If several CPUs are equally
/// near, the current CPU is preferred.
pub(super) fn find_lowest_rq(m: &mut Machine, task: TaskId) -> Option<CpuId> {
    if !migratable(m, task) {
        return None;
    }
    let t = &m.tasks[task];
    let usable = |cpu: CpuId| t.cpus.contains(cpu) && m.online_cpus.contains(cpu);
    let fitting = |cpu: CpuId| usable(cpu) && fits_capacity(m, task, cpu);
    let of_fitting = if m.domains.asym {
        m.root_domain.find(prio(m, task), fitting)
    } else {
        None
    };
    let fits = of_fitting.is_some();
    let lowest = of_fitting.or_else(|| m.root_domain.find(prio(m, task), usable))?;
    let good = |cpu: CpuId| lowest.contains(cpu) && if fits { fitting(cpu) } else { usable(cpu) };
    if good(t.cpu()) {
        return Some(t.cpu());
    }
    let this_cpu = Some(m.this_cpu).filter(|&cpu| good(cpu));
    let last = m.rqs[m.this_cpu].distribute_cpu_mask_prev;
    // Successive choices of a CPU go through the CPUs in turn.
    let next = |among: &CpuSet| {
        let choices = || among.iter().filter(|&cpu| good(cpu));
        choices().find(|&cpu| cpu > last).or_else(|| choices().next())
    };
    let spans = m.domains.levels[t.cpu().index()]
        .iter()
        .map(|level| &m.domains.spans[level.span as usize]);
    for span in spans.filter(|span| span.near) {
        if let Some(cpu) = this_cpu.filter(|&cpu| span.set.contains(cpu)) {
            return Some(cpu);
        }
        if let Some(cpu) = next(&span.set) {
            m.rqs[m.this_cpu].distribute_cpu_mask_prev = cpu;
            return Some(cpu);
        }
    }
    if this_cpu.is_some() {
        return this_cpu;
    }
    let cpu = next(lowest)?;
    m.rqs[m.this_cpu].distribute_cpu_mask_prev = cpu;
    Some(cpu)
}

/// Pushes waiting tasks of `cpu` to CPUs that run tasks of lower priority or are idle.
pub(crate) fn push_tasks(m: &mut Machine, cpu: CpuId) {
    while push_task(m, cpu) {}
}

/// Pushes the waiting task with the highest priority, unless it has disabled migration. Returns whether
/// it was moved (push_rt_task).
fn push_task(m: &mut Machine, cpu: CpuId) -> bool {
    // The thread that takes a CPU offline has interrupted the running task.
    let stopping = m.rqs[cpu].stopping;
    let waits = |task: &TaskId| !m.tasks[*task].on_cpu() || stopping;
    let Some(task) = m.rqs[cpu].rt.pushable.iter().map(|&(_, task)| task).find(waits) else {
        return false;
    };
    if prio(m, task) < curr_prio(m, cpu) && !stopping {
        m.resched_curr(cpu);
        return false;
    }
    m.tasks[task].migration_disabled() == 0 && move_to_lowest(m, task)
}

/// Moves a task to the CPU that [`find_lowest_rq`] chooses, if the task has the highest priority there.
/// Returns whether it was moved (find_lock_lowest_rq).
fn move_to_lowest(m: &mut Machine, task: TaskId) -> bool {
    let from = m.tasks[task].cpu();
    let Some(to) = find_lowest_rq(m, task).filter(|&to| to != from) else {
        return false;
    };
    if m.rqs[to].rt.highest() <= prio(m, task) {
        return false;
    }
    m.mover = Mover::RtPush;
    m.move_queued_task(task, to, MigrateReason::Balance);
    m.mover = Mover::None;
    m.resched_curr(to);
    m.trace(m.this_cpu, trace::Event::Balance { moved: 1 });
    true
}

/// Asks the stopper of a CPU to move the running task away (get_push_task).
fn push_running(m: &mut Machine, cpu: CpuId) {
    let curr = m.rqs[cpu].curr;
    if m.rqs[cpu].rt.push_task.is_none() && migratable(m, curr) && m.tasks[curr].migration_disabled() == 0 {
        m.rqs[cpu].rt.push_task = Some(curr);
        m.interrupt_cpu(cpu, Event::RtPush { cpu });
    }
}

/// Does the work of the stopper on `cpu`: moves a task away, so that a waiting task that has disabled
/// migration can run (push_cpu_stop).
pub(crate) fn push_cpu_stop(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    let Some(task) = m.rqs[cpu].rt.push_task.take() else {
        return;
    };
    // The cost is two context switches: to the stopper and back.
    m.charge(cpu, 2 * u64::from(m.spec.costs.context_switch_ns));
    let push = |m: &mut Machine| {
        let stays = m.tasks[task].cpu() != cpu || !m.tasks[task].on_rq() || m.class_of(task) != Class::Rt;
        if !stays && m.tasks[task].migration_disabled() == 0 {
            move_to_lowest(m, task);
        }
    };
    match m.curr_class(cpu) {
        Class::Fair | Class::Rt => m.run_stopper(cpu, push),
        Class::Ext | Class::Idle => push(m),
    }
}

/// Pulls the waiting tasks with the highest priorities from other CPUs, because `cpu` is about to
/// run a task of a lower priority than before (pull_rt_task).
pub(super) fn pull_tasks(m: &mut Machine, cpu: CpuId) {
    let own = u32::from(m.root_domain.overloaded.contains(cpu));
    if m.root_domain.nr_overloaded == own {
        return;
    }
    let mut pulled = 0;
    let mut next = m.root_domain.overloaded.first();
    while let Some(src) = next {
        next = m.root_domain.overloaded.next(src.nr() + 1);
        let highest = m.rqs[cpu].rt.highest();
        let waiting = m.rqs[src].rt.pushable.first().map_or(NO_RT, |&(prio, _)| prio);
        if src == cpu || waiting >= highest {
            continue;
        }
        let line = m.spec.costs.cache_line.at(m.distance(m.this_cpu, src));
        m.charge_here(line);
        // The queue can change until it is locked (double_lock_balance).
        m.await_rq(src);
        let can_run = |task: &TaskId| !m.tasks[*task].on_cpu() && m.tasks[*task].cpus.contains(cpu);
        let Some(task) = m.rqs[src].rt.pushable.iter().map(|&(_, task)| task).find(can_run) else {
            continue;
        };
        // A task with a higher priority than the current task of its CPU is about to run there, so
        // it is not pulled.
        if prio(m, task) >= highest || prio(m, task) < curr_prio(m, src) && !m.rqs[src].stopping {
            continue;
        }
        if m.tasks[task].migration_disabled() > 0 {
            push_running(m, src);
            continue;
        }
        m.lock(LockId::Rq(src));
        m.deactivate_task(src, task, flags::NOCLOCK);
        m.mover = Mover::RtPull;
        m.set_task_cpu(task, cpu, MigrateReason::Balance);
        m.mover = Mover::None;
        m.unlock(LockId::Rq(src));
        m.activate_task(cpu, task, flags::MIGRATED);
        m.wakeup_preempt(cpu, task, 0);
        pulled += 1;
    }
    if pulled > 0 {
        m.trace(m.this_cpu, trace::Event::Balance { moved: pulled });
        m.resched_curr(cpu);
    }
}
