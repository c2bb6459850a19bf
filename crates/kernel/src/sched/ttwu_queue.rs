// SPDX-License-Identifier: GPL-2.0-only
//! Queued wake-ups (TTWU_QUEUE, kernel/sched/core.c): the waker puts the woken task on the wake
//! list of its CPU, and this CPU queues the task itself.
//!
//! ```text
//! waker's CPU   |= select_task_rq =|= list =|
//! task's CPU                                   |= interrupt: enqueue, ops.enqueue() =|= schedule() =|
//! ```
//!
//! A task on a wake list is in the state TASK_WAKING and on no queue. Its CPU does not count as idle
//! for the fair class meanwhile (`rq->ttwu_pending`).

use crate::machine::Machine;
use crate::policy::layout::enums::SCX_OPS_ALLOW_QUEUED_WAKEUP;
use crate::policy::layout::mirror;
use crate::sched::class::{Class, flags};
use crate::sched::ext;
use crate::sched::rq::Waking;
use crate::sched::task::State;
use crate::sched::tracepoint;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;

impl Machine {
    /// Puts a woken task on the wake list of `cpu` and returns true, or returns false if the waker
    /// must queue the task itself (ttwu_queue_wakelist).
    pub(crate) fn ttwu_queue_wakelist(&mut self, task: TaskId, cpu: CpuId, migrated: bool) -> bool {
        let queues = self.ttwu_queue_cond(task, cpu);
        if queues {
            self.add_to_wake_list(task, cpu, migrated);
        }
        queues
    }

    /// Returns whether a wake-up is left to `cpu` (ttwu_queue_cond). It is if `cpu` shares no cache
    /// with the waker, or if `cpu` is another CPU that has no runnable task.
    fn ttwu_queue_cond(&self, task: TaskId, cpu: CpuId) -> bool {
        self.allows_queued_wakeup(task)
            && self.is_cpu_allowed(task, cpu)
            && (!self.domains.share_cache(self.this_cpu, cpu)
                || (cpu != self.this_cpu && self.rqs[cpu].nr_running == 0))
    }

    /// Returns whether the wake-up of a task may be queued (scx_allow_ttwu_queue). A policy must
    /// allow it for its tasks with SCX_OPS_ALLOW_QUEUED_WAKEUP.
    fn allows_queued_wakeup(&self, task: TaskId) -> bool {
        self.tasks[task].class != Class::Ext || self.ext.ops().flags & SCX_OPS_ALLOW_QUEUED_WAKEUP != 0
    }

    /// Adds a task to the wake list of `cpu` (__ttwu_queue_wakelist). The waker sends an IPI if the
    /// list was empty.
    fn add_to_wake_list(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
        self.tasks[task].state = State::Waking;
        mirror::mirror_state(self, task);
        let line = self.spec.costs.cache_line.at(self.distance(self.this_cpu, cpu));
        self.charge_here(line);
        self.idle_cpus.remove(cpu);
        let list = &mut self.rqs[cpu].wake_list;
        list.push(Waking { task, migrated });
        if list.len() == 1 {
            self.interrupt_cpu(cpu, Event::Wakeups { cpu });
        }
    }

    /// Handles the interrupt that announces tasks on the wake list of `cpu`.
    pub(crate) fn wakeups(&mut self, cpu: CpuId) {
        self.account(cpu);
        if self.rqs[cpu].debt > 0 {
            // The CPU does kernel work and handles the interrupt afterwards.
            self.enter(cpu);
            self.events.push(self.local_time(cpu), Event::Wakeups { cpu });
            return;
        }
        let idle = self.rqs[cpu].idle();
        let cost = if idle { 0 } else { self.spec.costs.ipi_receive_ns };
        self.enter_irq(cpu, cost.into());
        self.sched_ttwu_pending(cpu);
    }

    /// Queues the tasks on the wake list of `cpu` (sched_ttwu_pending). The current CPU is charged
    /// for it. This is `cpu`, unless another CPU needs the tasks on their queue.
    pub(crate) fn sched_ttwu_pending(&mut self, cpu: CpuId) {
        if self.rqs[cpu].wake_list.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut self.rqs[cpu].wake_list);
        self.lock(LockId::Rq(cpu));
        for waking in list.drain(..) {
            self.activate_waking(cpu, waking);
        }
        self.unlock(LockId::Rq(cpu));
        let rq = &mut self.rqs[cpu];
        if rq.wake_list.is_empty() {
            // Keeps the memory of the list.
            rq.wake_list = list;
        }
        if self.rqs[cpu].curr == IDLE && self.online_cpus.contains(cpu) {
            self.idle_cpus.insert(cpu);
        }
    }

    /// Queues one task of a wake list (ttwu_do_activate). Flags of the wake-up other than
    /// WF_MIGRATED are lost, so ops.enqueue() does not see SCX_ENQ_CPU_SELECTED.
    fn activate_waking(&mut self, cpu: CpuId, Waking { task, migrated }: Waking) {
        self.charge_here(self.activation_ns());
        self.tasks[task].state = State::Running;
        let (enqueue, wake) = match migrated {
            true => (flags::WAKEUP | flags::MIGRATED, flags::WF_MIGRATED),
            false => (flags::WAKEUP, 0),
        };
        self.activate_task(cpu, task, enqueue);
        self.wakeup_preempt(cpu, task, wake);
        ext::task_woken(self, cpu, task);
        let (pid, target) = (self.tasks[task].pid, cpu.nr());
        let new = false;
        self.trace(self.this_cpu, trace::Event::Wakeup { pid, target, new });
        tracepoint::sched_wakeup(self, task, false);
    }

    /// Returns the part of a wake-up's cost that belongs to queueing the task, in ns. The CPU that
    /// queues the task pays it. An estimate: half of the wake-up, because ttwu_do_activate() has one
    /// of its two atomic instructions and about half of its code.
    pub(crate) fn activation_ns(&self) -> u64 {
        u64::from(self.spec.costs.wakeup_ns) / 2
    }

    /// Queues a task that is on a wake list at once, because the caller is about to change it.
    pub(crate) fn finish_wakeup(&mut self, task: TaskId) {
        if self.tasks[task].state == State::Waking {
            self.sched_ttwu_pending(self.tasks[task].cpu);
        }
    }

    /// Empties the wake lists of all CPUs.
    pub(crate) fn finish_wakeups(&mut self) {
        for cpu in self.cpus() {
            self.sched_ttwu_pending(cpu);
        }
    }
}

#[cfg(test)]
mod tests;
