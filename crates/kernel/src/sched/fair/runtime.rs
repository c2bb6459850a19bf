// SPDX-License-Identifier: GPL-2.0-only
//! Runtime of task groups with a limit (cpu.max): queues take it from the pool of their group, are
//! charged for the time that their tasks run, and return what they do not need.

use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::fair::state::entity::{CfsRqId, GROUP, NONE};
use crate::sched::fair::state::quota::*;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, TaskId};

impl Machine {
    pub(super) fn bandwidth(&mut self, id: CfsRqId) -> &mut Bandwidth {
        let group = self.task_groups.group_number(id);
        &mut self.task_groups.groups[group as usize].bandwidth
    }

    pub(super) fn runtime(&mut self, id: CfsRqId) -> &mut Runtime {
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
    /// pool. If the pool is empty, throttles the queue. Returns whether the queue is throttled
    /// (account_cfs_rq_runtime).
    pub(super) fn account_cfs_rq_runtime(&mut self, id: CfsRqId, ns: u64) -> bool {
        if self.bandwidth(id).quota.is_none() {
            return false;
        }
        let runtime = self.runtime(id);
        runtime.remaining -= ns as i64;
        if runtime.remaining > 0 {
            return false;
        }
        runtime.throttled || self.throttle_cfs_rq(id)
    }

    /// Charges a group's queue for the time that its running entity has run, if there are limits. If that
    /// entity is a task, charges the task as well (update_curr).
    #[inline]
    pub(super) fn update_curr_of(&mut self, id: CfsRqId) {
        if id >= GROUP && self.task_groups.limited {
            self.charge_queue(id);
        }
    }

    #[inline(never)]
    fn charge_queue(&mut self, id: CfsRqId) {
        let curr = self.cfs(id).curr;
        if curr == NONE {
            return;
        }
        let cpu = self.queue_cpu(id);
        if curr < GROUP {
            self.update_curr(cpu);
            return;
        }
        self.account(cpu);
        let uncharged = self.rqs[cpu].uncharged as i64;
        let ns = uncharged + std::mem::replace(&mut self.runtime(id).behind, -uncharged);
        if ns > 0 {
            self.account_cfs_rq_runtime(id, ns as u64);
        }
    }

    /// Charges the queues of all groups that contain the running fair task of a CPU (update_curr_fair).
    pub(super) fn update_curr_of_groups(&mut self, cpu: CpuId, curr: TaskId) {
        if self.task_groups.limited {
            let mut id = self.task_cfs_rq(cpu, curr);
            while id >= GROUP {
                self.update_curr_of(id);
                id = self.cfs_rq_of(cpu, id);
            }
        }
    }

    /// Charges the queue of the running task's group. The queues above it are charged later
    /// ([`Machine::update_curr_of`]), because Linux does not update all of them at the same times.
    #[inline(never)]
    pub(super) fn charge_groups(&mut self, cpu: CpuId, curr: TaskId, ns: u64) {
        let mut id = self.task_cfs_rq(cpu, curr);
        self.account_cfs_rq_runtime(id, ns);
        loop {
            id = self.cfs_rq_of(cpu, id);
            if id < GROUP {
                return;
            }
            self.runtime(id).behind += ns as i64;
        }
    }

    /// Throttles a queue that gets its first entity, if it has no runtime (check_enqueue_throttle).
    pub(super) fn check_enqueue_throttle(&mut self, id: CfsRqId) {
        if self.cfs(id).curr == NONE && !self.runtime(id).throttled {
            self.account_cfs_rq_runtime(id, 0);
        }
    }

    /// Takes runtime from the pool until the queue has `target` ns. Returns whether the queue has
    /// any runtime afterwards.
    pub(super) fn assign_cfs_rq_runtime(&mut self, id: CfsRqId, target: u64) -> bool {
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
    pub(super) fn start_cfs_bandwidth(&mut self, id: CfsRqId) {
        let (now, cpu, group) = (self.now, self.this_cpu, self.task_groups.group_number(id));
        let pool = self.bandwidth(id);
        if pool.active {
            return;
        }
        pool.active = true;
        pool.cpu = cpu;
        // The period ends when it would have ended if the timer had not been stopped.
        if pool.expires <= now {
            pool.expires += ((now - pool.expires) / pool.period_ns + 1) * pool.period_ns;
        }
        let (at, generation) = (pool.expires, pool.generation);
        self.events.push(at, Event::CfsPeriod { group, generation });
    }

    /// Distributes the runtime in the pool to throttled queues until the pool is empty. Each queue
    /// gets its deficit plus 1 ns (distribute_cfs_runtime).
    pub(super) fn distribute_cfs_runtime(&mut self, group: u32) {
        let mut own = Vec::new();
        for id in self.task_groups.groups[group as usize].bandwidth.throttled.clone() {
            self.update_curr_of(id);
            let wanted = 1 - self.runtime(id).remaining;
            let pool = self.bandwidth(id);
            let amount = (pool.runtime as i64).min(wanted);
            pool.runtime -= amount as u64;
            let runtime = self.runtime(id);
            runtime.remaining += amount;
            if runtime.remaining > 0 {
                match self.stepped.is_some() {
                    true => own.extend(self.unthrottle_async(id)),
                    false => self.unthrottle_cfs_rq(id),
                }
            }
        }
        for id in own {
            self.unthrottle_cfs_rq(id);
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
}
