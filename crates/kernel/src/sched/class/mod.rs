// SPDX-License-Identifier: GPL-2.0-only
//! The interface between the scheduler core and the scheduling classes (struct sched_class).

pub mod state;

use crate::machine::Machine;
use crate::sched::class::state::Class;
use crate::sched::{deadline, ext, fair, idle, rt};
use crate::simulation::id::{CpuId, IDLE, Server, TaskId};

/// Calls the function `$name` of the module that implements class `$class`.
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
    #[inline(always)]
    pub(crate) fn class_of(&self, task: TaskId) -> Class {
        if task == IDLE {
            Class::Idle
        } else {
            self.tasks[task].class
        }
    }

    /// Returns whether a task waits for a CPU: it is queued, and its cgroup's cpu.max limit does
    /// not throttle it. The caller knows that the task is not running.
    #[inline]
    pub(crate) fn is_waiting(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.on_rq() && !(self.task_groups.limited() && t.fair.throttled)
    }

    /// Charges the running task, its class and the deadline servers with `ns` of CPU time.
    #[inline]
    pub(crate) fn charge_curr(&mut self, cpu: CpuId, ns: u64) {
        if ns == 0 {
            return;
        }
        let curr = self.rqs[cpu].curr;
        if curr == IDLE {
            deadline::update_idle(self, cpu, ns);
            return;
        }
        let task = &mut self.tasks[curr];
        task.add_exec_runtime(ns);
        let class = task.class;
        self.class_update_curr(class, cpu, ns);
        match class {
            Class::Fair => deadline::update(self, cpu, Server::Fair, ns),
            Class::Ext => deadline::update(self, cpu, Server::Ext, ns),
            Class::Rt | Class::Idle => {}
        }
    }

    /// Queues a runnable task on `cpu`. The task's field `cpu` has already been set.
    #[inline(always)]
    pub(crate) fn class_enqueue_task(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        by_class!(self.class_of(task), enqueue_task(self, cpu, task, flags))
    }

    /// Removes a task from its class's queue. The task may be running.
    #[inline(always)]
    pub(crate) fn class_dequeue_task(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        by_class!(self.class_of(task), dequeue_task(self, cpu, task, flags))
    }

    pub(crate) fn class_yield_task(&mut self, cpu: CpuId) {
        by_class!(self.class_of(self.rqs[cpu].curr), yield_task(self, cpu))
    }

    /// Reschedules `cpu` if `task` should run before the current task, which is in the same class.
    /// `task` has just become runnable on `cpu`.
    pub(crate) fn class_wakeup_preempt(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        by_class!(self.class_of(task), wakeup_preempt(self, cpu, task, flags))
    }

    /// Returns the CPU for a task that was woken or created or that calls exec().
    #[inline]
    pub(crate) fn class_select_task_rq(&mut self, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
        by_class!(self.class_of(task), select_task_rq(self, task, prev_cpu, wake_flags))
    }

    /// Handles a task `prev` that stops running because `next` runs now. If `prev` is still
    /// runnable, it returns to its queue.
    #[inline(always)]
    pub(crate) fn class_put_prev_task(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        by_class!(self.class_of(prev), put_prev_task(self, cpu, prev, next))
    }

    /// Prepares the class for `next`, which becomes the current task of `cpu` (set_next_task).
    #[inline(always)]
    pub(crate) fn class_set_next_task(&mut self, cpu: CpuId, next: TaskId) {
        by_class!(self.class_of(next), set_next_task(self, cpu, next))
    }

    /// Prepares the class for the current task of `cpu` after a change of the task (set_next_task
    /// with `first` unset).
    pub(crate) fn class_set_curr_task(&mut self, cpu: CpuId, curr: TaskId) {
        match self.class_of(curr) {
            Class::Fair => fair::set_curr_task(self, cpu, curr),
            Class::Rt => rt::set_curr_task(self, cpu, curr),
            _ => self.class_set_next_task(cpu, curr),
        }
    }

    /// Charges the current task with `ns` of CPU time, which it has used since the last call
    /// (update_curr). `class` is the task's class.
    #[inline]
    pub(crate) fn class_update_curr(&mut self, class: Class, cpu: CpuId, ns: u64) {
        by_class!(class, update_curr(self, cpu, ns))
    }

    /// Handles a task that was woken and queued on `cpu`, whose runqueue is locked (task_woken).
    #[inline(always)]
    pub(crate) fn class_task_woken(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.now;
        self.tasks[task].sched_info_enqueue(now);
        match self.class_of(task) {
            Class::Rt => rt::task_woken(self, cpu, task),
            Class::Ext => ext::task_woken(self, cpu),
            Class::Fair | Class::Idle => {}
        }
    }

    pub(crate) fn class_task_tick(&mut self, cpu: CpuId) {
        by_class!(self.class_of(self.rqs[cpu].curr), task_tick(self, cpu))
    }

    /// Initializes the fields of a new task that belong to its class (sched_fork). The task is not
    /// runnable yet.
    pub(crate) fn class_task_fork(&mut self, task: TaskId) {
        by_class!(self.class_of(task), task_fork(self, task))
    }

    /// Handles a task that has left the class `class`. The task is not queued.
    pub(crate) fn class_switched_from(&mut self, class: Class, cpu: CpuId, task: TaskId) {
        by_class!(class, switched_from(self, cpu, task))
    }

    /// Handles a task that has just changed to its current class. The task may be asleep, queued or
    /// running.
    pub(crate) fn class_switched_to(&mut self, cpu: CpuId, task: TaskId) {
        by_class!(self.class_of(task), switched_to(self, cpu, task))
    }

    /// Handles a change of a task's nice value or rt_priority that does not change its class. The
    /// task was not queued during the change.
    pub(crate) fn class_prio_changed(&mut self, cpu: CpuId, task: TaskId, old_prio: i32) {
        if self.tasks[task].prio() == old_prio {
            return;
        }
        by_class!(self.class_of(task), prio_changed(self, cpu, task, old_prio))
    }

    /// Handles a change of the task's affinity. The new affinity is already in `task.cpus`.
    pub(crate) fn class_set_cpus_allowed(&mut self, task: TaskId) {
        by_class!(self.class_of(task), set_cpus_allowed(self, task))
    }

    /// Prepares a task that is not queued for its move to `new_cpu` (set_task_cpu).
    pub(crate) fn class_migrate_task_rq(&mut self, task: TaskId, new_cpu: CpuId) {
        by_class!(self.class_of(task), migrate_task_rq(self, task, new_cpu))
    }
}
