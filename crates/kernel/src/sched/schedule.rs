// SPDX-License-Identifier: GPL-2.0-only
//! The function schedule() and the events that lead to it: reschedule requests, IPIs and ticks
//! (kernel/sched/core.c).

use crate::machine::Machine;
use crate::programs::cursor::Next;
use crate::programs::execute;
use crate::sched::class::{Class, flags};
use crate::sched::fair::entity::NEVER;
use crate::sched::task::State;
use crate::sched::{deadline, ext, fair, idle, rt};
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};
use crate::simulation::timeline::LockId;
use crate::watch::decision::Handler;
use crate::watch::observe::Transition;
use trace::TaskState;

impl Machine {
    /// Requests that `cpu` calls schedule(). If `cpu` is the current CPU, it does so at the end of
    /// the current handler. Otherwise an IPI is sent to it.
    pub(crate) fn resched_curr(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        if rq.resched_pending() {
            return;
        }
        rq.need_resched = true;
        if cpu != self.this_cpu {
            self.send_ipi(cpu);
        }
    }

    /// Handles a reschedule IPI, or the end of the work to which one was deferred. The CPU
    /// reschedules when the handler ends, or when it has worked off its debt.
    pub(crate) fn resched_ipi(&mut self, cpu: CpuId) {
        self.enter(cpu);
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        if rq.resched_event_at <= now {
            rq.resched_event_at = NEVER;
        }
        if !rq.resched_pending() || !rq.online {
            // schedule() has run since the IPI was sent.
            return;
        }
        if rq.spinning {
            // The flag is checked again when the spinning ends.
            rq.need_resched = false;
            rq.resched_deferred = true;
        } else if rq.debt > 0 {
            // Otherwise `leave` would reschedule immediately.
            rq.need_resched = false;
            self.defer_resched(cpu);
        } else {
            rq.resched_deferred = false;
            rq.need_resched = true;
        }
    }

    /// Defers a reschedule until `cpu` has worked off its debt.
    pub(crate) fn defer_resched(&mut self, cpu: CpuId) {
        let at = self.local_time(cpu);
        let rq = &mut self.rqs[cpu];
        rq.resched_deferred = true;
        if at < rq.resched_event_at {
            rq.resched_event_at = at;
            self.events.push(at, Event::Resched { cpu });
        }
    }

    /// Picks the next task of `cpu` and switches to it. If the previous task goes to sleep, it has
    /// already been deactivated.
    pub(crate) fn schedule(&mut self, cpu: CpuId) {
        debug_assert_eq!(cpu, self.this_cpu);
        self.account(cpu);
        self.lock(LockId::Rq(cpu));
        self.charge(cpu, u64::from(self.spec.costs.schedule_ns));
        let prev = self.rqs[cpu].curr;
        self.rqs[cpu].need_resched = false;
        self.note_decision_handler(Handler::Schedule, prev);
        let next = self.pick_next_task(cpu, prev);
        self.rqs[cpu].next_class = self.class_of(next);
        if next == prev {
            // An IPI that has found nothing to run does not shorten the next exit from idle.
            self.rqs[cpu].leaving_idle = false;
            self.unlock(LockId::Rq(cpu));
            if prev != IDLE {
                self.arm_step(cpu);
            }
            return;
        }
        self.context_switch(cpu, prev, next);
        rt::balance_callback(self, cpu);
        self.unlock(LockId::Rq(cpu));
        self.arm_tick(cpu);
        if next == IDLE {
            self.events.disarm_step(cpu);
        } else {
            execute::prepare(self, next);
            self.arm_step(cpu);
        }
        if prev != IDLE && self.tasks[prev].state == State::Dead {
            self.release_task(prev);
        }
    }

    /// Returns the next task, from the highest class that has a runnable task (pick_next_task).
    fn pick_next_task(&mut self, cpu: CpuId, prev: TaskId) -> TaskId {
        // The idle class always returns a task.
        rt::balance(self, cpu);
        let next = deadline::pick_task(self, cpu, prev)
            .or_else(|| rt::pick_task(self, cpu))
            .or_else(|| fair::pick_task(self, cpu, prev))
            .or_else(|| ext::pick_task(self, cpu, prev))
            .or_else(|| idle::pick_task(self, cpu))
            .expect("the idle class never declines");
        if next != prev {
            self.class_put_prev_task(cpu, prev, next);
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
        let mut cost = u64::from(self.spec.costs.context_switch_ns);
        let mut prev_state = TaskState::Running;
        let woken_by_ipi = std::mem::take(&mut rq.leaving_idle);
        if prev == IDLE {
            // An interrupt on this CPU woke it from idle, so the cost of leaving idle has not been
            // charged yet.
            if !woken_by_ipi {
                cost += u64::from(self.spec.costs.idle_exit_ns);
            }
        } else {
            let task = &mut self.tasks[prev];
            task.on_cpu = false;
            task.waiting_since = now;
            prev_state = match task.state {
                State::Running => TaskState::Running,
                State::Interruptible => TaskState::Interruptible,
                State::Uninterruptible => TaskState::Uninterruptible,
                State::Dead => TaskState::Dead,
            };
        }
        if next == IDLE {
            self.rqs[cpu].idle_since = now;
            self.set_busy(cpu, false);
        } else {
            let task = &mut self.tasks[next];
            debug_assert_eq!(task.cpu, cpu, "{} picked on a CPU it is not queued on", task.comm);
            task.on_cpu = true;
            if prev == IDLE {
                self.set_busy(cpu, true);
            }
        }
        self.charge(cpu, cost);
        self.switch_footprints(cpu, prev, next);
        if next != IDLE {
            self.write_task(next);
        }
        self.observe(Transition::Switched {
            cpu,
            prev,
            prev_state,
            next,
        });
        ext::sched_switch(self, cpu, prev, next);
    }

    /// Schedules an event for the time at which the current task of `cpu` will have finished its
    /// current work.
    pub(crate) fn arm_step(&mut self, cpu: CpuId) {
        let at = self.step_due(cpu).max(self.now);
        self.events.arm_step(cpu, at);
    }

    /// Returns the time at which the current task will have finished its current work. The CPU
    /// first finishes the kernel work that was charged to it.
    #[inline]
    pub(crate) fn step_due(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu];
        debug_assert_ne!(rq.curr, IDLE);
        rq.clock + rq.debt + rq.progressed + self.tasks[rq.curr].program.time_left(rq.speed)
    }

    /// Continues the program of the running task if the task has finished its current work. If
    /// kernel work has delayed the task, schedules the event again.
    pub(crate) fn step(&mut self, cpu: CpuId) {
        let curr = self.rqs[cpu].curr;
        if curr == IDLE {
            return;
        }
        if self.rqs[cpu].debt > 0 || !self.tasks[curr].program.work_done() {
            self.arm_step(cpu);
            return;
        }
        let next = execute::advance(self, cpu, curr);
        if self.rqs[cpu].curr != curr {
            // The task has moved to another CPU. schedule() has already scheduled the event of the
            // task that now runs here.
            return;
        }
        match next {
            Next::Work => {
                if !self.rqs[cpu].need_resched {
                    self.arm_step(cpu);
                }
            }
            Next::Yield => {
                self.class_yield_task(cpu);
                self.rqs[cpu].need_resched = true;
            }
            Next::Block(state) => {
                self.tasks[curr].state = state;
                self.deactivate_task(cpu, curr, flags::SLEEP);
                self.rqs[cpu].need_resched = true;
            }
        }
    }

    /// Handles the scheduler tick. Idle CPUs have no tick (NO_HZ_IDLE). If another interrupt is
    /// being handled, the tick waits until it ends.
    pub(crate) fn tick(&mut self, cpu: CpuId) {
        let rq = &mut self.rqs[cpu];
        if self.now < rq.irqs_off_until {
            let generation = rq.tick_generation;
            self.events.push(rq.irqs_off_until, Event::Tick { cpu, generation });
            return;
        }
        rq.tick_armed = false;
        if rq.idle() || !rq.online {
            return;
        }
        self.charge(cpu, u64::from(self.spec.costs.tick_ns));
        self.lock(LockId::Rq(cpu));
        self.class_task_tick(cpu);
        ext::tick(self, cpu);
        self.unlock(LockId::Rq(cpu));
        self.record_overhead(cpu);
        fair::trigger_load_balance(self, cpu);
        self.arm_tick(cpu);
    }

    /// Schedules the next tick of `cpu`. Each CPU has a different offset in the tick period, as
    /// with the kernel's parameter skew_tick.
    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        if self.rqs[cpu].tick_armed || self.rqs[cpu].idle() {
            return;
        }
        let period = self.tick_ns();
        let skew = period / 2 * u64::from(cpu) / u64::from(self.nr_cpus());
        let at = (self.now.saturating_sub(skew) / period + 1) * period + skew;
        let rq = &mut self.rqs[cpu];
        rq.tick_armed = true;
        rq.tick_generation = rq.tick_generation.wrapping_add(1);
        let generation = rq.tick_generation;
        self.events.push(at, Event::Tick { cpu, generation });
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
        let mut m = Machine::new(spec(1, 1, 2, 1), Workload::default(), 1).expect("a machine");
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
        // One IPI was sent, and one event waits for the end of the work.
        let resched = Event::Resched { cpu };
        events.retain(|(_, event)| *event == resched);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0], (end, resched));
        m.now = end;
        m.resched_ipi(cpu);
        assert!(m.rqs[cpu].need_resched);
        m.schedule(cpu);
        // The IPI that arrives late finds nothing to do.
        let overhead = m.rqs[cpu].debt;
        m.resched_ipi(cpu);
        m.leave();
        assert!(!m.rqs[cpu].resched_pending());
        assert_eq!(m.rqs[cpu].debt, overhead, "schedule() did not run again");
    }

    /// Wakes a task on an idle CPU by its timer, with or without an IPI before that finds nothing.
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
            records.iter().find(exit).expect("the task exits").time
        };
        assert_eq!(first_run(true), first_run(false));
    }
}
