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
//! Scheduler features have their default values, unless the machine file changes them
//! (`sched_features`). Where the kernel would read another CPU's runqueue, the reading CPU is
//! charged with the time to transfer one cache line. The cost depends on the distance between the
//! two CPUs.
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
mod pick;
mod preempt;
pub(crate) mod queue;
mod runtime;
pub(crate) mod sched_cache;
mod shares;
mod snapshot;
pub mod state;
mod throttle;
mod topology;
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
pub(crate) use pick::{pick_task, put_prev_task, set_curr_task, set_next_task};
pub(crate) use preempt::wakeup_preempt;
pub(crate) use queue::{dequeue_task, enqueue_task, finish_delayed, restore_delayed, save_delayed};
pub(crate) use shares::{set_idle, set_weight};
pub(crate) use topology::{rebuild_domains, start_group_capacities, update_sysctl};
pub(crate) use wake::select_task_rq;

use crate::layout::SCHED_IDLE;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::entity::{EntityId, GROUP};
use crate::simulation::id::{CpuId, TaskId};
use load::Update;
use machine::Feature;

impl Machine {
    /// Returns whether a scheduler feature is on.
    #[inline(always)]
    pub(crate) fn sched_feat(&self, feature: Feature) -> bool {
        self.spec.kernel.features.has(feature)
    }
}

fn is_idle_policy(m: &Machine, task: TaskId) -> bool {
    m.tasks[task].policy() == SCHED_IDLE
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
        m.sync_throttle(cpu, id);
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
        m.sync_throttle(cpu, m.task_groups.id(cgroup, cpu));
    }
}
