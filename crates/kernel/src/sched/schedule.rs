// SPDX-License-Identifier: GPL-2.0-only
//! The function schedule() and the events that lead to it: reschedule requests and IPIs
//! (kernel/sched/core.c).

use crate::machine::Machine;
use crate::programs::execute;
use crate::sched::class::state::{Class, flags};
use crate::sched::state::task::{Next, State};
use crate::sched::{deadline, ext, fair, idle, rt};
use crate::simulation::event::{Event, NEVER};
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::state::observed::{Handler, Transition};
use trace::TaskState;

impl Machine {
    /// Requests that `cpu` calls schedule(). If `cpu` is the current CPU, schedule() runs at the
    /// end of the current event handler. Otherwise an IPI is sent to `cpu`.
    pub(crate) fn resched_curr(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        if rq.resched_pending() {
            return;
        }
        rq.need_resched = true;
        if cpu != self.this_cpu {
            self.interrupt_cpu(cpu, Event::Resched { cpu });
        }
    }

    /// Requests that `cpu` calls schedule() when it next returns to user space (resched_curr_lazy).
    /// If `cpu` is idle, or if the kernel uses full preemption (preempt=full), it calls schedule()
    /// as soon as possible.
    pub(crate) fn resched_curr_lazy(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        if self.spec.kernel.preempt_full || rq.idle() {
            return self.resched_curr(cpu);
        }
        if rq.resched_pending() || rq.need_resched_lazy {
            return;
        }
        rq.need_resched_lazy = true;
        if cpu != self.this_cpu && self.local_time(cpu) > self.now {
            // The CPU is executing kernel code. It returns to user space when this code has ended.
            self.notify_work_done(cpu);
        }
    }

    /// Handles a reschedule IPI. The CPU reschedules at the end of this handler, or, if the IPI
    /// interrupted kernel code, at the end of that code.
    pub(crate) fn resched_ipi(&mut self, cpu: CpuId) {
        let rq = &self.rqs[cpu];
        let busy = rq.online && !rq.idle();
        let cost = if busy { self.spec.costs.ipi_receive_ns } else { 0 };
        if rq.ext.kicks.kicked_by != 0 {
            self.ext.kicks.ns += u64::from(cost);
        }
        self.enter_irq(cpu, cost.into());
        ext::resched_ipi(self, cpu);
        self.check_resched(cpu, self.entry.irq_from > Some(0));
    }

    /// Handles the event at the end of a CPU's kernel work. Performs a reschedule that was deferred
    /// until then.
    pub(crate) fn work_done(&mut self, cpu: CpuId) {
        self.enter(cpu);
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        if rq.resched_event_at <= now {
            rq.resched_event_at = NEVER;
        }
        let in_kernel = rq.debt() > 0;
        self.check_resched(cpu, in_kernel);
    }

    /// If a reschedule was requested, makes sure that it happens at the end of the current event
    /// handler. Defers the reschedule if `in_kernel` is set or the CPU spins.
    fn check_resched(&mut self, cpu: CpuId, in_kernel: bool) {
        let rq = &mut self.rqs[cpu];
        if !rq.resched_pending() || !rq.online {
            // schedule() has run since the IPI was sent.
            return;
        }
        if rq.spinning {
            // `resched_deferred` is checked again when the CPU stops spinning.
            rq.need_resched = false;
            rq.resched_deferred = true;
        } else if in_kernel {
            // If the flag stayed set, `leave` would reschedule immediately.
            rq.need_resched = false;
            self.defer_resched(cpu);
        } else {
            rq.resched_deferred = false;
            rq.need_resched = true;
        }
    }

    /// Defers a reschedule until `cpu` has finished its kernel work (until `rq.debt()` is 0).
    pub(crate) fn defer_resched(&mut self, cpu: CpuId) {
        self.rqs[cpu].resched_deferred = true;
        self.notify_work_done(cpu);
    }

    /// Schedules an event for the time at which `cpu` will have finished its kernel work.
    pub(crate) fn notify_work_done(&mut self, cpu: CpuId) {
        let at = self.local_time(cpu);
        let rq = &mut self.rqs[cpu];
        if at < rq.resched_event_at {
            rq.resched_event_at = at;
            self.events.push(at, Event::WorkDone { cpu });
        }
    }

    /// Picks the next task of `cpu` and switches to it. If the previous task goes to sleep, it has
    /// already been deactivated.
    pub(crate) fn schedule(&mut self, cpu: CpuId) {
        debug_assert_eq!(cpu, self.this_cpu);
        let prev = self.rqs[cpu].curr;
        if prev != IDLE && self.tasks[prev].migration_disabled() > 0 && self.tasks[prev].on_rq() {
            self.migrate_disable_switch(prev);
        }
        let kicked_by = std::mem::take(&mut self.rqs[cpu].ext.kicks.kicked_by);
        let began = if kicked_by == 0 { 0 } else { self.local_time(cpu) };
        // A task that has left its queue was charged with its CPU time before it left. A real-time task
        // is charged when it is put back into its queue. The costs of the kernel's work are charged
        // before that.
        let skips = self.skips_clock(cpu);
        self.rqs[cpu].skip_clock = false;
        let later = self.stepped.is_some() && self.class_of(prev) == Class::Rt;
        let here = prev == IDLE || self.tasks[prev].on_rq() && self.tasks[prev].cpu() == cpu && !later;
        if here && !skips {
            self.update_rq_clock(cpu);
            self.rqs[cpu].clock_updated = self.now;
        } else if here {
            self.charge_until_clock(cpu);
        } else {
            self.account(cpu);
        }
        self.domains.note_change(cpu);
        self.lock(LockId::Rq(cpu));
        self.charge(cpu, u64::from(self.spec.costs.schedule(prev == IDLE)));
        let rq = &mut self.rqs[cpu];
        rq.rescheduling = rq.need_resched;
        rq.need_resched = false;
        rq.need_resched_lazy = false;
        self.note_decision_handler(Handler::Schedule, prev);
        self.mark_stale_clock(skips, true);
        let next = if self.stays_idle(cpu, prev) {
            IDLE
        } else {
            self.pick_next_task(cpu, prev)
        };
        self.mark_stale_clock(skips, false);
        let rq = &mut self.rqs[cpu];
        rq.rescheduling = false;
        rq.clock_lags = false;
        if self.overlap.is_none() {
            // The choice has answered the requests that it made itself when it queued tasks. If callbacks
            // overlap, a different CPU may have made a request that the choice has not seen.
            rq.need_resched = false;
            rq.need_resched_lazy = false;
        }
        self.rqs[cpu].next_class = self.class_of(next);
        if next == prev {
            self.unlock(LockId::Rq(cpu));
            if kicked_by != 0 {
                ext::kick::count_effect(self, cpu, kicked_by, began, false);
            }
            if prev == IDLE {
                if self.stepped.is_some() {
                    // The request to reschedule has ended do_idle(), so the tick runs again.
                    if !self.rqs[cpu].tick_armed {
                        self.start_tick(cpu);
                    }
                    self.rqs[cpu].idle_since = self.now.max(1);
                    fair::nohz_run_idle_balance(self, cpu);
                }
                self.enter_idle(cpu);
            } else {
                self.arm_step(cpu);
            }
            return;
        }
        if kicked_by != 0 {
            ext::kick::count_effect(self, cpu, kicked_by, began, true);
        }
        self.context_switch(cpu, prev, next);
        rt::balance_callback(self, cpu);
        self.unlock(LockId::Rq(cpu));
        self.arm_tick(cpu);
        if prev != IDLE && self.tasks[prev].state() == State::Dead {
            self.release_task(prev);
        }
        if next == IDLE {
            self.events.disarm_step(cpu);
            fair::nohz_run_idle_balance(self, cpu);
            if std::mem::take(&mut self.rqs[cpu].ext.runs_last) {
                return self.schedule(cpu);
            }
            if self.stepped.is_none() || !self.rqs[cpu].tick_armed {
                fair::nohz_enter_idle(self, cpu);
            }
            self.enter_idle(cpu);
        } else {
            execute::prepare(self, next);
            self.arm_step(cpu);
        }
    }

    /// Returns whether schedule() on an idle CPU picks no task, because none is queued and sched_ext, whose
    /// policy may know other tasks, is not enabled. There is then no new-idle balancing.
    #[inline(always)]
    fn stays_idle(&self, cpu: CpuId, prev: TaskId) -> bool {
        let rq = &self.rqs[cpu];
        prev == IDLE && rq.nr_running == 0 && !rq.stopping && !self.ext.enabled
    }

    /// Records whether the clock of the CPU in schedule() is stale, if schedule() has skipped its update.
    #[inline(always)]
    fn mark_stale_clock(&mut self, skips: bool, stale: bool) {
        if skips && let Some(stepped) = self.stepped.as_deref_mut() {
            stepped.stale_clock = stale;
        }
    }

    /// Returns the next task, from the highest class that has a runnable task (pick_next_task).
    fn pick_next_task(&mut self, cpu: CpuId, prev: TaskId) -> TaskId {
        rt::balance(self, cpu);
        // The stopper has no interest in the policy's choice, so it is not the previous task of an
        // ext task.
        let ext_prev = if self.rqs[cpu].stopping { IDLE } else { prev };
        let next = deadline::pick_task(self, cpu, prev)
            .or_else(|| rt::pick_task(self, cpu))
            .or_else(|| fair::pick_task(self, cpu, prev))
            .or_else(|| ext::pick_task(self, cpu, ext_prev))
            .or_else(|| idle::pick_task(self, cpu))
            .expect("the idle class always returns a task");
        if std::mem::take(&mut self.rqs[cpu].stopping) {
            let returned = std::mem::take(&mut self.rqs[cpu].returned);
            if next == prev && std::mem::take(&mut self.rqs[cpu].departed) {
                self.tasks[next].arrive(self.now);
                self.observe(Transition::Continued { cpu, task: next });
            } else if next == prev && returned {
                // The stopper has moved the task, and balancing has pulled it back.
                self.observe(Transition::Dequeued { task: next });
            }
            self.class_set_next_task(cpu, next);
        } else if next != prev {
            if prev == IDLE || self.tasks[prev].cpu() == cpu {
                self.class_put_prev_task(cpu, prev, next);
            }
            self.class_set_next_task(cpu, next);
        }
        next
    }

    /// Switches from `prev` to `next` and charges the CPU for it (context_switch).
    fn context_switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        rq.curr = next;
        rq.nr_switches += 1;
        self.update_memory(cpu);
        let mut cost = u64::from(self.spec.costs.context_switch_ns);
        let mut idle_exit = 0;
        let mut prev_state = TaskState::Running;
        let stopped = std::mem::take(&mut self.rqs[cpu].departed);
        if prev == IDLE {
            // The time for leaving the idle state is not part of the next task's runtime.
            idle_exit = self.leave_idle(cpu);
            cost = u64::from(self.spec.costs.switch_from_idle());
            self.rqs[cpu].charged += idle_exit;
        } else {
            let task = &mut self.tasks[prev];
            if !stopped {
                task.depart(now);
            }
            prev_state = match task.state() {
                State::Running | State::Waking => TaskState::Running,
                State::Interruptible => TaskState::Interruptible,
                State::Uninterruptible => TaskState::Uninterruptible,
                State::Dead => TaskState::Dead,
            };
        }
        if next == IDLE {
            cost = u64::from(self.spec.costs.switch_to_idle());
            // In a stepped machine, the time 0 means that the CPU has always been idle.
            self.rqs[cpu].idle_since = now.max(self.stepped.is_some().into());
            self.set_busy(cpu, false);
        } else {
            let task = &mut self.tasks[next];
            debug_assert_eq!(
                task.cpu(),
                cpu,
                "{} was picked by a CPU that it does not belong to",
                task.comm()
            );
            task.arrive(now);
            if prev == IDLE {
                self.set_busy(cpu, true);
            }
        }
        let switched = Transition::Switched {
            cpu,
            prev,
            prev_state,
            next,
            stopped,
        };
        let traced_first = self.spec.kernel.trace_before_switch;
        if traced_first {
            self.charge(cpu, idle_exit);
            self.observe(switched);
            self.charge(cpu, cost);
        } else {
            self.charge(cpu, idle_exit + cost);
        }
        if prev != IDLE {
            self.tasks[prev].off_cpu_at = self.local_time(cpu);
        }
        self.switch_footprints(cpu, prev, next);
        if next != IDLE {
            self.write_task(next);
        }
        if !traced_first {
            self.observe(switched);
        }
        ext::sched_switch(self, cpu, prev, next);
    }

    /// Schedules a step event for the time at which the current task of `cpu` will have finished
    /// the current operation of its program.
    pub(crate) fn arm_step(&mut self, cpu: CpuId) {
        if self.rqs[cpu].speed == 0 {
            // The CPU waits for its turn.
            return;
        }
        let at = self.step_due(cpu).max(self.now);
        self.events.arm_step(cpu, at);
    }

    /// Returns the time at which the current task will have finished the current operation of its
    /// program. This includes the kernel work that the CPU has to finish first.
    #[inline]
    pub(crate) fn step_due(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu];
        debug_assert_ne!(rq.curr, IDLE);
        rq.free_at + rq.progressed + self.tasks[rq.curr].program.time_left(rq.speed)
    }

    /// Handles a step event. If the running task has finished the current operation of its program,
    /// continues the program with the next operation. If kernel work has delayed the task,
    /// schedules the event again.
    pub(crate) fn step(&mut self, cpu: CpuId) {
        let curr = self.rqs[cpu].curr;
        if curr == IDLE {
            return;
        }
        if self.rqs[cpu].debt() > 0 || !self.tasks[curr].program.work_done() {
            self.arm_step(cpu);
            return;
        }
        let next = execute::advance(self, cpu, curr);
        if self.rqs[cpu].curr != curr {
            // The task has moved to another CPU. schedule() has already scheduled a step event for
            // the task that now runs on `cpu`.
            return;
        }
        match next {
            Next::Work => {
                if !self.rqs[cpu].need_resched {
                    self.arm_step(cpu);
                }
            }
            Next::Yield => {
                self.await_rq(cpu);
                self.update_rq_clock(cpu);
                self.class_yield_task(cpu);
                self.rqs[cpu].need_resched = true;
            }
            Next::Block(state) => self.block(cpu, curr, state),
        }
    }

    /// Removes the running task from its queue, because it sleeps or is dead (try_to_block_task). In
    /// Linux, this is a part of schedule().
    #[inline(always)]
    pub(crate) fn block(&mut self, cpu: CpuId, curr: TaskId, state: State) {
        self.await_rq(cpu);
        if self.tasks[curr].migration_disabled() > 0 {
            self.migrate_disable_switch(curr);
        }
        self.tasks[curr].set_state(state);
        if self.skips_clock(cpu) {
            // The running task has been charged up to the last update, which may have been that of a tick.
            self.account(cpu);
            let rq = &mut self.rqs[cpu];
            rq.clock_updated = rq.clock_updated.max(self.now - rq.uncharged);
        }
        self.rqs[cpu].clock_lags = self.skips_clock(cpu);
        if !self.rqs[cpu].clock_lags {
            self.update_rq_clock(cpu);
        }
        let special = if state == State::Dead { flags::SPECIAL } else { 0 };
        self.deactivate_task(cpu, curr, flags::SLEEP | flags::NOCLOCK | special);
        self.rqs[cpu].need_resched = true;
    }

    /// Returns the class of the task that `cpu` runs. This is [`Class::Idle`] if the CPU is idle.
    pub(crate) fn curr_class(&self, cpu: CpuId) -> Class {
        self.class_of(self.rqs[cpu].curr)
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::simulation::event::Event;
    use crate::testbed::{Bed, MS, cpu_id, spec};
    use trace::Record;
    use workload::{Dist, Op, Workload};

    #[test]
    fn several_ipis_to_a_busy_cpu_are_one_reschedule() {
        let mut m = Machine::new(spec(1, 1, 2, 1), Workload::default(), 1).expect("the machine must be valid");
        let (cpu, other) = (cpu_id(0), cpu_id(1));
        m.enter(other);
        m.charge(cpu, 1000);
        let end = m.local_time(cpu);
        for _ in 0..100 {
            m.enter(other);
            m.resched_curr(cpu);
            m.resched_ipi(cpu);
        }
        assert!(!m.rqs[cpu].need_resched && m.rqs[cpu].resched_deferred);
        let mut events = Vec::new();
        while let Some(next) = m.events.pop(u64::MAX) {
            events.push(next);
        }
        // The event queue has one IPI, and one event at the end of the kernel work.
        let (resched, work_done) = (Event::Resched { cpu }, Event::WorkDone { cpu });
        events.retain(|(_, event)| *event == resched || *event == work_done);
        assert_eq!(events.len(), 2);
        assert!(events.contains(&(end, work_done)));
        m.now = end;
        m.work_done(cpu);
        assert!(m.rqs[cpu].need_resched);
        m.schedule(cpu);
        // An IPI that arrives after schedule() has nothing to do.
        let overhead = m.rqs[cpu].debt();
        m.resched_ipi(cpu);
        m.leave();
        assert!(!m.rqs[cpu].resched_pending());
        assert_eq!(m.rqs[cpu].debt(), overhead, "schedule() must not run again");
    }

    /// A timer wakes a task on an idle CPU. With `kick`, the CPU first receives a reschedule IPI
    /// while it has nothing to run. The IPI must not change the time at which the task exits.
    #[test]
    fn an_ipi_without_work_does_not_make_the_next_wakeup_cheaper() {
        let first_run = |kick: bool| {
            let mut bed = Bed::default();
            bed.pinned(0, vec![Op::Sleep(Dist::Fixed(10 * MS)), Op::Run(Dist::Fixed(MS))]);
            let mut m = bed.machine(spec(1, 1, 2, 1));
            let mut records = Vec::new();
            m.advance(5 * MS, &mut records);
            if kick {
                m.enter(cpu_id(1));
                m.resched_curr(cpu_id(0));
            }
            m.run(20 * MS, &mut records);
            let exit = |r: &&Record| matches!(r.event, trace::Event::TaskExit { .. });
            records.iter().find(exit).expect("the task must exit").time
        };
        assert_eq!(first_run(true), first_run(false));
    }
}
