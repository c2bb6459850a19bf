// SPDX-License-Identifier: GPL-2.0-only
//! schedule() and its triggers: rescheduling requests, IPIs and ticks (kernel/sched/core.c).

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
    /// Requests that `cpu` runs schedule(): at the end of the current handler on this CPU, through
    /// an IPI on another CPU.
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

    /// Handles a reschedule IPI and all IPIs that were deferred until now. If the CPU is busy with
    /// kernel work, they are deferred until its end.
    pub(crate) fn resched_ipi(&mut self, cpu: CpuId) {
        let mut ipis = self.rqs[cpu].take_deferred_ipis(self.now);
        loop {
            self.enter(cpu);
            let rq = &mut self.rqs[cpu];
            if rq.spinning {
                // The flag is checked again when the spinning ends.
                rq.need_resched = false;
                rq.resched_deferred = true;
                return;
            }
            if rq.debt > 0 && rq.online {
                // Otherwise `leave` would reschedule immediately.
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

    /// Defers `ipis` reschedule IPIs until `cpu` has worked off its debt. All IPIs that are
    /// deferred to the same time share one event.
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

    /// Picks the next task of `cpu` and switches to it. A previous task that goes to sleep has been
    /// deactivated already.
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

    /// Returns the next task of the highest class that has one (pick_next_task).
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

    /// Switches from `prev` to `next` and charges the cost (context_switch).
    fn context_switch(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) {
        let now = self.now;
        let rq = &mut self.rqs[cpu];
        rq.curr = next;
        rq.nr_switches += 1;
        let mut cost = u64::from(self.spec.costs.context_switch_ns);
        let mut prev_state = TaskState::Running;
        let woken_by_ipi = std::mem::take(&mut rq.leaving_idle);
        if prev == IDLE {
            // A local interrupt woke the CPU. The cost of leaving idle has not been charged yet.
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

    /// Schedules the event at which the current task of `cpu` will have finished its current work.
    pub(crate) fn arm_step(&mut self, cpu: CpuId) {
        let at = self.step_due(cpu).max(self.now);
        self.events.arm_step(cpu, at);
    }

    /// Returns when the current task will have finished its current work. The CPU works off its
    /// debt first.
    #[inline]
    pub(crate) fn step_due(&self, cpu: CpuId) -> u64 {
        let rq = &self.rqs[cpu];
        debug_assert_ne!(rq.curr, IDLE);
        rq.clock + rq.debt + rq.progressed + self.tasks[rq.curr].program.time_left(rq.speed)
    }

    /// Continues the program of the running task if its current work is finished. If overhead has
    /// delayed the task, the event is scheduled again.
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
            // The task has moved to another CPU. schedule() has set up the event of the task that
            // runs here now.
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

    /// Handles the scheduler tick. An idle CPU has no tick (NO_HZ_IDLE). A tick during another
    /// interrupt is delayed to its end.
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

    /// Schedules the next tick of `cpu`. Ticks occur at multiples of the period plus an offset for
    /// each CPU, as with the kernel's skew_tick.
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

    /// Returns the class of the task that `cpu` runs, [`Class::Idle`] if the CPU idles.
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
        // No IPI is lost. An IPI at a later time counts as one.
        assert_eq!(m.rqs[0].take_deferred_ipis(end), 100);
        assert_eq!(m.rqs[0].take_deferred_ipis(end + 1), 1);
    }
}
