// SPDX-License-Identifier: GPL-2.0-only
//! The function schedule() and the events that lead to it: reschedule requests, IPIs and ticks
//! (kernel/sched/core.c).

use crate::machine::Machine;
use crate::programs::cursor::Next;
use crate::programs::execute;
use crate::sched::class::{Class, flags};
use crate::sched::task::State;
use crate::sched::{ext, fair, idle, rt};
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
        if rq.need_resched {
            return;
        }
        rq.need_resched = true;
        if cpu != self.this_cpu {
            self.send_ipi(cpu);
        }
    }

    /// Handles a reschedule IPI, together with all IPIs that were deferred until now. If the CPU is
    /// still busy with kernel work, the IPIs are deferred until that work ends.
    pub(crate) fn resched_ipi(&mut self, cpu: CpuId) {
        let mut ipis = self.rqs[cpu].take_deferred_ipis(self.now);
        loop {
            self.enter(cpu);
            let rq = &mut self.rqs[cpu];
            if rq.spinning {
                // The CPU spins in the kernel. When it stops spinning, it checks
                // `resched_deferred`.
                rq.need_resched = false;
                rq.resched_deferred = true;
                return;
            }
            if rq.debt > 0 && rq.online {
                // Clears the request, because `leave` would otherwise reschedule immediately.
                rq.need_resched = false;
                self.defer_resched(cpu, ipis);
                return;
            }
            if rq.resched_deferred {
                rq.resched_deferred = false;
                rq.need_resched = true;
            }
            ipis -= 1;
            if ipis == 0 || !rq.need_resched {
                return;
            }
            self.leave();
        }
    }

    /// Defers the handling of `ipis` reschedule IPIs until `cpu` has finished its kernel work. All
    /// IPIs that are deferred until the same time share one event.
    pub(crate) fn defer_resched(&mut self, cpu: CpuId, ipis: u32) {
        let at = self.local_time(cpu);
        let rq = &mut self.rqs[cpu];
        rq.resched_deferred = true;
        match rq.deferred_ipis.iter_mut().find(|(time, _)| *time == at) {
            Some((_, waiting)) => *waiting += ipis,
            None => {
                rq.deferred_ipis.push((at, ipis));
                self.events.push(at, Event::Resched { cpu });
            }
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
        if next == prev {
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
        let next = rt::pick_task(self, cpu)
            .or_else(|| ext::pick_task(self, cpu, prev))
            .or_else(|| fair::pick_task(self, cpu, prev))
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
        } else {
            let task = &mut self.tasks[next];
            debug_assert_eq!(task.cpu, cpu, "{} picked on a CPU it is not queued on", task.comm);
            task.on_cpu = true;
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
        rq.clock + rq.debt + self.tasks[rq.curr].program.time_left(rq.capacity)
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
    use crate::testbed::{cpu_id, spec};
    use workload::Workload;

    #[test]
    fn ipis_deferred_to_the_same_time_share_one_event() {
        let mut m = Machine::new(spec(1, 1, 2, 1), Workload::default(), 1).expect("a machine");
        m.charge(cpu_id(0), 1000);
        let end = m.local_time(cpu_id(0));
        for _ in 0..100 {
            m.resched_ipi(cpu_id(0));
        }
        let mut events = Vec::new();
        while let Some(next) = m.events.pop(u64::MAX) {
            events.push(next);
        }
        events.retain(|(_, event)| *event == Event::Resched { cpu: cpu_id(0) });
        assert_eq!(events, [(end, Event::Resched { cpu: cpu_id(0) })]);
        // All 100 IPIs are counted. An IPI that arrives at another time counts as one.
        assert_eq!(m.rqs[0].take_deferred_ipis(end), 100);
        assert_eq!(m.rqs[0].take_deferred_ipis(end + 1), 1);
    }
}
