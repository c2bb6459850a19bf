// SPDX-License-Identifier: GPL-2.0-only
//! Queued wake-ups (TTWU_QUEUE, kernel/sched/core.c): the waker puts the woken task on a wake list
//! of the CPU that will run the task, and that CPU then adds the task to its own queues.
//!
//! ```text
//! waker's CPU   |= select_task_rq =|= list =|
//! task's CPU                                   |= interrupt: enqueue, ops.enqueue() =|= schedule() =|
//! ```
//!
//! A task on a wake list is in the state TASK_WAKING and on no queue. The fair class does not
//! consider a CPU idle while the wake list of this CPU has tasks (`rq->ttwu_pending`).

use crate::layout::enums::SCX_OPS_ALLOW_QUEUED_WAKEUP;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::state::rq::Waking;
use crate::sched::state::task::State;
use crate::sched::tracepoint;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use machine::Feature;

impl Machine {
    /// Puts a woken task on the wake list of `cpu` and returns true, or returns false if the waker
    /// must queue the task itself (ttwu_queue_wakelist).
    #[inline(always)]
    pub(crate) fn ttwu_queue_wakelist(&mut self, task: TaskId, cpu: CpuId, migrated: bool) -> bool {
        let queues = self.ttwu_queue_cond(task, cpu) && self.sched_feat(Feature::TtwuQueue);
        if queues {
            self.add_to_wake_list(task, cpu, migrated);
        }
        queues
    }

    /// Returns whether `cpu` should queue a woken task itself (ttwu_queue_cond). This is the case
    /// if `cpu` shares no cache with the waker's CPU, or if it is a different CPU without runnable
    /// tasks.
    #[inline(always)]
    fn ttwu_queue_cond(&self, task: TaskId, cpu: CpuId) -> bool {
        self.allows_queued_wakeup(task)
            && self.is_cpu_allowed(task, cpu)
            && (!self.domains.share_cache(self.this_cpu, cpu)
                || (cpu != self.this_cpu && self.rqs[cpu].nr_running == 0))
    }

    /// Returns whether a task may be put on a wake list (scx_allow_ttwu_queue). A sched_ext
    /// scheduler allows this for its tasks by setting the flag SCX_OPS_ALLOW_QUEUED_WAKEUP.
    fn allows_queued_wakeup(&self, task: TaskId) -> bool {
        self.tasks[task].class != Class::Ext
            || self.ext.ops_of(self.tasks[task].ext.sched).flags & SCX_OPS_ALLOW_QUEUED_WAKEUP != 0
    }

    /// Adds a task to the wake list of `cpu` (__ttwu_queue_wakelist). The waker sends an IPI if the
    /// list was empty.
    fn add_to_wake_list(&mut self, task: TaskId, cpu: CpuId, migrated: bool) {
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
        if self.rqs[cpu].debt() > 0 {
            // The CPU still executes kernel code. It handles the interrupt when it has finished.
            self.enter(cpu);
            self.events.push(self.local_time(cpu), Event::Wakeups { cpu });
            return;
        }
        let idle = self.rqs[cpu].idle();
        let cost = if idle { 0 } else { self.spec.costs.ipi_receive_ns };
        self.enter_irq(cpu, cost.into());
        self.sched_ttwu_pending(cpu);
    }

    /// Queues the tasks on the wake list of `cpu` (sched_ttwu_pending) and charges the current CPU
    /// for this work. The current CPU is `cpu` itself, or a CPU that needs these tasks to be queued
    /// before it continues.
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
            // Keeps the allocated memory of the list for later use.
            rq.wake_list = list;
        }
        if self.rqs[cpu].curr == IDLE && self.online_cpus.contains(cpu) {
            self.idle_cpus.insert(cpu);
        }
    }

    /// Queues one task of a wake list (ttwu_do_activate). A wake list stores no flags of the
    /// wake-up except WF_MIGRATED, so ops.enqueue() is called without SCX_ENQ_CPU_SELECTED.
    fn activate_waking(&mut self, cpu: CpuId, Waking { task, migrated }: Waking) {
        self.charge_here(self.activation_ns());
        let (enqueue, wake) = match migrated {
            true => (flags::WAKEUP | flags::NOCLOCK | flags::MIGRATED, flags::WF_MIGRATED),
            false => (flags::WAKEUP | flags::NOCLOCK, 0),
        };
        self.activate_task(cpu, task, enqueue);
        self.tasks[task].set_state(State::Running);
        self.wakeup_preempt(cpu, task, wake);
        let (pid, target) = (self.tasks[task].pid(), cpu.nr());
        let new = false;
        self.trace(self.this_cpu, trace::Event::Wakeup { pid, target, new });
        tracepoint::sched_wakeup(self, task, false);
        self.class_task_woken(cpu, task);
    }

    /// Returns the part of a wake-up's cost that belongs to queueing the task, in ns. It is charged
    /// to the CPU that queues the task. It is estimated as half of the cost of the wake-up.
    /// ttwu_do_activate() contains about half of the code that a wake-up executes, and one of the
    /// two atomic instructions.
    #[inline(always)]
    pub(crate) fn activation_ns(&self) -> u64 {
        u64::from(self.spec.costs.wakeup_ns) / 2
    }

    /// Queues the task immediately if it is on a wake list. Callers do this before they change the
    /// task.
    pub(crate) fn finish_wakeup(&mut self, task: TaskId) {
        if self.tasks[task].state() == State::Waking {
            self.sched_ttwu_pending(self.tasks[task].cpu());
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
