// SPDX-License-Identifier: GPL-2.0-only
//! Executes commands from outside, one at a time, on a machine without costs (docs/scripts.md). Time
//! stands still while the kernel decides, and passes only in [`Machine::step_until`].
//!
//! The tasks of the workload compute forever. A command makes a task do something else.

mod commands;
pub(crate) mod hrtimer;
mod log;
pub mod rows;

pub use commands::Refused;
pub use log::Happened;

use crate::machine::Machine;
use crate::sched::{ext, fair};
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;
use crate::simulation::prandom::Prandom;
use crate::watch::state::stepped::Stepped;

/// Largest number of interrupts at one instant. Scripts have some hundred.
const MOST_AT_ONCE: u32 = 100_000;

impl Machine {
    /// Prepares the machine for commands. Call this before time passes.
    pub fn begin_stepping(&mut self) {
        self.stepped = Some(Box::new(Stepped {
            events: Vec::new(),
            calls: Vec::new(),
            softirq: None,
            stops_tick: false,
            is_stuck: false,
            unthrottled: Vec::new(),
            stale_clock: false,
            hrtimers: hrtimer::Hrtimers::new(self.nr_cpus()),
            bpf_random: self.cpus().map(|cpu| Prandom::new(cpu.into())).collect(),
        }));
        self.details = true;
        self.events.order_ticks_by_start();
        for rq in self.rqs.iter_mut() {
            rq.idle_since = 0;
        }
        for llc in &mut self.domains.llcs {
            llc.has_idle_cores = false;
        }
        fair::start_group_capacities(self);
        self.records.clear();
    }

    /// Returns whether `cpu` is CPU 0 of a script. It always runs the housekeeping, which is in a higher class
    /// than the tasks of a policy, so it has nothing to dispatch.
    pub(crate) fn is_housekeeping(&self, cpu: CpuId) -> bool {
        self.stepped.is_some() && cpu == CpuId::BOOT
    }

    /// Puts the machine into the state in which a script begins: CPU 0 is busy, because the housekeeping
    /// runs there, and the idle CPUs have stopped their ticks. Call this when the script's policy has been
    /// loaded.
    pub fn settle(&mut self) {
        ext::update_idle(self, CpuId::BOOT, false);
        for rq in self.rqs.iter_mut() {
            rq.tick_armed = false;
            rq.tick_generation = rq.tick_generation.wrapping_add(1);
        }
    }

    /// Returns whether the CPUs interrupt each other without end at one instant. A policy can cause that, for
    /// example if it preempts a task for which it has just preempted another one. Then no time passes any more.
    pub fn is_stuck(&self) -> bool {
        self.stepped.as_ref().is_some_and(|stepped| stepped.is_stuck)
    }

    /// Returns the time of the next tick.
    pub fn next_tick_at(&self) -> u64 {
        (self.now / self.tick_ns() + 1) * self.tick_ns()
    }

    /// Lets time pass until `until`. The CPUs act one after the other: first they handle the
    /// interrupts that other CPUs have sent, in the order in which these were sent, and then the
    /// timers, in the order of the CPUs.
    pub fn step_until(&mut self, until: u64) {
        let mut due: Vec<Event> = Vec::new();
        let mut left = MOST_AT_ONCE;
        while !self.is_stuck() {
            self.execute_calls();
            self.cancel_sleeps();
            // The thread that ends a policy runs before the next interrupt is delivered.
            if ext::end_policies(self) {
                continue;
            }
            let limit = if due.is_empty() { until } else { self.now };
            if let Some((time, event)) = self.events.pop(limit) {
                left = if time > self.now { MOST_AT_ONCE } else { left - 1 };
                self.stepped.as_mut().expect("begin_stepping() was called").is_stuck = left == 0;
                self.now = self.now.max(time);
                match event {
                    Event::Step { cpu } => self.step_again(cpu),
                    event => match self.coarse_expiry(&event) {
                        Some(at) => self.events.push(at, event),
                        None => due.push(event),
                    },
                }
                continue;
            }
            if due.is_empty() {
                break;
            }
            if let Some(first) = due.iter().position(|event| self.timer_cpu(event).is_none()) {
                let event = due.remove(first);
                let is_handled = matches!(event, Event::HrtickStart { cpu } if !self.rqs[cpu].fair.hrtick_ipi);
                if !is_handled {
                    self.handle(event);
                }
                continue;
            }
            let cpu = due.iter().filter_map(|event| self.timer_cpu(event)).min();
            let cpu = cpu.expect("a timer is due");
            // In its first tick, a new CPU sets its timer for those that are due by then.
            let is_tick = |event: &Event| matches!(event, Event::Tick { cpu: other, .. } if *other == cpu);
            let ticks = self.rqs[cpu].coarse_timers && due.iter().any(is_tick);
            let (now, later) = due
                .into_iter()
                .partition(|event| self.timer_cpu(event) == Some(cpu) && (!ticks || is_tick(event)));
            due = later;
            self.handle_timers(now, cpu);
        }
        self.now = until;
    }

    /// Lets the CPUs handle the interrupts that other CPUs have sent, while a process on CPU 0 waits inside
    /// the kernel. No timer expires.
    pub(crate) fn step_interrupts(&mut self) {
        let mut timers = Vec::new();
        let mut left = MOST_AT_ONCE;
        while !self.is_stuck()
            && let Some((time, event)) = self.events.pop(self.now)
        {
            left -= 1;
            self.stepped.as_mut().expect("begin_stepping() was called").is_stuck = left == 0;
            match event {
                Event::Step { cpu } => self.step_again(cpu),
                event if self.timer_cpu(&event).is_some() => timers.push((time, event)),
                event => self.handle(event),
            }
        }
        for (time, event) in timers {
            self.events.push(time, event);
        }
        self.enter(CpuId::BOOT);
    }

    /// Continues the program of a task, which computes.
    fn step_again(&mut self, cpu: CpuId) {
        let at = self.step_due(cpu);
        if at > self.now {
            self.events.arm_step(cpu, at);
        } else {
            self.handle(Event::Step { cpu });
        }
    }

    /// Handles the timers of a CPU in one interrupt.
    fn handle_timers(&mut self, mut timers: Vec<Event>, cpu: CpuId) {
        // The timers of policies expire in a softirq, after all others (HRTIMER_MODE_REL_SOFT).
        timers.sort_by_key(|timer| matches!(timer, Event::BpfTimer { .. }));
        self.begin_timer_irq(cpu, &mut timers);
        let mut entered = false;
        for timer in timers {
            // A timer that was cancelled does not begin an interrupt.
            self.entry.irq_from = self.entry.irq_from.filter(|_| entered);
            if !self.interrupt_in_vain(&timer) {
                self.dispatch(timer);
            }
            entered |= self.entry.irq_from.is_some();
        }
        if entered {
            self.end_timer_irq();
            // A task of a script waits inside the kernel, so the interrupt ends before the task honours a
            // lazy request on its way to user mode. Otherwise schedule() is a part of the interrupt.
            if !self.rqs[cpu].need_resched {
                self.finish_timer_irq(cpu);
            }
            self.leave();
            if self.is_in_timer_irq(cpu) {
                self.finish_timer_irq(cpu);
            }
        }
    }

    /// Does what comes after the timers of an interrupt: the softirq SCHED_SOFTIRQ, and the end of the
    /// tick of a CPU that stays idle.
    fn end_timer_irq(&mut self) {
        let stepped = self.stepped.as_deref_mut().expect("begin_stepping() was called");
        let (softirq, stops_tick) = (stepped.softirq.take(), std::mem::take(&mut stepped.stops_tick));
        let cpu = self.this_cpu;
        if let Some(idle) = softirq {
            fair::balance_softirq(self, cpu, idle);
        }
        if stops_tick && self.rqs[cpu].nr_running == 0 {
            fair::nohz_enter_idle(self, cpu);
        }
    }

    /// Returns when a timer expires that is due now on a new CPU: at the CPU's first tick, which makes timers
    /// exact (hrtimer_switch_to_hres).
    fn coarse_expiry(&self, timer: &Event) -> Option<u64> {
        let cpu = self.timer_cpu(timer).filter(|&cpu| self.rqs[cpu].coarse_timers)?;
        let waits = !matches!(timer, Event::Tick { .. }) && !self.now.is_multiple_of(self.tick_ns());
        waits.then(|| self.next_tick(cpu))
    }

    /// Returns the CPU of a timer, or `None` if the event is an interrupt of another kind.
    fn timer_cpu(&self, event: &Event) -> Option<CpuId> {
        match *event {
            Event::Tick { cpu, .. } | Event::Hrtick { cpu } | Event::DlServer { cpu, .. } => Some(cpu),
            Event::Wake { task, generation } => {
                let stepped = self.stepped.as_deref().expect("begin_stepping() was called");
                let cpu = stepped.hrtimers.sleep_cpu(task, generation);
                Some(cpu.unwrap_or_else(|| self.wake_cpu(task)))
            }
            Event::CfsPeriod { group, .. } | Event::CfsSlack { group, .. } => {
                Some(self.task_groups.groups[group as usize].bandwidth.cpu)
            }
            Event::BpfTimer { timer, generation } => self.bpf_timer_cpu(timer, generation),
            Event::Watchdog => Some(CpuId::BOOT),
            _ => None,
        }
    }
}
