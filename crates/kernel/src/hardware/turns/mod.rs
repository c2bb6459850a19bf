// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that run in turn, because one thread of the host executes all of them (the key `turns`), as
//! in QEMU with `thread=single` and `-icount`.
//!
//! ```text
//! CPU 0  |== runs ==|                     |== runs ==|
//! CPU 1             |== runs ==|                     |== runs ==|
//! CPU 2                        |== runs ==|  halts
//! ```
//!
//! - All CPUs read the same clock, which the instructions of each of them advance. A CPU whose turn
//!   it is not does nothing: its task makes no progress, and it handles an interrupt when its turn
//!   begins. For the kernel, its task runs all the time, so the task is charged.
//! - A CPU that halts passes its turn on. A halted CPU gets a turn when an interrupt arrives.
//! - The CPUs run in the order of their numbers. A pass over them begins with the lowest number. As
//!   in QEMU (icount_percpu_budget, accel/tcg/tcg-accel-ops-icount.c), a turn is as long as the
//!   time until QEMU's next timer, divided by the number of CPUs, both at the beginning of the
//!   pass. This timer fires at the multiples of the longest turn times the number of CPUs. Timers
//!   of the guest, which shorten turns, too, are left out.
//! - An event handler runs at one instant here, so a turn does not end before the kernel work that
//!   its last handler has begun. System calls are time of the task, and can be interrupted.

pub mod state;

use crate::machine::Machine;
use crate::sched::overlap::state::Needs;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE};

/// Shortest turn, ns. Just before its next timer, QEMU has turns of a few instructions.
const SHORTEST_NS: u64 = 1000;

impl Machine {
    /// Returns whether it is not the turn of `cpu`.
    #[inline]
    pub(crate) fn is_suspended(&self, cpu: CpuId) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.holder != Some(cpu))
    }

    /// Returns whether the handler of an event may begin. If it may not, the event waits for the
    /// turn of its CPU.
    pub(crate) fn take_turn(&mut self, event: Event) -> bool {
        let needs = self.needs(&event);
        let Some(turns) = &mut self.turns else {
            return true;
        };
        if let Event::Turn { generation } = event {
            if generation == turns.generation {
                turns.ends = None;
                self.end_turn();
            }
            return false;
        }
        let Needs::Cpu(cpu) = needs else {
            return true;
        };
        match turns.holder {
            Some(holder) if holder == cpu => return true,
            Some(_) => {}
            None => {
                self.begin_turn(cpu);
                return true;
            }
        }
        if let Event::Step { .. } = event {
            // It is armed again when the turn of the CPU begins.
            self.events.disarm_step(cpu);
            return false;
        }
        turns.waiting[cpu].push_back(event);
        turns.nr_waiting += 1;
        self.limit_turn();
        false
    }

    /// Takes the next event that has waited for the present turn.
    pub(crate) fn next_of_turn(&mut self) -> Option<(u64, Event)> {
        let now = self.now;
        let turns = self.turns.as_mut()?;
        let event = turns.ready.pop_front()?;
        turns.nr_waiting -= 1;
        Some((now, event))
    }

    /// Returns whether events wait for turns.
    pub(crate) fn any_waits_for_turn(&self) -> bool {
        self.turns.as_ref().is_some_and(|turns| turns.nr_waiting > 0)
    }

    /// Passes the turn on if the CPU has halted, as soon as its kernel work is done, and limits the
    /// turn if a different CPU is not halted any more. Called after each event.
    pub(crate) fn after_event_in_turn(&mut self) {
        let Some(holder) = self.turns.as_ref().and_then(|turns| turns.holder) else {
            // The event belonged to no CPU, for example the start of a task.
            if let Some(next) = self.cpus().find(|&cpu| self.wants_turn(cpu)) {
                self.begin_turn(next);
            }
            return;
        };
        if self.rqs[holder].idle() {
            self.end_turn_at(self.local_time(holder));
        } else if self.other_wants_turn(holder) {
            self.limit_turn();
        }
    }

    /// Makes sure that the turn of the present CPU ends, because a different CPU waits.
    fn limit_turn(&mut self) {
        let now = self.now;
        let Some(turns) = &self.turns else { return };
        if turns.ends.is_none() {
            // Without another CPU, one turn followed the other.
            let nr = (now - turns.began).div_ceil(turns.budget).max(1);
            self.end_turn_at(turns.began + nr * turns.budget);
        }
    }

    /// Ends the present turn at the time `at`, unless it ends before that.
    fn end_turn_at(&mut self, at: u64) {
        let Some(turns) = &mut self.turns else { return };
        if turns.ends.is_none_or(|ends| at < ends) {
            turns.ends = Some(at);
            turns.generation = turns.generation.wrapping_add(1);
            let generation = turns.generation;
            self.events.push(at, Event::Turn { generation });
        }
    }

    /// Gives the turn to the next CPU that is not halted.
    fn end_turn(&mut self) {
        let Some(holder) = self.turns.as_ref().and_then(|turns| turns.holder) else {
            return;
        };
        let busy_until = self.local_time(holder);
        if busy_until > self.now {
            return self.end_turn_at(busy_until);
        }
        let after = self.cpus().filter(|&cpu| cpu > holder);
        let next = after.chain(self.cpus()).find(|&cpu| self.wants_turn(cpu));
        if next != Some(holder) {
            self.stop_task(holder);
        }
        match next {
            Some(next) => self.begin_turn(next),
            None => {
                if let Some(turns) = &mut self.turns {
                    turns.holder = None;
                }
            }
        }
    }

    fn wants_turn(&self, cpu: CpuId) -> bool {
        let waits = self.turns.as_ref().is_some_and(|turns| !turns.waiting[cpu].is_empty());
        waits || self.rqs[cpu].curr != IDLE
    }

    fn other_wants_turn(&self, holder: CpuId) -> bool {
        self.cpus().any(|cpu| cpu != holder && self.wants_turn(cpu))
    }

    /// Stops the task of a CPU whose turn has ended.
    fn stop_task(&mut self, cpu: CpuId) {
        self.progress(cpu);
        self.rqs[cpu].speed = 0;
        self.events.disarm_step(cpu);
    }

    fn begin_turn(&mut self, cpu: CpuId) {
        let now = self.now;
        let pass_ns = self.turns.as_ref().map_or(0, |turns| turns.longest) * u64::from(self.nr_cpus());
        let Some(turns) = &mut self.turns else { return };
        let last = turns.holder.replace(cpu);
        turns.began = now;
        if last.is_none_or(|last| last >= cpu) {
            let left = pass_ns - now % pass_ns;
            turns.budget = (left * turns.longest / pass_ns).max(SHORTEST_NS);
        }
        let mut waited = std::mem::take(&mut turns.waiting[cpu]);
        turns.ready.append(&mut waited);
        turns.waiting[cpu] = waited;
        if last != Some(cpu) {
            self.resume_task(cpu);
        }
        if self.other_wants_turn(cpu) {
            self.limit_turn();
        }
    }

    /// Lets the task of a CPU continue whose turn begins.
    fn resume_task(&mut self, cpu: CpuId) {
        // The time since the last turn counts as time of the task, but not as progress.
        self.progress(cpu);
        self.rqs[cpu].speed = self.current_speed(cpu);
        if !self.rqs[cpu].idle() && !self.rqs[cpu].spinning && self.rqs[cpu].online {
            self.arm_step(cpu);
        }
    }
}

#[cfg(test)]
mod tests;
