// SPDX-License-Identifier: GPL-2.0-only
//! Moves tasks from one runqueue to another for load balancing. Corresponds to detach_tasks,
//! can_migrate_task and active balancing in the kernel.

use super::busiest::nr_running;
use super::lb_env::{Env, IdleType, Migrate};
use super::{is_idle_policy, numa, queue, sched_cache};
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::domains::Level;
use crate::sched::fair::state::entity::{MIGRATION_COST, Push};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::stepped::Mover;
use machine::Feature;
use std::cmp::Ordering;
use trace::MigrateReason;

/// State of the examination of tasks in a balancing run (LBF_*).
#[derive(Default)]
pub(super) struct Detach {
    /// Number of tasks that may still be examined.
    pub left: u32,
    /// Whether none of the examined tasks may run on the destination CPU.
    pub all_pinned: bool,
    /// Whether at least one examined task may not run on the destination CPU.
    pub some_pinned: bool,
    /// A CPU in the destination CPU's group that can become the destination instead: an examined
    /// task may run there, but not on the destination CPU.
    pub new_dst_cpu: Option<CpuId>,
    /// Whether a task was not moved because of its preferred LLC.
    pub llc_pinned: bool,
}

/// Returns whether a task may migrate to `cpu`: the mask that the balancer sees contains `cpu`, and the
/// CPU is online. The mask of a task that has disabled migration is narrowed only when its CPU
/// schedules (cpus_ptr).
pub(super) fn may_run_on(m: &Machine, task: TaskId, cpu: CpuId) -> bool {
    if task == IDLE || !m.online_cpus.contains(cpu) {
        return false;
    }
    let t = &m.tasks[task];
    match t.migration_disabled() > 0 && m.has_narrowed_mask(task) {
        true => cpu == t.cpu(),
        false => t.has_affinity_to(cpu),
    }
}

/// Moves tasks from the source CPU to the destination CPU until `env.imbalance` is removed. Returns
/// the number of moved tasks.
pub(super) fn move_tasks(m: &mut Machine, env: &mut Env, state: &mut Detach) -> u32 {
    if nr_running(m, env.src_cpu) <= 1 {
        state.all_pinned = false;
        return 0;
    }
    m.lock(LockId::Rq(env.src_cpu));
    // The tasks, and whether each of them is a delayed sleeper.
    let mut detached: Vec<(TaskId, bool)> = Vec::new();
    while env.imbalance > 0 && state.left > 0 {
        if env.idle != IdleType::Busy && nr_running(m, env.src_cpu) <= 1 {
            break;
        }
        let task = m.rqs[env.src_cpu].fair.oldest;
        if task == IDLE {
            break;
        }
        state.left -= 1;
        if !can_migrate_task(m, env, state, task) || !within_imbalance(m, env, task) {
            // Moves the task to the other end of the list, so that other tasks are examined first
            // from now on.
            let rq = &mut m.rqs[env.src_cpu].fair;
            rq.unlink(&mut m.tasks, task);
            rq.push_newest(&mut m.tasks, task);
            continue;
        }
        detached.push((task, detach_task(m, task, env.dst_cpu, MigrateReason::Balance)));
        if env.idle == IdleType::NewlyIdle {
            // A newly idle CPU needs only one task, and should not spend more time on balancing.
            break;
        }
    }
    m.unlock(LockId::Rq(env.src_cpu));
    if detached.is_empty() {
        return 0;
    }
    m.lock(LockId::Rq(env.dst_cpu));
    for &(task, delayed) in detached.iter().rev() {
        attach_task(m, task, env.dst_cpu, delayed);
        if env.idle != IdleType::NewlyIdle {
            m.wakeup_preempt(env.dst_cpu, task, 0);
        } else if m.rqs[env.dst_cpu].curr != IDLE {
            // The CPU picks its next task anyway, so no preemption is necessary. If its previous task is
            // throttled, this task still counts as queued.
            m.skip_next_update(env.dst_cpu);
        }
    }
    m.unlock(LockId::Rq(env.dst_cpu));
    detached.len() as u32
}

/// Removes a task from its queue and assigns it to the CPU `to`. Returns whether the task is a
/// delayed sleeper (a sleeping task that is still queued).
fn detach_task(m: &mut Machine, task: TaskId, to: CpuId, reason: MigrateReason) -> bool {
    let from = m.tasks[task].cpu();
    let delayed = m.tasks[task].fair.delayed;
    if delayed {
        queue::detach_delayed(m, from, task);
    } else {
        m.deactivate_task(from, task, flags::NOCLOCK);
    }
    m.set_task_cpu(task, to, reason);
    delayed
}

/// Queues a task that [`detach_task`] has assigned to `cpu`.
fn attach_task(m: &mut Machine, task: TaskId, cpu: CpuId, delayed: bool) {
    if delayed {
        queue::attach_delayed(m, cpu, task);
    } else {
        m.activate_task(cpu, task, flags::MIGRATED);
    }
}

/// Moves a delayed sleeper to a different CPU.
pub(crate) fn move_delayed(m: &mut Machine, task: TaskId, to: CpuId, reason: MigrateReason) {
    detach_task(m, task, to, reason);
    m.lock(LockId::Rq(to));
    attach_task(m, task, to, true);
    m.wakeup_preempt(to, task, 0);
    m.unlock(LockId::Rq(to));
}

/// Returns whether a task is small enough to be moved, and if so subtracts it from the imbalance.
/// The more balancing runs have failed, the bigger a task may be.
pub(super) fn within_imbalance(m: &mut Machine, env: &mut Env, task: TaskId) -> bool {
    let failed = env.domain(m).nr_balance_failed.min(63);
    let e = &m.tasks[task].fair;
    let amount = match env.kind {
        Migrate::Task | Migrate::LlcTask => 1,
        Migrate::Misfit if m.task_fits_cpu(task, env.src_cpu) => return false,
        Migrate::Misfit => env.imbalance,
        Migrate::Load => m.task_h_load(task).max(1) as i64,
        Migrate::Util => e.util() as i64,
    };
    // A task whose load is at most that of nice 19 stays at first (LB_MIN).
    if env.kind == Migrate::Load && amount < 16 && failed == 0 && m.sched_feat(Feature::LbMin) {
        return false;
    }
    if matches!(env.kind, Migrate::Load | Migrate::Util) && amount >> failed > env.imbalance {
        return false;
    }
    env.imbalance -= amount;
    true
}

/// Returns whether a task may be moved at the moment (can_migrate_task).
pub(super) fn can_migrate_task(m: &mut Machine, env: &Env, state: &mut Detach, task: TaskId) -> bool {
    let failed = env.domain(m).nr_balance_failed;
    let dst_queued = m.rqs[env.dst_cpu].fair.cfs.h_nr_queued;
    // Delayed sleepers contribute to the load of their CPU, so they are moved only to move load.
    if m.tasks[task].fair.delayed && env.kind != Migrate::Load {
        return false;
    }
    if m.throttled_hierarchy(m.task_cfs_rq(env.dst_cpu, task)) {
        return false;
    }
    if failed == 0 && dst_queued > 0 && !m.eligible(env.src_cpu, task) && m.sched_feat(Feature::PlaceLag) {
        return false;
    }
    if !may_run_on(m, task, env.dst_cpu) {
        state.some_pinned = true;
        if env.idle != IdleType::NewlyIdle && state.new_dst_cpu.is_none() {
            let domain = &m.domains.levels[env.cpu.index()][env.level];
            let group = &m.domains.spans[domain.span as usize].groups[domain.local as usize];
            let others = group
                .balance_mask
                .iter()
                .copied()
                .filter(|cpu| !env.excluded.contains(cpu));
            state.new_dst_cpu = others
                .filter(|&cpu| cpu != env.dst_cpu)
                .find(|&cpu| may_run_on(m, task, cpu));
        }
        return false;
    }
    state.all_pinned = false;
    if m.rqs[env.src_cpu].curr == task && m.tasks[task].on_cpu() {
        return false;
    }
    let locality = match m.numa.active() {
        false => Ordering::Equal,
        true => numa::degrades_locality(m, env, task, nr_running(m, env.src_cpu)),
    };
    if locality == Ordering::Equal && sched_cache::degrades_llc(m, env, task) {
        state.llc_pinned |= env.kind != Migrate::LlcTask;
        return false;
    }
    let hot = match locality {
        Ordering::Equal => task_hot(m, env, task),
        order => order == Ordering::Greater,
    };
    !hot || failed > env.span(m).cache_nice_tries
}

/// Returns whether the data of a task is probably still in the cache (task_hot): the task has run within
/// the last 0.5 ms, or it was chosen at a wake-up to be picked next. Between threads of one core the
/// result is false, because these threads share their caches.
fn task_hot(m: &Machine, env: &Env, task: TaskId) -> bool {
    if is_idle_policy(m, task) || env.span(m).smt {
        return false;
    }
    // In Linux, only the queue of the CPU has a task to be picked next, so tasks of groups do not count.
    if m.rqs[env.src_cpu].fair.eevdf.next == task
        && m.tasks[task].fair.group == 0
        && nr_running(m, env.dst_cpu) > 0
        && m.sched_feat(Feature::CacheHotBuddy)
    {
        return true;
    }
    let exec_start = m.tasks[task].fair.exec_start;
    exec_start != 0 && m.now.saturating_sub(exec_start) < MIGRATION_COST
}

/// Starts the stopper on `src`, which moves a task, unless the stopper is already active.
pub(super) fn kick_active_balance(m: &mut Machine, src: CpuId, push: Push) {
    if m.rqs[src].fair.push.is_none() {
        m.rqs[src].fair.push = Some(push);
        // The stopper counts as a second task (add_nr_running).
        m.domains.overloaded |= m.rqs[src].nr_running == 1;
        m.interrupt_cpu(src, Event::NohzBalance { cpu: src });
    }
}

/// Does the work of the stopper on `cpu`: moves one fair task. Among the tasks that may move, this is
/// the task that ran least recently. It may be the task that the stopper has interrupted, or a delayed
/// sleeper.
pub(super) fn active_balance(m: &mut Machine, cpu: CpuId, push: Push) {
    // The cost is two context switches: to the stopper and back.
    let switches = 2 * u64::from(m.spec.costs.context_switch_ns);
    m.charge(cpu, switches);
    if !m.online_cpus.contains(push.to) || m.rqs[cpu].fair.cfs.h_nr_queued == 0 {
        return;
    }
    m.mover = Mover::ActiveBalance;
    match m.curr_class(cpu) {
        Class::Fair | Class::Rt => m.run_stopper(cpu, |m| push_task(m, cpu, push)),
        Class::Ext | Class::Idle => push_task(m, cpu, push),
    }
    m.mover = Mover::None;
}

/// Moves a fair task from `cpu` (detach_one_task).
fn push_task(m: &mut Machine, cpu: CpuId, push: Push) {
    let dst = push.to;
    let spans = |level: &Level| m.domains.spans[level.span as usize].set.contains(cpu);
    let Some(level) = m.domains.levels[dst].iter().position(spans) else {
        return;
    };
    // Tasks that are not eligible stay at first.
    let all = m.domains.levels[dst][level].nr_balance_failed > 0
        || m.rqs[dst].fair.cfs.h_nr_queued == 0
        || !m.sched_feat(Feature::PlaceLag);
    let mut task = m.rqs[cpu].fair.oldest;
    let movable = |m: &mut Machine, task: TaskId| {
        !m.throttled_hierarchy(m.task_cfs_rq(dst, task))
            && may_run_on(m, task, dst)
            && (all || m.eligible(cpu, task))
            && (!push.llc || sched_cache::prefers_llc_of(m, task, dst))
    };
    while task != IDLE && !movable(m, task) {
        task = m.tasks[task].fair.newer;
    }
    if task == IDLE {
        return;
    }
    if m.tasks[task].fair.delayed {
        move_delayed(m, task, dst, MigrateReason::Balance);
    } else {
        m.move_queued_task(task, dst, MigrateReason::Balance);
    }
    m.trace(cpu, trace::Event::Balance { moved: 1 });
    m.domains.levels[dst][level].nr_balance_failed = 0;
}
