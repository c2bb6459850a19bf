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
//! As in Linux since 6.18, the entity of a throttled queue stays on the queue of the parent group.
//! Each task of the throttled queue is dequeued only when it is picked and is about to return to
//! user space. The task then waits in the queue's `limbo` list until the queue has runtime again,
//! and does not count in `nr_running`.
//!
//! Differences from Linux:
//! - In Linux, a task that was picked runs in the kernel until it returns to user space, and is
//!   dequeued there. A simulated task does not run in the kernel at this point, so it is dequeued
//!   when it is picked. The CPU is charged for a context switch and a schedule(). A task that holds
//!   a kernel lock is not dequeued.
//! - Load also decays while a queue is throttled.
//! - A throttled task whose parameters or CPU change is queued again, and is dequeued again when it
//!   is picked.
//! - The first period begins when the limit is set.

use super::{dequeue_throttled_entities, enqueue_task};
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::fair::state::entity::{CfsRqId, GROUP, NONE};
use crate::sched::fair::state::quota::*;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::Transition;

impl Machine {
    fn bandwidth(&mut self, id: CfsRqId) -> &mut Bandwidth {
        let group = self.task_groups.group_number(id);
        &mut self.task_groups.groups[group as usize].bandwidth
    }

    fn runtime(&mut self, id: CfsRqId) -> &mut Runtime {
        &mut self.task_groups.rq_mut(id).runtime
    }

    /// Returns whether a limit (cpu.max) applies to a fair task (cfs_task_bw_constrained).
    pub(crate) fn is_bandwidth_limited(&self, task: TaskId) -> bool {
        if !self.task_groups.limited || self.class_of(task) != Class::Fair {
            return false;
        }
        let cpu = self.tasks[task].cpu();
        let mut at = self.cfs_rq_of(cpu, task);
        while at >= GROUP {
            let group = self.task_groups.group_number(at);
            if self.task_groups.groups[group as usize].bandwidth.quota.is_some() {
                return true;
            }
            at = self.cfs_rq_of(cpu, at);
        }
        false
    }

    /// Subtracts `ns` from the runtime of a group's queue. If none is left, takes more from the
    /// pool (account_cfs_rq_runtime).
    pub(super) fn account_cfs_rq_runtime(&mut self, id: CfsRqId, ns: u64) {
        if self.bandwidth(id).quota.is_none() {
            return;
        }
        let runtime = self.runtime(id);
        runtime.remaining -= ns as i64;
        if runtime.remaining > 0 || runtime.throttled {
            return;
        }
        if !self.assign_cfs_rq_runtime(id, SLICE_NS) && self.cfs(id).curr != NONE {
            // The task is throttled when it returns to user space (task_throttle_setup_work).
            self.resched_curr_lazy(self.queue_cpu(id));
        }
    }

    /// Takes runtime from the pool until the queue has `target` ns. Returns whether the queue has
    /// any runtime afterwards.
    fn assign_cfs_rq_runtime(&mut self, id: CfsRqId, target: u64) -> bool {
        self.start_cfs_bandwidth(id);
        let wanted = target as i64 - self.runtime(id).remaining;
        let pool = self.bandwidth(id);
        let amount = pool.runtime.min(wanted.max(0) as u64);
        if amount > 0 {
            pool.runtime -= amount;
            pool.idle = false;
        }
        let runtime = self.runtime(id);
        runtime.remaining += amount as i64;
        runtime.remaining > 0
    }

    /// Starts the period timer if it is not running.
    fn start_cfs_bandwidth(&mut self, id: CfsRqId) {
        let (now, cpu, group) = (self.now, self.queue_cpu(id), self.task_groups.group_number(id));
        let pool = self.bandwidth(id);
        if pool.active {
            return;
        }
        pool.active = true;
        pool.cpu = cpu;
        // The period ends when it would have ended if the timer had not been stopped.
        pool.expires = match pool.expires {
            0 => now + pool.period_ns,
            last => last + ((now - last.min(now)) / pool.period_ns + 1) * pool.period_ns,
        };
        let (at, generation) = (pool.expires, pool.generation);
        self.events.push(at, Event::CfsPeriod { group, generation });
    }

    /// Returns whether a queue is out of runtime and is therefore throttled. This call throttles
    /// the queue if necessary (check_cfs_rq_runtime).
    pub(super) fn check_cfs_rq_runtime(&mut self, id: CfsRqId) -> bool {
        if self.bandwidth(id).quota.is_none() || self.runtime(id).remaining > 0 {
            return false;
        }
        self.runtime(id).throttled || self.throttle_cfs_rq(id)
    }

    /// Throttles a queue, unless the pool has runtime for it. Returns whether the queue is
    /// throttled.
    fn throttle_cfs_rq(&mut self, id: CfsRqId) -> bool {
        // The pool may have been refilled since the queue last asked for runtime. In this case the
        // queue takes only enough to have 1 ns, and takes a slice when this runtime is used up.
        if self.assign_cfs_rq_runtime(id, 1) {
            return false;
        }
        self.runtime(id).throttled = true;
        self.bandwidth(id).throttled.push(id);
        true
    }

    /// Returns whether this queue or a queue above it is throttled (throttled_hierarchy).
    fn throttled_hierarchy(&self, cpu: CpuId, id: CfsRqId) -> bool {
        let mut at = id;
        while at >= GROUP {
            if self.task_groups.rq(at).runtime.throttled {
                return true;
            }
            at = self.cfs_rq_of(cpu, at);
        }
        false
    }

    /// Dequeues a task that was picked although its group is throttled. The task waits until there
    /// is runtime (throttle_cfs_rq_work).
    pub(super) fn throttle_task(&mut self, cpu: CpuId, task: TaskId) {
        let id = self.cfs_rq_of(cpu, task);
        let on_cpu = self.tasks[task].on_cpu();
        let costs = &self.spec.costs;
        let switch = if on_cpu { 0 } else { costs.context_switch_ns };
        self.charge(cpu, u64::from(costs.schedule_ns) + u64::from(switch));
        self.util_est_dequeue(cpu, task);
        self.util_est_update(task);
        dequeue_throttled_entities(self, cpu, task);
        self.tasks[task].fair.throttled = true;
        self.runtime(id).limbo.push(task);
        self.rqs[cpu].nr_running -= 1;
        if !on_cpu {
            self.observe(Transition::Throttled { task });
        }
    }

    /// Removes a throttled task from the list of waiting tasks, because the task is about to be
    /// queued or to leave the group.
    pub(super) fn leave_limbo(&mut self, cpu: CpuId, task: TaskId) {
        let id = self.cfs_rq_of(cpu, task);
        self.runtime(id).limbo.retain(|&other| other != task);
        self.tasks[task].fair.throttled = false;
        self.rqs[cpu].nr_running += 1;
        self.observe(Transition::Queued { task });
    }

    /// Ends the throttling of a queue. Queues the waiting tasks of the group and its descendants
    /// whose queues on this CPU are no longer throttled.
    fn unthrottle_cfs_rq(&mut self, id: CfsRqId) {
        self.runtime(id).throttled = false;
        self.bandwidth(id).throttled.retain(|&other| other != id);
        let (cpu, group) = (self.queue_cpu(id), self.task_groups.group_number(id));
        self.update_curr(cpu);
        self.lock(LockId::Rq(cpu));
        for at in 0..self.task_groups.bottom_up.len() {
            let below = self.task_groups.bottom_up[at];
            let queue = self.task_groups.id(below, cpu);
            if !self.task_groups.is_in(below, group) || self.throttled_hierarchy(cpu, queue) {
                continue;
            }
            for task in self.runtime(queue).limbo.clone() {
                self.leave_limbo(cpu, task);
                enqueue_task(self, cpu, task, flags::WAKEUP);
            }
        }
        if self.rqs[cpu].curr == IDLE && self.rqs[cpu].nr_running > 0 {
            self.resched_curr(cpu);
        }
        self.unlock(LockId::Rq(cpu));
    }

    /// Distributes the runtime in the pool to throttled queues until the pool is empty. Each queue
    /// gets its deficit plus 1 ns (distribute_cfs_runtime).
    fn distribute_cfs_runtime(&mut self, group: u32) {
        for id in self.task_groups.groups[group as usize].bandwidth.throttled.clone() {
            let wanted = 1 - self.runtime(id).remaining;
            let pool = self.bandwidth(id);
            let amount = (pool.runtime as i64).min(wanted);
            pool.runtime -= amount as u64;
            let runtime = self.runtime(id);
            runtime.remaining += amount;
            if runtime.remaining > 0 {
                self.unthrottle_cfs_rq(id);
            }
        }
    }

    /// Returns unused runtime of an empty queue to the pool (return_cfs_rq_runtime).
    pub(super) fn return_cfs_rq_runtime(&mut self, id: CfsRqId) {
        if self.bandwidth(id).quota.is_none() {
            return;
        }
        let runtime = self.runtime(id);
        let slack = runtime.remaining - KEPT_NS;
        if slack <= 0 {
            return;
        }
        runtime.remaining = KEPT_NS;
        let (now, group) = (self.now, self.task_groups.group_number(id));
        let pool = self.bandwidth(id);
        pool.runtime += slack as u64;
        let period_ends = pool.active && pool.expires < now + SLACK_PERIOD_NS + SLACK_MARGIN_NS;
        if pool.runtime > SLICE_NS && !pool.throttled.is_empty() && !period_ends && !pool.slack_pending {
            pool.slack_pending = true;
            let generation = pool.generation;
            self.events
                .push(now + SLACK_PERIOD_NS, Event::CfsSlack { group, generation });
        }
    }

    /// Begins the handling of a timer interrupt of a group. The interrupt is handled on the CPU
    /// that started the timer. If that CPU is offline, it is handled on the first online CPU.
    fn enter_timer(&mut self, group: u32) {
        let cpu = self.task_groups.groups[group as usize].bandwidth.cpu;
        let cpu = if self.online_cpus.contains(cpu) {
            cpu
        } else {
            self.online_cpus.first().expect("one CPU always stays online")
        };
        self.enter_timer_irq(cpu);
    }
}

/// Handles the end of a period (do_sched_cfs_period_timer).
pub(crate) fn period_timer(m: &mut Machine, group: u32, generation: u32) {
    let pool = &mut m.task_groups.groups[group as usize].bandwidth;
    if pool.generation != generation {
        return;
    }
    pool.refill();
    if pool.throttled.is_empty() {
        if pool.idle || pool.quota.is_none() {
            pool.active = false;
            return;
        }
        pool.idle = true;
    } else {
        pool.idle = false;
    }
    pool.expires += pool.period_ns;
    let at = pool.expires;
    m.events.push(at, Event::CfsPeriod { group, generation });
    m.enter_timer(group);
    m.distribute_cfs_runtime(group);
}

/// Distributes runtime that was returned to the pool (do_sched_cfs_slack_timer).
pub(crate) fn slack_timer(m: &mut Machine, group: u32, generation: u32) {
    let pool = &mut m.task_groups.groups[group as usize].bandwidth;
    if pool.generation != generation {
        return;
    }
    pool.slack_pending = false;
    if pool.runtime > SLICE_NS {
        m.enter_timer(group);
        m.distribute_cfs_runtime(group);
    }
}

/// Sets cpu.max and cpu.max.burst of a cgroup (tg_set_cfs_bandwidth). All values are in us. A quota
/// of `u64::MAX` means that there is no limit.
pub(crate) fn set_bandwidth(m: &mut Machine, cgroup: u32, quota_us: u64, period_us: u64, burst_us: u64) {
    if cgroup == 0 {
        return;
    }
    for cpu in m.cpus() {
        m.update_curr(cpu);
    }
    let pool = &mut m.task_groups.groups[cgroup as usize].bandwidth;
    pool.quota = (quota_us != u64::MAX).then(|| quota_us.saturating_mul(1000));
    pool.period_ns = period_us.saturating_mul(1000);
    pool.burst_ns = burst_us.saturating_mul(1000);
    pool.refill();
    // Stops the period timer. It starts again when the group uses runtime.
    pool.generation = pool.generation.wrapping_add(1);
    (pool.active, pool.expires, pool.slack_pending) = (false, 0, false);
    if pool.quota.is_some() {
        m.task_groups.limited = true;
        let first = m.task_groups.id(cgroup, m.this_cpu);
        m.start_cfs_bandwidth(first);
    }
    for cpu in m.cpus() {
        let id = m.task_groups.id(cgroup, cpu);
        m.runtime(id).remaining = 1;
        if m.runtime(id).throttled {
            m.unthrottle_cfs_rq(id);
        }
    }
}

/// Unthrottles the queues of a CPU that goes offline, after all tasks have been moved away from it
/// (unthrottle_offline_cfs_rqs).
pub(crate) fn offline(m: &mut Machine, cpu: CpuId) {
    for at in 0..m.task_groups.bottom_up.len() {
        let id = m.task_groups.id(m.task_groups.bottom_up[at], cpu);
        debug_assert!(m.runtime(id).limbo.is_empty());
        m.runtime(id).throttled = false;
        m.runtime(id).remaining = 0;
        m.bandwidth(id).throttled.retain(|&other| other != id);
    }
}
