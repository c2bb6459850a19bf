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
//! - `state::rotation` says which CPU is next and how long its turn is. QEMU's timer fires at the
//!   multiples of the longest turn times the number of CPUs. A timer of the guest ends a turn, but
//!   the turns before that are not shortened, as they are in QEMU.
//! - An event handler runs at one instant here, so a turn does not end before the kernel work that
//!   its last handler has begun. System calls are time of the task, and can be interrupted.

pub mod state;

use crate::machine::Machine;
use crate::sched::overlap::state::Needs;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::table::Table;
use std::collections::VecDeque;

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
                self.end_turn();
            }
            return false;
        }
        let delayed = std::mem::take(&mut turns.delayed);
        let Needs::Cpu(cpu) = needs else {
            return true;
        };
        let ends_turn = is_timer(&event) && !delayed;
        let holder = turns.holder;
        match holder {
            // The interrupt of a timer waits for the next turn of the CPU.
            Some(holder) if holder == cpu && !(ends_turn && self.other_wants_turn(holder)) => return true,
            Some(_) => {}
            None => {
                self.begin_turn_alone(cpu);
                return true;
            }
        }
        if let Event::Step { .. } = event {
            // It is armed again when the turn of the CPU begins.
            self.events.disarm_step(cpu);
            return false;
        }
        let Some(turns) = &mut self.turns else { return true };
        turns.waiting[cpu].push_back(event);
        turns.nr_waiting += 1;
        if ends_turn {
            self.fire_timer();
        } else {
            self.limit_turn();
        }
        false
    }

    /// Ends the turn, because a timer of a CPU has expired.
    fn fire_timer(&mut self) {
        let Some(mut turns) = self.turns.take() else { return };
        turns
            .rotation
            .fire(|index| self.is_awake(self.cpu_at(index), &turns.waiting));
        self.turns = Some(turns);
        self.end_turn();
    }

    /// Takes the next event that has waited for the present turn.
    pub(crate) fn next_of_turn(&mut self) -> Option<(u64, Event)> {
        let now = self.now;
        let turns = self.turns.as_mut()?;
        let event = turns.ready.pop_front()?;
        turns.nr_waiting -= 1;
        turns.delayed = true;
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
                self.begin_turn_alone(next);
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
        let Some(turns) = &mut self.turns else { return };
        let Some(holder) = turns.holder else { return };
        if turns.ends.is_none() {
            // Without another CPU, one turn followed the other.
            let length = turns.rotation.begin_at(holder.index(), now);
            self.end_turn_at(now + length);
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
        let Some(mut turns) = self.turns.take() else { return };
        turns.ends = None;
        turns.generation = turns.generation.wrapping_add(1);
        if busy_until > self.now {
            self.turns = Some(turns);
            return self.end_turn_at(busy_until);
        }
        let next = turns
            .rotation
            .next(self.now, |index| self.is_awake(self.cpu_at(index), &turns.waiting));
        self.turns = Some(turns);
        let next = next.map(|(index, length)| (self.cpu_at(index), length));
        if next.map(|(cpu, _)| cpu) != Some(holder) {
            self.stop_task(holder);
        }
        match next {
            Some((cpu, length)) => {
                self.begin_turn(cpu);
                if self.other_wants_turn(cpu) {
                    self.end_turn_at(self.now + length);
                }
            }
            None => {
                if let Some(turns) = &mut self.turns {
                    turns.holder = None;
                }
            }
        }
    }

    fn cpu_at(&self, index: usize) -> CpuId {
        self.cpus().nth(index).expect("the machine has this CPU")
    }

    fn wants_turn(&self, cpu: CpuId) -> bool {
        let turns = self.turns.as_ref();
        turns.is_some_and(|turns| self.is_awake(cpu, &turns.waiting))
    }

    /// Returns whether the CPU is not halted, or an event waits for its turn.
    fn is_awake(&self, cpu: CpuId, waiting: &Table<CpuId, VecDeque<Event>>) -> bool {
        !waiting[cpu].is_empty() || self.rqs[cpu].curr != IDLE
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

    /// Begins the turn of a CPU after all CPUs were halted.
    fn begin_turn_alone(&mut self, cpu: CpuId) {
        self.begin_turn(cpu);
        if self.other_wants_turn(cpu) {
            self.limit_turn();
        }
    }

    fn begin_turn(&mut self, cpu: CpuId) {
        let Some(turns) = &mut self.turns else { return };
        let last = turns.holder.replace(cpu);
        let mut waited = std::mem::take(&mut turns.waiting[cpu]);
        turns.ready.append(&mut waited);
        turns.waiting[cpu] = waited;
        if last != Some(cpu) {
            self.resume_task(cpu);
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

/// Returns whether a timer of the guest causes the event.
fn is_timer(event: &Event) -> bool {
    matches!(
        event,
        Event::Tick { .. }
            | Event::Hrtick { .. }
            | Event::Wake { .. }
            | Event::BpfTimer { .. }
            | Event::DlServer { .. }
            | Event::ExtRescue { .. }
            | Event::Noise { .. }
    )
}

#[cfg(test)]
mod tests;
