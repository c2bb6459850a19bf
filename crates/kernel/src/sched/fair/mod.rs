// SPDX-License-Identifier: GPL-2.0-only
//! The fair class of Linux 7.3: EEVDF, placement of woken and new tasks, and load balancing
//! (kernel/sched/fair.c, kernel/sched/topology.c).
//!
//! Modelled:
//! - virtual time, lag, deadlines and eligibility
//! - custom slices with PREEMPT_SHORT
//! - RUN_TO_PARITY, delayed dequeue with DELAY_ZERO, and the high-resolution tick that ends a slice
//!   on time
//! - wake-up preemption, SCHED_BATCH and SCHED_IDLE
//! - load and utilization averages
//! - wake_affine, select_idle_sibling with SIS_UTIL, and CPUs of different capacity
//! - placement at fork and exec
//! - scheduling domains with periodic, new-idle, nohz-idle and active balancing
//! - task groups with cpu.weight, cpu.idle and cpu.max
//! - NUMA balancing
//! - cache-aware scheduling
//!
//! Not modelled:
//! - energy-aware scheduling, core scheduling
//! - clusters within an LLC, uclamp, isolated CPUs
//!
//! Scheduler features have their default values; in particular, NEXT_BUDDY and LB_MIN are off.
//! Where the kernel would read another CPU's runqueue, the reading CPU is charged with the time to
//! transfer one cache line. The cost depends on the distance between the two CPUs.
mod balance;
mod bandwidth;
mod busiest;
mod clock;
mod detach;
mod eevdf;
mod fork;
mod hierarchy;
mod hrtick;
mod idle_scan;
mod lb_env;
mod load;
mod newidle;
mod nohz;
pub(crate) mod numa;
pub(crate) mod queue;
pub(crate) mod sched_cache;
mod shares;
mod snapshot;
pub mod state;
mod verify;
mod wake;

#[cfg(test)]
mod tests;

pub(crate) use bandwidth::{offline, period_timer, set_bandwidth, slack_timer, throttle_work, unthrottle_ipi};
pub(crate) use detach::move_delayed;
pub(crate) use hrtick::{hrtick, hrtick_start_ipi, hrtick_start_pending};
pub(crate) use idle_scan::update_idle_core;
pub(crate) use newidle::exit_idle;
pub(crate) use nohz::{
    balance_softirq, idle_tick, nohz_balance, nohz_enter_idle, nohz_run_idle_balance, trigger_load_balance,
};
pub(crate) use queue::{dequeue_task, enqueue_task, finish_delayed, restore_delayed, save_delayed};
pub(crate) use shares::{set_idle, set_weight};
pub(crate) use wake::select_task_rq;

use crate::layout::{SCHED_EXT, SCHED_IDLE, SCHED_NORMAL};
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::domains::Domains;
use crate::sched::fair::state::entity::FairRq;
use crate::sched::fair::state::entity::{EntityId, GROUP, NONE};
use crate::sched::state::task::Task;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::table::Table;
use hrtick::{hrtick_cancel, hrtick_start, hrtick_update};
use load::Update;
use queue::dequeue_delayed;

fn is_idle_policy(m: &Machine, task: TaskId) -> bool {
    m.tasks[task].policy() == SCHED_IDLE
}

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
fn pick_next_entity(m: &mut Machine, cpu: CpuId, protect: bool) -> Option<TaskId> {
    let task = m.pick_eevdf(cpu, protect).expect("one task is always eligible");
    if m.tasks[task].fair.delayed {
        dequeue_delayed(m, cpu, task);
        return None;
    }
    Some(task)
}

/// Ends the slice of the current task, if the task is eligible.
pub(crate) fn yield_task(m: &mut Machine, cpu: CpuId) {
    let curr = m.rqs[cpu].curr;
    if m.rqs[cpu].nr_running == 1 {
        return;
    }
    m.rqs[cpu].fair.eevdf.clear_buddy(curr);
    if m.eligible(cpu, curr) {
        let e = &mut m.tasks[curr].fair;
        e.vruntime = e.deadline;
        m.update_deadline(cpu, curr);
    }
}

/// Reschedules if the woken `task` should run before the current task (wakeup_preempt_fair).
///
/// SCHED_BATCH and SCHED_IDLE tasks do not preempt other tasks. A current task with SCHED_IDLE is
/// preempted immediately. A task with a shorter slice than the current task preempts it if it is
/// eligible (PREEMPT_SHORT).
pub(crate) fn wakeup_preempt(m: &mut Machine, cpu: CpuId, task: TaskId, wake_flags: u32) {
    let curr = m.rqs[cpu].curr;
    if curr == task || m.class_of(curr) != Class::Fair || m.tasks[task].fair.throttled {
        return;
    }
    let (idle, woken_idle) = (is_idle_policy(m, curr), is_idle_policy(m, task));
    if idle && !woken_idle {
        return preempt(m, cpu, curr);
    }
    m.update_curr_of_groups(cpu, curr);
    let base_slice = m.domains.base_slice;
    let slice = |task: TaskId| m.tasks[task].fair.slice(base_slice);
    let short = m.task_groups.custom_slices && slice(task) < slice(curr);
    let normal = matches!(m.tasks[task].policy(), SCHED_NORMAL | SCHED_EXT);
    let competes = idle == woken_idle && normal && !m.tasks[task].fair.delayed;
    if competes && (short || wake_flags & flags::WF_FORK == 0) {
        let next = loop {
            if m.rqs[cpu].fair.cfs.h_nr_queued == 0 {
                break None;
            }
            // If a delayed sleeper was dequeued instead, `task` is still queued.
            if let Some(next) = pick_next_entity(m, cpu, !short) {
                break Some(next);
            }
        };
        if next == Some(task) || short && m.eligible(cpu, task) {
            if short {
                set_short_buddy(m, cpu, task);
            }
            return preempt(m, cpu, curr);
        }
    }
    update_protect_slice(m, cpu, curr);
}

/// Ends the protection of the running task and reschedules.
fn preempt(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    let e = &mut m.tasks[curr].fair;
    e.vprot = e.vprot.min(e.vruntime);
    m.resched_curr_lazy(cpu);
}

/// Makes a task with a short slice the one that is picked next while it is eligible.
fn set_short_buddy(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let base_slice = m.domains.base_slice;
    let slice = |task: TaskId| m.tasks[task].fair.slice(base_slice);
    let next = m.rqs[cpu].fair.eevdf.next;
    if next == IDLE || slice(next) >= slice(task) {
        m.rqs[cpu].fair.eevdf.next = task;
    }
}

/// Shortens the protection of the running task to the shortest slice of the tasks on its queue
/// (update_protect_slice).
fn update_protect_slice(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    let base_slice = m.domains.base_slice;
    let slice = match m.task_groups.custom_slices {
        true => m.shortest_slice(cpu).unwrap_or(base_slice),
        false => base_slice,
    };
    let avg = m.avg_vruntime(cpu);
    let e = &mut m.tasks[curr].fair;
    e.vprot = e.vprot.min(e.vruntime.min(avg) + e.delta_fair(slice));
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

/// Protects a task that starts to run from preemption (set_protect_slice). The protection lasts
/// until the end of its slice. If a task with a shorter slice waits, it lasts only until the running
/// task is no longer eligible.
#[inline]
fn set_protect_slice(m: &mut Machine, cpu: CpuId, task: TaskId) {
    let e = &mut m.tasks[task].fair;
    e.vprot = e.deadline;
    if m.task_groups.custom_slices
        && let Some(shortest) = m.shortest_slice(cpu)
        && shortest < m.tasks[task].fair.slice(m.domains.base_slice)
    {
        let limit = m.rqs[cpu].fair.eevdf.avg_without_curr() + 1;
        let e = &mut m.tasks[task].fair;
        e.vprot = e.vprot.min(limit);
    }
}

/// Charges the current task with `ns` of CPU time (update_curr). Reschedules if other tasks are
/// queued and the task's slice, or its protection from preemption, has ended.
pub(crate) fn update_curr(m: &mut Machine, cpu: CpuId, ns: u64) {
    let Some(curr) = m.fair_curr(cpu) else { return };
    let now = m.now;
    if m.task_groups.limited && m.tasks[curr].fair.group != 0 {
        m.charge_groups(cpu, curr, ns);
    }
    let e = &mut m.tasks[curr].fair;
    e.exec_start = now.max(1);
    e.vruntime += e.delta_fair(ns);
    let over = e.vruntime >= e.deadline && m.update_deadline(cpu, curr);
    let several = m.rqs[cpu].fair.cfs.h_nr_queued > 1;
    if several && (over || !m.tasks[curr].fair.protected()) {
        m.resched_curr_lazy(cpu);
        m.rqs[cpu].fair.eevdf.clear_buddy(curr);
    }
    sched_cache::account(m, cpu, curr, ns);
}

/// Handles the tick of a CPU that runs a fair task (task_tick_fair).
pub(crate) fn task_tick(m: &mut Machine, cpu: CpuId) {
    let Some(curr) = m.fair_curr(cpu) else { return };
    entity_ticks(m, cpu, curr);
    m.update_misfit_status(cpu, curr);
    sched_cache::tick(m, cpu, curr);
}

/// Updates the load of the current task and of the groups that contain it, and the weight of the
/// task that follows from them (entity_tick).
fn entity_ticks(m: &mut Machine, cpu: CpuId, curr: TaskId) {
    if !m.tasks[curr].fair.on_rq {
        return;
    }
    let mut id = EntityId::from(curr);
    loop {
        let above = m.cfs_rq_of(cpu, id);
        m.update_curr_of(above);
        m.update_load_avg(above, id, Update::Group);
        m.update_cfs_group(cpu, id);
        if above < GROUP {
            break;
        }
        id = above;
    }
    m.reweight_eevdf(cpu, curr, m.prop_weight(cpu, curr), true);
}

/// Does nothing: [`init_entity_runnable_average`] initializes the tasks of all classes.
pub(crate) fn task_fork(_m: &mut Machine, _task: TaskId) {}

/// Gives a new task the load of its weight. The class may be any one.
pub(crate) fn init_entity_runnable_average(m: &mut Machine, task: TaskId) {
    let t = &mut m.tasks[task];
    t.fair.load = t.task_struct.se.load.weight;
    t.fair.avg.load_avg = t.fair.weight();
}

/// Begins the averages of a new task of another class, which decay until the task enters the fair class
/// (post_init_entity_util_avg).
pub(crate) fn begin_average_elsewhere(m: &mut Machine, task: TaskId) {
    let now = m.cfs_rq_clock_pelt(m.cfs_rq_of(m.tasks[task].cpu(), task));
    m.tasks[task].fair.avg.begin(now);
}

/// Updates a task's load after a change of its weight (set_load_weight). The task is not queued, and
/// leaves the class `from` unless it stays in its class.
pub(crate) fn reweight(m: &mut Machine, task: TaskId, from: Class) {
    let t = &m.tasks[task];
    let (cpu, load) = (t.cpu(), t.task_struct.se.load.weight);
    match from {
        Class::Fair => {
            // Linux adds the load to the queue even if the task has just left the class.
            let leaves = t.class != Class::Fair;
            m.reweight_entity(m.cfs_rq_of(cpu, task), task.into(), load, leaves);
        }
        // reweight_task_scx() does not change the load.
        Class::Ext => {}
        Class::Rt | Class::Idle => m.tasks[task].fair.load = load,
    }
}

pub(crate) fn switched_from(m: &mut Machine, cpu: CpuId, task: TaskId) {
    finish_delayed(m, task);
    m.leave_cfs_rq(m.cfs_rq_of(cpu, task), task.into());
}

pub(crate) fn switched_to(m: &mut Machine, cpu: CpuId, task: TaskId) {
    if m.tasks[task].is_new() {
        m.attach_elsewhere(cpu, task);
    } else {
        m.join_cfs_rq(m.cfs_rq_of(cpu, task), task.into());
    }
    if m.tasks[task].on_cpu() {
        m.resched_curr(cpu);
    } else if m.tasks[task].on_rq() {
        m.wakeup_preempt(cpu, task, 0);
    }
}

/// Reschedules if necessary after a change of a task's nice value. A throttled task also counts, although
/// it is in no queue (prio_changed_fair).
pub(crate) fn prio_changed(m: &mut Machine, cpu: CpuId, task: TaskId, old_prio: i32) {
    let t = &m.tasks[task];
    if m.rqs[cpu].fair.cfs.h_nr_queued == 1 {
        return;
    }
    if t.on_cpu() {
        if t.prio() > old_prio {
            m.resched_curr(cpu);
        }
    } else if t.on_rq() || t.fair.delayed {
        m.wakeup_preempt(cpu, task, 0);
    }
}

/// Does nothing: no state of the fair class depends on the affinity.
pub(crate) fn set_cpus_allowed(_m: &mut Machine, _task: TaskId) {}

/// Subtracts a task's load from the CPU that the task leaves. The task's lag was already stored
/// when the task was dequeued.
pub(crate) fn migrate_task_rq(m: &mut Machine, task: TaskId, new_cpu: CpuId) {
    finish_delayed(m, task);
    let cpu = m.tasks[task].cpu();
    numa::task_moves(m, task, cpu, new_cpu);
    // The load of a queued task has left the queue together with the task. That of a new task has never
    // been part of a queue.
    if !m.tasks[task].is_migrating() && !m.tasks[task].is_new() {
        m.remove_load_avg(m.cfs_rq_of(cpu, task), task.into());
    }
}

/// Moves the averages of a task of any class to the queue of the CPU `to` (set_task_rq). Only scripts
/// ask for this: the averages of a task of another class matter when it enters the fair class.
pub(crate) fn set_task_rq(m: &mut Machine, task: TaskId, to: CpuId) {
    let from = m.tasks[task].cpu();
    m.move_load_avg(m.task_cfs_rq(from, task), m.task_cfs_rq(to, task), task);
}

/// Updates the averages of a new task before its first CPU is set, if a script has moved it to the fair
/// class before ([`Machine::attach_elsewhere`]). The queue that it leaves is always up to date.
pub(crate) fn leave_elsewhere(m: &mut Machine, task: TaskId) {
    let cpu = m.tasks[task].cpu();
    if !m.tasks[task].fair.avg.detached() {
        let now = m.clock_pelt(cpu);
        m.tasks[task].fair.decay_avg(now);
        let cfs_rq = m.task_cfs_rq(cpu, task);
        m.move_load_avg(cfs_rq, cfs_rq, task);
    }
}

/// Removes the load of a dead task from its queue (task_dead_fair).
pub(crate) fn task_dead(m: &mut Machine, task: TaskId) {
    if m.tasks[task].class == Class::Fair {
        let cpu = m.tasks[task].cpu();
        // A script can change the weight of a dead task, and Linux still adds its load to the queue.
        let kept = m.stepped.is_some().then(|| {
            m.sync_entity_load_avg(task);
            m.tasks[task].fair.avg
        });
        m.remove_load_avg(m.cfs_rq_of(cpu, task), task.into());
        if let Some(avg) = kept {
            m.tasks[task].fair.avg = avg;
        }
    }
}

/// Moves a task that is not queued to another cgroup (task_change_group_fair).
pub(crate) fn change_group(m: &mut Machine, task: TaskId, group: u32) {
    let t = &m.tasks[task];
    // A forked task that has not been woken up is not attached to a queue.
    let (cpu, fair) = (t.cpu(), t.class == Class::Fair && !t.is_new());
    if fair {
        m.detach_cfs_rq(m.cfs_rq_of(cpu, task), task.into());
    }
    let old = m.task_cfs_rq(cpu, task);
    m.tasks[task].fair.group = group;
    m.move_load_avg(old, m.task_cfs_rq(cpu, task), task);
    if fair {
        m.attach_cfs_rq(m.cfs_rq_of(cpu, task), task.into());
    }
}

/// Resets the entities and queues of a cgroup that was created.
pub(crate) fn online_group(m: &mut Machine, cgroup: u32, weight: u32) {
    m.task_groups.reset(cgroup, weight);
    for cpu in m.cpus() {
        m.note_clock_update(cpu);
        let id = m.task_groups.id(cgroup, cpu);
        m.attach_cfs_rq(m.cfs_rq_of(cpu, id), id);
        bandwidth::sync_throttle(m, cpu, id);
    }
}

/// Removes a cgroup without tasks (unregister_fair_sched_group).
pub(crate) fn offline_group(m: &mut Machine, cgroup: u32) {
    for cpu in m.cpus() {
        let id = m.task_groups.id(cgroup, cpu);
        m.remove_load_avg(m.cfs_rq_of(cpu, id), id);
    }
    m.task_groups.reset(cgroup, 100);
    for cpu in m.cpus() {
        bandwidth::sync_throttle(m, cpu, m.task_groups.id(cgroup, cpu));
    }
}

/// Rebuilds the scheduling domains after a CPU went online or offline (partition_sched_domains).
/// Keeps the fields of `Domains` that do not describe a domain.
pub(crate) fn rebuild_domains(m: &mut Machine) {
    let old = std::mem::replace(
        &mut m.domains,
        Domains::for_online(
            &m.spec.topology,
            &m.spec.priorities,
            &m.online_cpus,
            &m.options.isolated,
        ),
    );
    let (now, jiffies) = (m.now, m.jiffies());
    for level in m.domains.levels.iter_mut().flatten() {
        level.last_balance = jiffies;
        level.last_decay = now;
        level.newidle_stamp_ns = now;
    }
    let used: Vec<CpuId> = m.cpus().filter(|&cpu| !m.domains.levels[cpu].is_empty()).collect();
    used.into_iter().for_each(|cpu| m.update_cpu_capacity(cpu));
    m.domains.reduced |= old.reduced;
    start_group_capacities(m);
    m.domains.idle_policy_cpus = old.idle_policy_cpus;
    m.domains.overloaded = old.overloaded;
    m.domains.nohz = old.nohz;
    m.domains.rng = old.rng;
}

/// Calculates the capacities of all groups of CPUs, and when new-idle balancing does so next
/// (init_sched_groups_capacity).
pub(crate) fn start_group_capacities(m: &mut Machine) {
    let capacities: Table<CpuId, u64> = m.cpus().map(|cpu| m.capacity_of(cpu)).collect();
    m.domains.set_capacities(|cpu| capacities[cpu]);
    let (jiffies, tick_ns, nr_cpus) = (m.jiffies(), m.tick_ns(), m.nr_cpus());
    let domains = &mut m.domains;
    for level in domains.levels.iter().flatten() {
        let group = &domains.spans[level.span as usize].groups[level.local as usize];
        let next_update = jiffies + level.interval_jiffies(tick_ns, nr_cpus, false);
        domains.group_capacities[group.capacity as usize].next_update = next_update;
    }
}

impl FairRq {
    /// Adds a task to the list of the CPU's tasks, as the task that ran most recently (cfs_tasks).
    fn push_newest(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId) {
        let second = std::mem::replace(&mut self.newest, task);
        let e = &mut tasks[task].fair;
        (e.newer, e.older) = (IDLE, second);
        match second {
            IDLE => self.oldest = task,
            second => tasks[second].fair.newer = task,
        }
    }

    /// Removes a task from the list of the CPU's tasks (cfs_tasks).
    fn unlink(&mut self, tasks: &mut Table<TaskId, Task>, task: TaskId) {
        let e = &tasks[task].fair;
        let (newer, older) = (e.newer, e.older);
        match newer {
            IDLE => self.newest = older,
            newer => tasks[newer].fair.older = older,
        }
        match older {
            IDLE => self.oldest = newer,
            older => tasks[older].fair.newer = newer,
        }
    }
}
