// SPDX-License-Identifier: GPL-2.0-only
//! CFS bandwidth control (cpu.max). A group and its descendants may use `quota` ns of CPU time in
//! each period, summed over all CPUs. The limit is implemented as follows:
//! - Each group has a pool of runtime, which the period timer refills.
//! - While tasks of the group run on a CPU, the CPU's queue of the group takes slices of 5 ms from
//!   the pool.
//! - If the queue needs runtime and the pool is empty, the queue is throttled until the pool is
//!   refilled.
//! - A queue that becomes empty returns all but 1 ms of its runtime to the pool. Throttled queues
//!   get this runtime 5 ms later.
//!
//! Each task of a throttled queue is dequeued only when it is about to return to user space. The
//! task then waits in the queue's `limbo` list until the queue has runtime again, and does not count
//! in `nr_running`. The load averages of a throttled queue stand still while it is empty.
//!
//! This file has the limits, timers and interrupts. `runtime` distributes runtime, and `throttle`
//! stops and resumes the queues and their tasks.
//!
//! Differences from Linux:
//! - The periods of a group begin at multiples of the period. Linux adds a random time.

use super::queue::dequeue_throttled_group;
use crate::layout::PF_EXITING;
use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::entity::CfsRqId;
use crate::sched::fair::state::quota::SLICE_NS;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

/// Dequeues the running task, which returns to user space, if its group is throttled. The task waits
/// until there is runtime (throttle_cfs_rq_work).
pub(crate) fn throttle_work(m: &mut Machine, cpu: CpuId) {
    let task = m.rqs[cpu].curr;
    m.tasks[task].fair.throttle_work = false;
    let exits = m.tasks[task].task_struct.flags & PF_EXITING != 0;
    if exits || m.class_of(task) != Class::Fair || !m.tasks[task].on_rq() {
        return;
    }
    let id = m.task_cfs_rq(cpu, task);
    if !m.throttled_hierarchy(id) {
        return;
    }
    m.update_curr(cpu);
    dequeue_throttled_group(m, cpu, task);
    m.tasks[task].fair.throttled = true;
    m.runtime(id).limbo.insert(0, task);
    m.rqs[cpu].nr_running -= 1;
    m.resched_curr(cpu);
}

/// Handles the IPI that asks a CPU to unthrottle its queues (__cfsb_csd_unthrottle).
pub(crate) fn unthrottle_ipi(m: &mut Machine, cpu: CpuId) {
    m.enter_irq(cpu, u64::from(m.spec.costs.ipi_receive_ns));
    let Some(stepped) = m.stepped.as_deref_mut() else {
        return;
    };
    let queues: Vec<CfsRqId> = stepped
        .unthrottled
        .extract_if(.., |(to, _)| *to == cpu)
        .map(|(_, id)| id)
        .collect();
    for id in queues {
        if m.runtime(id).throttled {
            m.unthrottle_cfs_rq(id);
        }
    }
}

/// Handles the end of a period (do_sched_cfs_period_timer). Returns whether a CPU was interrupted.
pub(crate) fn period_timer(m: &mut Machine, group: u32, generation: u32) -> bool {
    let pool = &mut m.task_groups.groups[group as usize].bandwidth;
    if pool.generation != generation {
        return false;
    }
    pool.refill();
    // Also a timer that stops gets the time at which it would have expired next (hrtimer_forward_now).
    pool.expires += pool.period_ns;
    let at = pool.expires;
    if pool.throttled.is_empty() {
        if pool.idle || pool.quota.is_none() {
            pool.active = false;
            if m.stepped.is_some() {
                // The interrupt comes, although it has nothing to do.
                enter_timer(m, group);
            }
            return m.stepped.is_some();
        }
        pool.idle = true;
    } else {
        pool.idle = false;
    }
    m.events.push(at, Event::CfsPeriod { group, generation });
    enter_timer(m, group);
    m.distribute_cfs_runtime(group);
    true
}

/// Distributes runtime that was returned to the pool (do_sched_cfs_slack_timer).
/// Returns whether a CPU was interrupted.
pub(crate) fn slack_timer(m: &mut Machine, group: u32, generation: u32) -> bool {
    let pool = &mut m.task_groups.groups[group as usize].bandwidth;
    if pool.generation != generation {
        return false;
    }
    pool.slack_pending = false;
    let enough = pool.runtime > SLICE_NS;
    let interrupts = enough || m.stepped.is_some();
    if interrupts {
        enter_timer(m, group);
    }
    if enough {
        m.distribute_cfs_runtime(group);
    }
    interrupts
}

/// Begins the handling of a timer interrupt of a group. The interrupt is handled on the CPU
/// that started the timer. If that CPU is offline, it is handled on the first online CPU.
fn enter_timer(m: &mut Machine, group: u32) {
    let cpu = m.task_groups.groups[group as usize].bandwidth.cpu;
    m.enter_timer_irq(m.online_or_first(cpu));
}

/// Sets cpu.max and cpu.max.burst of a cgroup (tg_set_cfs_bandwidth). All values are in us. A quota
/// of `u64::MAX` means that there is no limit.
pub(crate) fn set_bandwidth(m: &mut Machine, cgroup: u32, quota_us: u64, period_us: u64, burst_us: u64) {
    if cgroup == 0 {
        return;
    }
    let pool = &mut m.task_groups.groups[cgroup as usize].bandwidth;
    pool.quota = (quota_us != u64::MAX).then(|| quota_us.saturating_mul(1000));
    pool.period_ns = period_us.saturating_mul(1000);
    pool.burst_ns = burst_us.saturating_mul(1000);
    pool.refill();
    if pool.quota.is_some() {
        m.task_groups.limited = true;
        let first = m.task_groups.id(cgroup, m.this_cpu);
        m.start_cfs_bandwidth(first);
    }
    for cpu in m.cpus().filter(|&cpu| m.online_cpus.contains(cpu)).collect::<Vec<_>>() {
        let id = m.task_groups.id(cgroup, cpu);
        m.runtime(id).remaining = 1;
        if m.runtime(id).throttled {
            m.unthrottle_cfs_rq(id);
        }
    }
}

/// Unthrottles the queues of a CPU that goes offline, after all tasks have been moved away from it
/// (unthrottle_offline_cfs_rqs), and removes their contributions to the loads of the groups.
pub(crate) fn offline(m: &mut Machine, cpu: CpuId) {
    for at in 0..m.task_groups.bottom_up.len() {
        let id = m.task_groups.id(m.task_groups.bottom_up[at], cpu);
        if m.runtime(id).throttled {
            m.runtime(id).remaining = 1;
            m.unthrottle_cfs_rq(id);
        }
    }
    m.clear_tg_load_avg(cpu);
}
