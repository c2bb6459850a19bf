// SPDX-License-Identifier: GPL-2.0-only
//! The calls that the core makes of each class (struct sched_class).

use super::class::Class;
use super::{ext, fair, idle, rt};
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE, TaskId};

macro_rules! by_class {
    ($class:expr, $name:ident ( $($arg:expr),* )) => {
        match $class {
            Class::Rt => rt::$name($($arg),*),
            Class::Ext => ext::$name($($arg),*),
            Class::Fair => fair::$name($($arg),*),
            Class::Idle => idle::$name($($arg),*),
        }
    };
}

impl Machine {
    pub fn class_of(&self, task: TaskId) -> Class {
        if task == IDLE {
            Class::Idle
        } else {
            self.tasks[task].class
        }
    }

    /// A task that does not run is queued, and not kept from running by its cgroup's limit.
    #[inline]
    pub(crate) fn waits(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.on_rq && !(self.task_groups.limited() && t.fair.throttled)
    }

    /// Queues a runnable task on `cpu` (its `cpu` field is set).
    pub(crate) fn class_enqueue_task(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        by_class!(self.class_of(task), enqueue_task(self, cpu, task, flags))
    }

    /// Takes a task off its class' queue; it may be the running one.
    pub(crate) fn class_dequeue_task(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        by_class!(self.class_of(task), dequeue_task(self, cpu, task, flags))
    }

    pub(crate) fn class_yield_task(&mut self, cpu: CpuId) {
        by_class!(self.class_of(self.rqs[cpu].curr), yield_task(self, cpu))
    }

    /// `task` of the same class as `curr` became runnable on `cpu`: reschedule if it should run first.
    pub(crate) fn class_wakeup_preempt(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        by_class!(self.class_of(task), wakeup_preempt(self, cpu, task, flags))
    }

    /// Chooses the CPU for a woken, forked or exec'ing task.
    pub(crate) fn class_select_task_rq(&mut self, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
        by_class!(self.class_of(task), select_task_rq(self, task, prev_cpu, wake_flags))
    }

    /// `prev` stops being curr in favour of `next`; if still runnable it goes back to the queue.
    pub(crate) fn class_put_prev_task(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        by_class!(self.class_of(prev), put_prev_task(self, cpu, prev, next))
    }

    /// `next` becomes curr: it leaves the queue proper, its accounting starts.
    pub(crate) fn class_set_next_task(&mut self, cpu: CpuId, next: TaskId) {
        by_class!(self.class_of(next), set_next_task(self, cpu, next))
    }

    /// `curr`, which is of this class, has used `ns` of CPU time since the last call (called by `Machine::account`).
    #[inline]
    pub(crate) fn class_update_curr(&mut self, class: Class, cpu: CpuId, ns: u64) {
        by_class!(class, update_curr(self, cpu, ns))
    }

    pub(crate) fn class_task_tick(&mut self, cpu: CpuId) {
        by_class!(self.class_of(self.rqs[cpu].curr), task_tick(self, cpu))
    }

    /// A new task is being set up (sched_fork), not yet visible.
    pub(crate) fn class_task_fork(&mut self, task: TaskId) {
        by_class!(self.class_of(task), task_fork(self, task))
    }

    /// The task has left this class (it is not queued).
    pub(crate) fn class_switched_from(&mut self, class: Class, cpu: CpuId, task: TaskId) {
        by_class!(class, switched_from(self, cpu, task))
    }

    /// The task has entered its class; it is queued or running if `on_rq`.
    pub(crate) fn class_switched_to(&mut self, cpu: CpuId, task: TaskId) {
        by_class!(self.class_of(task), switched_to(self, cpu, task))
    }

    /// Nice or rt_priority changed within the class; the task was dequeued meanwhile.
    pub(crate) fn class_prio_changed(&mut self, cpu: CpuId, task: TaskId) {
        by_class!(self.class_of(task), prio_changed(self, cpu, task))
    }

    /// `task.cpus` was set anew.
    pub(crate) fn class_set_cpus_allowed(&mut self, task: TaskId) {
        by_class!(self.class_of(task), set_cpus_allowed(self, task))
    }

    /// The task is about to be moved to `new_cpu` (set_task_cpu); it is not queued.
    pub(crate) fn class_migrate_task_rq(&mut self, task: TaskId, new_cpu: CpuId) {
        by_class!(self.class_of(task), migrate_task_rq(self, task, new_cpu))
    }
}
