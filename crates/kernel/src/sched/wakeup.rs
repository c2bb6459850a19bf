// SPDX-License-Identifier: GPL-2.0-only
//! Wake-ups, queueing and migration of tasks (kernel/sched/core.c).

use crate::layout::callbacks::Callback;
use crate::machine::Machine;
use crate::sched::class::state::{Class, flags};
use crate::sched::state::task::{SoftTimer, State};
use crate::sched::{ext, fair, tracepoint};
use crate::simulation::cpuset::CpuSet;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::{DecisionKind, Handler, Transition};
use trace::MigrateReason;

impl Machine {
    /// Wakes a task on behalf of the running task (try_to_wake_up). Returns false if the task was
    /// not sleeping.
    pub(crate) fn try_to_wake_up(&mut self, task: TaskId, wake_flags: u32) -> bool {
        let waker = self.rqs[self.this_cpu].curr;
        self.wake(task, self.pid_of(waker), wake_flags)
    }

    /// Wakes a task. `waker` is the pid of the waking task, or 0 if an interrupt handler wakes it.
    pub(crate) fn wake(&mut self, task: TaskId, waker: u32, wake_flags: u32) -> bool {
        self.await_off_cpu(task);
        let t = &self.tasks[task];
        if !matches!(t.state(), State::Interruptible | State::Uninterruptible) {
            return false;
        }
        let (waker_cpu, pid) = (self.this_cpu, t.pid());
        self.trace(waker_cpu, trace::Event::Waking { pid, waker });
        tracepoint::sched_waking(self, task);
        self.charge_here(u64::from(self.spec.costs.wakeup_ns) - self.activation_ns());
        self.write_task(task);
        let t = &mut self.tasks[task];
        t.set_state(State::Waking);
        t.wake_generation = t.wake_generation.wrapping_add(1);
        t.program.wake(self.now);
        let prev_cpu = t.cpu();
        let delayed = t.fair.delayed;
        if self.tasks[task].off_cpu_at > self.local_time(waker_cpu) && !delayed && prev_cpu != waker_cpu {
            // The task's CPU has not finished the switch to its next task (p->on_cpu is set).
            if self.ttwu_queue_wakelist(task, prev_cpu, false) {
                return true;
            }
            let wait = self.tasks[task].off_cpu_at - self.local_time(waker_cpu);
            self.charge_here(wait);
        }
        let mut enqueue = flags::WAKEUP | flags::NOCLOCK;
        // The choice can widen the affinity.
        if self.may_choose_cpu(task) {
            enqueue |= flags::RQ_SELECTED;
        }
        let cpu = self.select_task_rq(task, prev_cpu, wake_flags | flags::WF_TTWU);
        if cpu != prev_cpu {
            self.set_task_cpu(task, cpu, MigrateReason::Wakeup);
            enqueue |= flags::MIGRATED;
        }
        if !delayed && self.ttwu_queue_wakelist(task, cpu, cpu != prev_cpu) {
            return true;
        }
        self.charge_here(self.activation_ns());
        self.lock(LockId::Rq(cpu));
        self.activate_task(cpu, task, enqueue);
        self.tasks[task].set_state(State::Running);
        self.wakeup_preempt(cpu, task, wake_flags | flags::WF_TTWU);
        self.trace(
            waker_cpu,
            trace::Event::Wakeup {
                pid,
                target: cpu.nr(),
                new: false,
            },
        );
        tracepoint::sched_wakeup(self, task, false);
        self.class_task_woken(cpu, task);
        self.unlock(LockId::Rq(cpu));
        true
    }

    /// Returns a CPU on which the task may run. The task's class chooses the CPU if the task may
    /// use more than one (select_task_rq).
    pub(crate) fn select_task_rq(&mut self, task: TaskId, prev_cpu: CpuId, wake_flags: u32) -> CpuId {
        if !self.may_choose_cpu(task) {
            // A task with migration disabled stays on its CPU (migrate_disable_switch).
            let t = &self.tasks[task];
            let pinned = t.cpus.first().filter(|_| t.migration_disabled() == 0);
            return self.allowed_cpu(task, pinned.unwrap_or(prev_cpu), prev_cpu);
        }
        self.note_decision_handler(Handler::SelectCpu, task);
        let cpu = self.class_select_task_rq(task, prev_cpu, wake_flags);
        let cpu = self.allowed_cpu(task, cpu, prev_cpu);
        let pid = self.tasks[task].pid();
        if self.decisions.on {
            self.record_decision_by(self.select_cpu_op(task), |_| DecisionKind::Cpu {
                pid,
                prev_cpu: prev_cpu.nr(),
                cpu: cpu.nr(),
            });
        }
        cpu
    }

    /// Returns `cpu` if the task may run there. Otherwise returns a fallback CPU.
    #[inline(always)]
    fn allowed_cpu(&mut self, task: TaskId, cpu: CpuId, prev_cpu: CpuId) -> CpuId {
        if self.is_cpu_allowed(task, cpu) {
            cpu
        } else {
            self.select_fallback_rq(task, prev_cpu)
        }
    }

    /// Returns the BPF scheduler's callback that chooses the CPU of a task. Returns `None` if the
    /// kernel chooses it.
    fn select_cpu_op(&self, task: TaskId) -> Option<Callback> {
        let asked = self.class_of(task) == Class::Ext && self.ext.has_op(Callback::SelectCpu);
        asked.then_some(Callback::SelectCpu)
    }

    /// Returns whether the task may use several CPUs. Only then, its class chooses the CPU.
    #[inline(always)]
    pub(crate) fn may_choose_cpu(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.nr_cpus_allowed() > 1 && t.migration_disabled() == 0
    }

    /// Returns whether a CPU is online and in the task's affinity. A task with migration disabled
    /// may stay on its CPU after a change of the affinity.
    #[inline(always)]
    pub(crate) fn is_cpu_allowed(&self, task: TaskId, cpu: CpuId) -> bool {
        let t = &self.tasks[task];
        (t.has_affinity_to(cpu) || t.may_use(cpu)) && self.online_cpus.contains(cpu)
    }

    /// Returns an online CPU of the task's affinity, preferably on the same node as `near`.
    ///
    /// If no CPU of the affinity is online, the affinity is extended to all CPUs
    /// (cpuset_cpus_allowed_fallback).
    #[cold]
    pub(crate) fn select_fallback_rq(&mut self, task: TaskId, near: CpuId) -> CpuId {
        let node = self.spec.topology.cpus[near.index()].node;
        let t = &self.tasks[task];
        let local = self.spec.topology.nodes[node as usize].iter();
        let local = local.filter_map(|&cpu| self.cpu_id(cpu));
        let found = local.chain(t.cpus.iter()).find(|&cpu| self.is_cpu_allowed(task, cpu));
        found.unwrap_or_else(|| {
            let mut all = CpuSet::all(self.nr_cpus());
            if self.stepped.is_some() {
                // No task of a script runs on the housekeeping CPU.
                all.remove(CpuId::BOOT);
            }
            let first = all.next_and(&self.online_cpus, 0);
            self.set_cpus_mask(task, all);
            first.or(self.online_cpus.first()).expect("one CPU always stays online")
        })
    }

    /// Makes a task runnable on `cpu`. The task's field `cpu` has already been set.
    pub(crate) fn activate_task(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        debug_assert_eq!(self.tasks[task].cpu(), cpu);
        self.await_rq(cpu);
        self.charge_before_queueing(cpu, task);
        let now = self.now;
        let t = &mut self.tasks[task];
        debug_assert!(!t.on_rq() && matches!(t.state(), State::Running | State::Waking));
        t.waiting_since = now;
        // A delayed sleeper is still counted.
        self.rqs[cpu].nr_running += u32::from(!t.fair.delayed);
        self.domains.note_change(cpu);
        self.observe(Transition::Queued { task });
        let rq = &mut self.rqs[cpu];
        rq.returned |= rq.stopping && rq.curr == task;
        rq.clock_updated = now;
        self.class_enqueue_task(cpu, task, flags);
        self.tasks[task].set_queued();
        self.update_tick_dependency(cpu);
    }

    /// Charges the running task of a CPU before a task is queued there. The fair class needs the
    /// current vruntime, unless the task stays throttled; other classes do not (enqueue_task_fair).
    pub(crate) fn charge_before_queueing(&mut self, cpu: CpuId, task: TaskId) {
        let both_fair = self.class_of(task) == Class::Fair && self.class_of(self.rqs[cpu].curr) == Class::Fair;
        if both_fair && !(self.tasks[task].fair.throttled && self.stays_throttled(cpu, task)) {
            self.update_curr(cpu);
        } else {
            self.account(cpu);
        }
    }

    /// Charges the running task of a CPU before a task leaves its queue. The running task of another
    /// class is not charged, nor is that of sched_ext for another task. A throttled task is in no queue
    /// (dequeue_task_fair, dequeue_task_rt, dequeue_task_scx).
    pub(crate) fn charge_before_dequeueing(&mut self, cpu: CpuId, task: TaskId) {
        let (class, curr) = (self.class_of(task), self.rqs[cpu].curr);
        let uses_queue = !self.tasks[task].fair.throttled && (class != Class::Ext || curr == task);
        if class == self.class_of(curr) && uses_queue {
            self.update_curr(cpu);
        } else {
            self.account(cpu);
        }
    }

    /// Removes a task from its queue on `cpu`. The task may be running.
    pub(crate) fn deactivate_task(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        self.await_rq(cpu);
        // The clock that a sleeping task sees may not have been updated.
        let sleeps = flags & flags::SLEEP != 0;
        if !sleeps || !self.skips_clock(cpu) {
            self.charge_before_dequeueing(cpu, task);
        } else {
            self.charge_until_clock(cpu);
        }
        if !sleeps {
            self.rqs[cpu].clock_updated = self.now;
        }
        debug_assert!(self.tasks[task].on_rq());
        if !sleeps {
            self.tasks[task].set_dequeued(false);
        }
        self.class_dequeue_task(cpu, task, flags);
        self.domains.note_change(cpu);
        let t = &mut self.tasks[task];
        self.rqs[cpu].nr_running -= u32::from(!t.fair.delayed);
        t.set_dequeued(sleeps);
        if self.rqs[cpu].curr != task || self.rqs[cpu].departed {
            self.observe(Transition::Dequeued { task });
        }
    }

    /// Reschedules `cpu` if `task`, which has just become runnable there, should run before the
    /// current task.
    pub(crate) fn wakeup_preempt(&mut self, cpu: CpuId, task: TaskId, flags: u32) {
        let (next, new) = (self.rqs[cpu].next_class, self.class_of(task));
        if new == next {
            self.class_wakeup_preempt(cpu, task, flags);
        } else if new < next {
            if next == Class::Ext {
                ext::preempted_by_class(self, cpu);
            }
            self.resched_curr(cpu);
            self.rqs[cpu].next_class = new;
        }
        self.skip_next_update(cpu);
    }

    /// Lets the next schedule() on `cpu` not update the clock (rq_clock_skip_update). Linux wants to save the
    /// second of two updates. However, no first one happens when a task moves to the local DSQ of its own
    /// CPU, or when schedule() itself moves a task. The next task is then charged from an earlier time, or
    /// up to one.
    pub(crate) fn skip_next_update(&mut self, cpu: CpuId) {
        if self.stepped.is_none() {
            return;
        }
        let rq = &self.rqs[cpu];
        let queued = rq.curr == IDLE || self.tasks[rq.curr].on_rq();
        if (rq.rescheduling || rq.need_resched) && queued && !rq.stopping {
            self.rqs[cpu].skip_clock = true;
        }
    }

    /// Updates the clock of a runqueue that has nothing else to do. The next schedule() charges the running
    /// task up to this time if it does not update the clock (update_rq_clock).
    pub(crate) fn note_clock_update(&mut self, cpu: CpuId) {
        self.account(cpu);
        self.rqs[cpu].clock_updated = self.now;
    }

    /// Charges the running task up to the last update of the clock.
    pub(crate) fn charge_until_clock(&mut self, cpu: CpuId) {
        self.account(cpu);
        let rq = &mut self.rqs[cpu];
        let ns = rq.uncharged.saturating_sub(self.now - rq.clock_updated);
        rq.uncharged -= ns;
        self.charge_curr(cpu, ns);
    }

    /// Returns whether schedule() on `cpu` does not update the clock. This has no effect if something
    /// else has updated it at the present time.
    pub(crate) fn skips_clock(&self, cpu: CpuId) -> bool {
        let rq = &self.rqs[cpu];
        rq.skip_clock && rq.clock_updated != self.now
    }

    /// Sets the CPU of a task that is not queued (set_task_cpu).
    pub(crate) fn set_task_cpu(&mut self, task: TaskId, cpu: CpuId, reason: MigrateReason) {
        let from = self.tasks[task].cpu();
        if from == cpu {
            return;
        }
        self.class_migrate_task_rq(task, cpu);
        if self.stepped.is_some() {
            self.note_migration(task, reason);
            fair::set_task_rq(self, task, cpu);
        }
        let t = &mut self.tasks[task];
        debug_assert!(t.cpus.contains(cpu) || self.online_cpus.weight() < self.rqs.len() as u32);
        t.set_cpu(cpu);
        let pid = t.pid();
        ext::task_cpu_changed(self, task);
        self.trace(
            self.this_cpu,
            trace::Event::Migrate {
                pid,
                from: from.nr(),
                to: cpu.nr(),
                reason,
            },
        );
    }

    /// Moves a task that is queued but not running to the CPU `to` (move_queued_task, detach_task,
    /// attach_task).
    pub(crate) fn move_queued_task(&mut self, task: TaskId, to: CpuId, reason: MigrateReason) {
        let from = self.tasks[task].cpu();
        debug_assert!(!self.tasks[task].on_cpu() || self.rqs[from].stopping);
        self.deactivate_task(from, task, flags::NOCLOCK);
        self.set_task_cpu(task, to, reason);
        self.lock(LockId::Rq(to));
        self.activate_task(to, task, flags::MIGRATED);
        self.wakeup_preempt(to, task, 0);
        self.unlock(LockId::Rq(to));
    }

    /// Wakes a task whose timer has expired or whose I/O is complete. The interrupt handler that
    /// wakes the task runs on the CPU on which the task went to sleep, if this CPU is online. Returns
    /// false if the event is obsolete.
    #[inline(always)]
    pub(crate) fn timer_wake(&mut self, task: TaskId, generation: u32) -> bool {
        let t = &self.tasks[task];
        if t.wake_generation != generation || t.state() == State::Dead {
            return false;
        }
        let cpu = match self.stepped.is_some() {
            // A delayed sleeper may have moved since it set its timer.
            true => self.online_or_first(self.in_timer_irq().unwrap_or(self.wake_cpu(task))),
            false => self.online_or_first(self.wake_cpu(task)),
        };
        self.enter_timer_irq(cpu);
        self.wake(task, 0, 0);
        self.run_soft_timers(cpu);
        true
    }

    /// Returns the CPU that gets the timers of `cpu`: the first one that is online, if `cpu` has gone offline
    /// (hrtimers_cpu_dying).
    pub(crate) fn online_or_first(&self, cpu: CpuId) -> CpuId {
        match self.online_cpus.contains(cpu) {
            true => cpu,
            false => self.online_cpus.first().unwrap_or(CpuId::BOOT),
        }
    }

    /// Schedules the wake-up of a sleeping task at the time `at` or up to `slack` ns later
    /// (hrtimer_start_range_ns). The task's own interrupt arrives at the end of this time. If
    /// another timer interrupts the CPU earlier, the task wakes up together with it.
    pub(crate) fn wake_in_range(&mut self, task: TaskId, at: u64, slack: u64) {
        self.wake_at(task, at.saturating_add(slack));
        let t = &self.tasks[task];
        self.soft_timers.push(SoftTimer {
            cpu: self.wake_cpu(task),
            from: at,
            task,
            generation: t.wake_generation,
        });
    }

    /// Wakes the tasks whose sleep on `cpu` may end now. Called from each interrupt of a timer.
    #[inline]
    pub(crate) fn run_soft_timers(&mut self, cpu: CpuId) {
        if !self.soft_timers.is_empty() {
            self.run_pending_soft_timers(cpu);
        }
    }

    #[inline(never)]
    fn run_pending_soft_timers(&mut self, cpu: CpuId) {
        let now = self.now;
        let mut due = Vec::new();
        let tasks = &self.tasks;
        self.soft_timers.retain(|timer| {
            let armed = tasks[timer.task].wake_generation == timer.generation;
            let expired = armed && timer.cpu == cpu && timer.from <= now;
            if expired {
                due.push(timer.task);
            }
            armed && !expired
        });
        for task in due {
            self.wake(task, 0, 0);
        }
    }

    /// Schedules the wake-up of a sleeping task at the time `at`.
    pub(crate) fn wake_at(&mut self, task: TaskId, at: u64) {
        let t = &mut self.tasks[task];
        t.wake_generation = t.wake_generation.wrapping_add(1);
        let generation = t.wake_generation;
        let own = self.tasks[task].cpu();
        let cpu = self.timer_target(own);
        let timer_cpu = (cpu != own).then_some(cpu);
        let rare = &mut self.tasks[task].rare;
        if rare.timer_cpu != timer_cpu {
            rare.timer_cpu = timer_cpu;
        }
        let at = at.max(self.now);
        let event = Event::Wake { task, generation };
        self.events.push(at, event);
        self.note_timer(cpu, at, event);
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::sched::class::state::flags::{MIGRATED, NOCLOCK, WF_TTWU};
    use crate::testbed::*;

    #[test]
    fn a_task_with_migration_disabled_wakes_on_its_cpu() {
        let mut bed = Bed::default();
        bed.task(2, sleeper(MS, 100 * MS));
        let (mut m, _) = bed.run(spec(1, 1, 4, 1), 50 * MS);
        let task = nth(0);
        let prev_cpu = cpu_id(2);
        m.tasks[task].task_struct.migration_disabled = 1;
        assert_eq!(m.select_task_rq(task, prev_cpu, WF_TTWU), prev_cpu);
    }
    #[test]
    fn the_task_struct_has_the_kernels_values_while_a_task_moves() {
        let mut bed = Bed::default();
        bed.pinned(2, hog());
        bed.pinned(2, hog());
        let (mut m, _) = bed.run(spec(1, 1, 4, 1), 50 * MS);
        let cpu = cpu_id(2);
        let mut tasks = [nth(0), nth(1)].into_iter();
        let task = tasks.find(|&task| !m.tasks[task].on_cpu()).expect("one task waits");
        let on_rq = |m: &Machine| (m.tasks[task].on_rq(), m.tasks[task].task_struct.on_rq);
        assert_eq!(m.tasks[task].task_struct.recent_used_cpu, 2);
        assert_eq!(on_rq(&m), (true, 1));
        m.deactivate_task(cpu, task, NOCLOCK);
        assert_eq!(on_rq(&m), (false, 2), "TASK_ON_RQ_MIGRATING");
        m.activate_task(cpu, task, MIGRATED);
        assert_eq!(on_rq(&m), (true, 1));
    }
}
