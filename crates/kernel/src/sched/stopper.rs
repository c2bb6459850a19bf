// SPDX-License-Identifier: GPL-2.0-only
//! The stopper of a CPU, which interrupts the running task and can move it to another CPU
//! (kernel/stop_machine.c, migration_cpu_stop).

use crate::layout::enums::SCX_CPU_PREEMPT_STOP;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::{ext, fair};
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::Transition;
use crate::watch::state::stepped::Mover;
use trace::MigrateReason;

impl Machine {
    /// Returns the task that executes kernel code on the current CPU. IDLE stands for the stopper, for which
    /// no task_struct exists.
    #[inline]
    pub(crate) fn current(&self) -> TaskId {
        let rq = &self.rqs[self.this_cpu];
        if rq.stopping { IDLE } else { rq.curr }
    }

    /// Moves the running task to another CPU. In Linux, the stopper thread does this.
    pub(crate) fn migrate_running(&mut self, task: TaskId, to: CpuId, reason: MigrateReason) {
        self.stop_and_migrate(task, |_| to, reason);
    }

    /// Moves the running task to the CPU that the stopper chooses.
    pub(crate) fn stop_and_migrate(
        &mut self,
        task: TaskId,
        choose: impl FnOnce(&mut Machine) -> CpuId,
        reason: MigrateReason,
    ) {
        let cpu = self.tasks[task].cpu();
        let mover = self.mover;
        if mover == Mover::None {
            self.mover = Mover::Stopper;
        }
        if self.overlap.is_some() && self.tasks[task].class == Class::Ext {
            // While a callback is suspended, another CPU could run a task that is queued but still the
            // current one here. So the CPU switches before the task is queued again.
            self.update_rq_clock(cpu);
            let queued = self.tasks[task].on_rq();
            if queued {
                self.deactivate_task(cpu, task, flags::NOCLOCK);
            }
            let here = std::mem::replace(&mut self.this_cpu, cpu);
            self.schedule(cpu);
            self.this_cpu = here;
            self.forget_pending(task);
            let to = choose(self);
            self.move_stopped(task, to, queued, reason);
        } else {
            self.run_stopper(cpu, |m| {
                let to = choose(m);
                let queued = m.tasks[task].on_rq();
                m.forget_pending(task);
                if queued {
                    m.deactivate_task(cpu, task, flags::NOCLOCK);
                }
                m.move_stopped(task, to, queued, reason);
            });
        }
        self.mover = mover;
    }

    /// Ends the wait of a task for its move by the stopper.
    fn forget_pending(&mut self, task: TaskId) {
        if self.tasks[task].rare.migration_pending.is_some() {
            self.tasks[task].rare.migration_pending = None;
        }
    }

    /// Moves a task that the stopper has dequeued to another CPU, and queues it there if `queued` is set
    /// (move_queued_task).
    fn move_stopped(&mut self, task: TaskId, to: CpuId, queued: bool, reason: MigrateReason) {
        self.set_task_cpu(task, to, reason);
        if queued {
            self.lock(LockId::Rq(to));
            self.activate_task(to, task, flags::MIGRATED);
            self.wakeup_preempt(to, task, 0);
            self.unlock(LockId::Rq(to));
        }
    }

    /// Lets the stopper of `cpu` interrupt the running task and do `work`. Then the CPU picks its next
    /// task.
    pub(crate) fn run_stopper(&mut self, cpu: CpuId, work: impl FnOnce(&mut Machine)) {
        self.begin_stopper(cpu);
        let here = std::mem::replace(&mut self.this_cpu, cpu);
        work(self);
        self.this_cpu = here;
        self.end_stopper(cpu);
    }

    /// Lets the stopper of `cpu` interrupt the running task.
    pub(crate) fn begin_stopper(&mut self, cpu: CpuId) {
        self.begin_thread(cpu, SCX_CPU_PREEMPT_STOP);
    }

    /// Lets the stopper of `cpu`, or another thread that precedes all tasks, interrupt the running task. `why` is the
    /// reason for ops.cpu_release().
    pub(crate) fn begin_thread(&mut self, cpu: CpuId, why: u64) {
        self.update_rq_clock(cpu);
        let here = std::mem::replace(&mut self.this_cpu, cpu);
        if self.stepped.is_some() {
            // The CPU has received this IPI before the one that wakes the stopper.
            fair::hrtick_start_pending(self, cpu);
        }
        let curr = self.rqs[cpu].curr;
        if curr != IDLE && self.tasks[curr].migration_disabled() > 0 && self.tasks[curr].on_rq() {
            self.migrate_disable_switch(curr);
        }
        match self.class_of(curr) {
            Class::Ext => {
                ext::put_prev_for_stopper(self, cpu, curr, why);
                // The stopper begins with interrupts enabled, so kicks take effect before its work.
                ext::irq_work(self);
            }
            _ => self.class_put_prev_task(cpu, curr, IDLE),
        }
        // The stopper counts as a second running task (add_nr_running).
        self.domains.overloaded |= self.rqs[cpu].nr_running == 1;
        self.rqs[cpu].stopping = true;
        self.this_cpu = here;
    }

    /// Lets `cpu` pick its next task after the work of the stopper.
    pub(crate) fn end_stopper(&mut self, cpu: CpuId) {
        let here = std::mem::replace(&mut self.this_cpu, cpu);
        // The stopper releases its locks, so the kicks of its work precede those of schedule().
        ext::irq_work(self);
        self.schedule(cpu);
        if here != cpu {
            self.return_to_user(cpu);
        }
        self.this_cpu = here;
    }

    /// Lets the stoppers of all CPUs interrupt the running tasks. When all have stopped, does `work`. Then the CPUs
    /// pick their next tasks one after the other (stop_machine). Idle CPUs stop only in scripts.
    pub(crate) fn stop_machine(&mut self, work: impl FnOnce(&mut Machine)) {
        // If callbacks overlap, a CPU may be inside of one.
        if self.overlap.is_some() {
            work(self);
            return;
        }
        let scripted = self.stepped.is_some();
        let stops = |cpu: &CpuId| !self.is_housekeeping(*cpu) && (scripted || !self.rqs[*cpu].idle());
        let stopped: Vec<CpuId> = self.cpus().filter(|&cpu| self.rqs[cpu].online).filter(stops).collect();
        for &cpu in &stopped {
            self.begin_stopper(cpu);
            let (now, curr) = (self.now, self.rqs[cpu].curr);
            if curr != IDLE {
                // A different CPU can pull the task before this one picks its next task.
                self.tasks[curr].depart(now);
                self.rqs[cpu].departed = true;
                self.observe(Transition::Stopped { cpu, task: curr });
            }
        }
        work(self);
        for &cpu in &stopped {
            self.end_stopper(cpu);
        }
    }
}
