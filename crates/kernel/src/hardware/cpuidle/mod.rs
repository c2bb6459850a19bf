// SPDX-License-Identifier: GPL-2.0-only
//! Idle states of CPUs (kernel/sched/idle.c, drivers/cpuidle).
//!
//! ```text
//!           switch to the idle task                interrupt
//!                      |                               |
//! CPU  |== schedule() ==|======= idle state ===========|= exit =|= handler ==|
//! ```
//!
//! A CPU enters a state when the work of the switch to the idle task is done. An interrupt ends the
//! state, and its handler runs when the exit latency has passed. If the CPU is still idle after the
//! handler, a state is chosen again. The time in a state and its exit latency are idle time.
//!
//! Some kernel code runs on a CPU without an interrupt of this CPU, for example to create a task of
//! the workload. The exit latency is then charged with the CPU's next switch.
//!
//! Not modelled:
//!
//! - an interrupt that arrives while the CPU enters a state
//! - states that several threads or cores enter together
//! - the time limit of the state POLL (the governor chooses it only if a timer expires within
//!   microseconds)
//! - the influence of polling on the other threads of a core
//! - interrupts of the timer wheel

pub mod state;

use crate::hardware::cpuidle::state::menu::{Choice, Menu, Next};
use crate::hardware::cpuidle::state::{IdleTime, Phase};
use crate::machine::Machine;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE};
use machine::IdleState;

mod timers;

impl Machine {
    /// Returns the time at which the CPU can handle an event, if the event is an interrupt and the
    /// CPU must leave an idle state first. Returns `None` if the event can be handled now.
    #[inline]
    pub(crate) fn wakes_for(&mut self, event: &Event) -> Option<u64> {
        let cpu = match *event {
            Event::Resched { cpu }
            | Event::Wakeups { cpu }
            | Event::CfsUnthrottle { cpu }
            | Event::NohzBalance { cpu }
            | Event::RtPush { cpu }
            | Event::TickKick { cpu }
            | Event::Native { cpu }
            | Event::ExtDeferred { cpu }
            | Event::ExtRescue { cpu } => cpu,
            Event::Tick { cpu, generation }
                if self.rqs[cpu].tick_generation == generation && self.cpuidle.cpus[cpu].tick =>
            {
                cpu
            }
            Event::Wake { task, generation } if self.tasks[task].wake_generation == generation => self.wake_cpu(task),
            Event::RemoteTick { cpu } => self.timer_target(cpu),
            Event::BpfTimer { timer, generation } => self.bpf_timer_cpu(timer, generation)?,
            Event::Disturb { index } => self.interrupted_cpu(index)?,
            Event::Noise { source } => self.noise_cpu(source),
            _ => return None,
        };
        let rq = &self.rqs[cpu];
        if rq.curr != IDLE || !rq.online {
            return None;
        }
        self.interrupt_idle(cpu, matches!(event, Event::Tick { .. }))
    }

    /// Ends the idle state of `cpu` because of an interrupt. Returns the time at which the CPU can
    /// handle the interrupt, or `None` if it can do so now.
    fn interrupt_idle(&mut self, cpu: CpuId, tick: bool) -> Option<u64> {
        let now = self.now;
        let idle = &mut self.cpuidle.cpus[cpu];
        match idle.phase {
            Phase::Awake => None,
            Phase::Leaving(at) if now < at => Some(at),
            Phase::Leaving(_) => {
                idle.phase = Phase::Awake;
                None
            }
            Phase::Asleep => {
                let exit = self.end_idle_state(cpu, tick);
                let idle = &mut self.cpuidle.cpus[cpu];
                if exit == 0 {
                    idle.phase = Phase::Awake;
                    return None;
                }
                idle.phase = Phase::Leaving(now + exit);
                Some(now + exit)
            }
        }
    }

    /// Records the time that `cpu` was in its idle state and returns the exit latency, ns. Both are
    /// 0 if the CPU has not entered the state yet.
    fn end_idle_state(&mut self, cpu: CpuId, tick: bool) -> u64 {
        let idle = &mut self.cpuidle.cpus[cpu];
        let Some(ns) = self.now.checked_sub(idle.since) else {
            idle.menu.rejected();
            return 0;
        };
        idle.time[idle.state] += ns;
        let exit = u64::from(self.cpuidle.states[idle.state].exit_ns);
        if self.cpuidle.governed {
            idle.menu.reflect(ns + exit, exit, tick, self.tick_ns);
        }
        exit
    }

    /// Chooses an idle state for `cpu` and enters it, unless the CPU is already in one
    /// (cpuidle_idle_call).
    #[inline]
    pub(crate) fn enter_idle(&mut self, cpu: CpuId) {
        if self.cpuidle.cpus[cpu].phase == Phase::Awake {
            self.choose_idle_state(cpu);
        }
    }

    fn choose_idle_state(&mut self, cpu: CpuId) {
        let since = self.local_time(cpu);
        if self.cpuidle.governed {
            let next = self.next_events(cpu, since);
            let idle = &mut self.cpuidle.cpus[cpu];
            let choice = idle.menu.select(&self.cpuidle.states, &next);
            let Choice { state, stop_tick } = choice;
            idle.state = state;
            idle.tick = !stop_tick && !next.tick_stopped;
            idle.tick_stopped = !idle.tick;
        }
        let idle = &mut self.cpuidle.cpus[cpu];
        idle.phase = Phase::Asleep;
        idle.since = since;
    }

    /// Returns the next events that will wake `cpu`, as the governor knows them at the time `at`
    /// (tick_nohz_get_sleep_length).
    fn next_events(&mut self, cpu: CpuId, at: u64) -> Next {
        let timer = self.next_timer(cpu).map(|timer| timer.saturating_sub(at));
        let tick_armed = self.rqs[cpu].tick_armed;
        let tick = self.next_tick(cpu).saturating_sub(at);
        Next {
            timer,
            tick: timer.map_or(tick, |timer| timer.min(tick)),
            tick_ns: self.tick_ns,
            tick_stopped: self.cpuidle.cpus[cpu].tick_stopped || !tick_armed,
            latency_limit: self.cpuidle.cpus[cpu].latency_limit,
        }
    }

    /// Handles the switch from the idle task of `cpu` to another task. Returns the exit latency
    /// that is still to be charged to the CPU, ns. If an interrupt of this CPU ended the
    /// idle state, the latency has already passed, and the result is 0.
    pub(crate) fn leave_idle(&mut self, cpu: CpuId) -> u64 {
        let now = self.now;
        let exit = match self.cpuidle.cpus[cpu].phase {
            Phase::Awake => 0,
            Phase::Asleep => self.end_idle_state(cpu, false),
            Phase::Leaving(at) => at.saturating_sub(now),
        };
        let idle = &mut self.cpuidle.cpus[cpu];
        idle.phase = Phase::Awake;
        idle.tick = false;
        idle.tick_stopped = false;
        exit
    }

    /// Handles a CPU that goes offline or comes online.
    pub(crate) fn reset_idle(&mut self, cpu: CpuId) {
        if self.cpuidle.cpus[cpu].phase == Phase::Asleep {
            self.end_idle_state(cpu, false);
        }
        let idle = &mut self.cpuidle.cpus[cpu];
        idle.phase = Phase::Awake;
        idle.tick = false;
        idle.tick_stopped = true;
        idle.menu = Menu::default();
    }

    /// Returns whether the tick of an idle CPU is still enabled.
    #[inline]
    pub(crate) fn idle_tick(&self, cpu: CpuId) -> bool {
        self.cpuidle.cpus[cpu].tick
    }

    /// Returns whether `cpu` is idle in a state in which a write to its flags wakes it
    /// (TIF_POLLING_NRFLAG).
    pub(crate) fn polls(&self, cpu: CpuId) -> bool {
        let idle = &self.cpuidle.cpus[cpu];
        self.rqs[cpu].curr == IDLE
            && idle.phase == Phase::Asleep
            && self.cpuidle.states[idle.state].polling
            && idle.since <= self.local_time(self.this_cpu)
    }

    /// Returns the longest permitted exit latency of a CPU's states, ns, or `None` without a limit.
    pub(crate) fn latency_limit(&self, cpu: CpuId) -> Option<u64> {
        Some(self.cpuidle.cpus[cpu].latency_limit).filter(|&limit| limit != u64::MAX)
    }

    /// Limits the exit latency of a CPU's states, from the next choice of the governor on.
    pub(crate) fn limit_latency(&mut self, cpu: CpuId, ns: Option<u64>) {
        self.cpuidle.cpus[cpu].latency_limit = ns.unwrap_or(u64::MAX);
    }

    /// Ends the accounting of idle states at the end of the run.
    pub(crate) fn finish_idle(&mut self) {
        for cpu in self.cpus() {
            let now = self.now;
            let idle = &mut self.cpuidle.cpus[cpu];
            if idle.phase == Phase::Asleep && self.rqs[cpu].online && now > idle.since {
                idle.time[idle.state] += now - idle.since;
                idle.since = now;
            }
        }
    }

    /// Returns the time that the CPUs have spent in each idle state, until the last change of state
    /// or the end of the run.
    pub fn idle_times(&self) -> Vec<IdleTime> {
        let states = self.cpuidle.states.iter().enumerate();
        let time = |(at, state): (usize, &IdleState)| IdleTime {
            name: state.name.clone(),
            ns: self.cpuidle.cpus.iter().map(|idle| idle.time[at]).sum(),
        };
        states.map(time).collect()
    }

    /// Returns the CPU that a disturbance of the workload interrupts. A disturbance is an event
    /// that the workload imposes on the machine. Returns `None` if it is no interrupt.
    fn interrupted_cpu(&self, index: u32) -> Option<CpuId> {
        match self.workload.disturbances[index as usize].action {
            workload::Action::Irq { cpu, .. } => Some(self.named_cpu(cpu)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
