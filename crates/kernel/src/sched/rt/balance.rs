// SPDX-License-Identifier: GPL-2.0-only
//! Push and pull of real-time tasks between CPUs, so that the tasks with the highest priorities on
//! the whole machine run (find_lowest_rq, push_rt_task, pull_rt_task).

use crate::machine::Machine;
use crate::sched::class::state::flags;
use crate::sched::rt::state::queue::NO_RT;
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

/// Returns whether a task may migrate.
pub(super) fn movable(m: &Machine, task: TaskId) -> bool {
    m.tasks[task].nr_cpus_allowed() > 1 && m.tasks[task].migration_disabled() == 0
}

/// Returns a CPU on which no queued or running real-time task has the priority of `task` or a
/// higher one. Returns `None` if there is no such CPU.
///
/// The task's own CPU is preferred, then the CPU that is nearest to it. If several CPUs are equally
/// near, the current CPU is preferred.
pub(super) fn find_lowest_rq(m: &mut Machine, task: TaskId) -> Option<CpuId> {
    if !movable(m, task) {
        return None;
    }
    let t = &m.tasks[task];
    let lowest = m.root_domain.find(prio(m, task), &t.cpus, &m.online_cpus)?;
    let good = |cpu: CpuId| lowest.contains(cpu) && t.cpus.contains(cpu) && m.online_cpus.contains(cpu);
    if good(t.cpu()) {
        return Some(t.cpu());
    }
    let this_cpu = Some(m.this_cpu).filter(|&cpu| good(cpu));
    let start = m.root_domain.last_choice + 1;
    // Returns the first allowed CPU after the CPU that was chosen last, wrapping around.
    let choose = |among: &[u32]| {
        let from = among.partition_point(|&cpu| cpu < start);
        among[from..]
            .iter()
            .chain(&among[..from])
            .filter_map(|&cpu| m.cpu_id(cpu))
            .find(|&cpu| good(cpu))
    };
    let topology = &m.spec.topology;
    let near = [
        topology.siblings(t.cpu().nr()),
        topology.llc_cpus(t.cpu().nr()),
        topology.node_cpus(t.cpu().nr()),
    ];
    let mut found = None;
    for span in near {
        found = this_cpu.filter(|cpu| span.contains(&cpu.nr())).or_else(|| choose(span));
        if found.is_some() {
            break;
        }
    }
    let anywhere = || {
        lowest
            .next_wrap(start % m.nr_cpus())
            .filter(|&cpu| good(cpu))
            .or_else(|| lowest.iter().find(|&cpu| good(cpu)))
    };
    let found = found.or(this_cpu).or_else(anywhere)?;
    m.root_domain.last_choice = found.nr();
    Some(found)
}

/// Returns the waiting tasks of `cpu` that may run on other CPUs, highest priority first.
fn pushable(m: &Machine, cpu: CpuId) -> impl Iterator<Item = TaskId> + '_ {
    let rq = &m.rqs[cpu];
    rq.rt
        .iter(&m.tasks)
        .filter(move |&task| task != rq.curr && !m.tasks[task].on_cpu() && movable(m, task))
}

/// Pushes waiting tasks of `cpu` to CPUs that run tasks of lower priority or are idle.
pub(super) fn push_tasks(m: &mut Machine, cpu: CpuId) {
    while m.root_domain.overloaded.contains(cpu) {
        let Some(task) = pushable(m, cpu).next() else { return };
        if prio(m, task) < curr_prio(m, cpu) {
            m.resched_curr(cpu);
            return;
        }
        let Some(to) = find_lowest_rq(m, task).filter(|&to| to != cpu) else {
            return;
        };
        if m.rqs[to].rt.highest() <= prio(m, task) {
            return;
        }
        m.mover = Mover::RtPush;
        m.move_queued_task(task, to, MigrateReason::Balance);
        m.mover = Mover::None;
        m.trace(m.this_cpu, trace::Event::Balance { moved: 1 });
    }
}

/// Pulls the waiting tasks with the highest priorities from other CPUs, because `cpu` is about to
/// run a task of a lower priority than before. Returns whether a task was moved.
pub(super) fn pull_tasks(m: &mut Machine, cpu: CpuId) -> bool {
    let own = u32::from(m.root_domain.overloaded.contains(cpu));
    if m.root_domain.nr_overloaded == own {
        return false;
    }
    let mut pulled = 0;
    let mut next = m.root_domain.overloaded.first();
    while let Some(src) = next {
        next = m.root_domain.overloaded.next(src.nr() + 1);
        if src == cpu {
            continue;
        }
        let line = m.spec.costs.cache_line.at(m.distance(m.this_cpu, src));
        m.charge_here(line);
        let best = pushable(m, src).find(|&task| m.is_cpu_allowed(task, cpu));
        let Some(task) = best else { continue };
        // A task with a higher priority than the current task of its CPU is about to run there, so
        // it is not pulled.
        if prio(m, task) >= m.rqs[cpu].rt.highest() || prio(m, task) < curr_prio(m, src) {
            continue;
        }
        m.lock(LockId::Rq(src));
        m.deactivate_task(src, task, flags::NOCLOCK);
        m.mover = Mover::RtPull;
        m.set_task_cpu(task, cpu, MigrateReason::Balance);
        m.mover = Mover::None;
        m.unlock(LockId::Rq(src));
        m.activate_task(cpu, task, flags::MIGRATED);
        pulled += 1;
    }
    if pulled > 0 {
        m.trace(m.this_cpu, trace::Event::Balance { moved: pulled });
    }
    pulled > 0
}
