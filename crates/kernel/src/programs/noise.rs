// SPDX-License-Identifier: GPL-2.0-only
//! Background work of the kernel (noise): kernel threads, which are tasks with simple programs, and
//! interrupts. `machine::noise` has their rates and durations.
//!
//! Each task and each interrupt source has a random generator of its own, whose seed depends only
//! on the seed of the run. Runs of two policies with the same seed therefore have the same
//! background work at the same times.

use crate::machine::Machine;
use crate::simulation::chance::draw;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

impl Machine {
    /// Schedules the first interrupt of each source.
    pub(crate) fn start_noise(&mut self) {
        for source in 0..self.noise.interrupts.len() {
            self.next_noise_interrupt(source as u32);
        }
    }

    /// Schedules the next interrupt of a source.
    fn next_noise_interrupt(&mut self, source: u32) {
        let interrupts = &mut self.noise.interrupts[source as usize];
        let interval = draw(&interrupts.interval, &mut interrupts.rng, &mut 0);
        self.events.push(self.now + interval, Event::Noise { source });
    }

    /// Returns the CPU at which the interrupts of a source arrive.
    pub(crate) fn noise_cpu(&self, source: u32) -> CpuId {
        self.named_cpu(self.noise.interrupts[source as usize].cpu)
    }

    /// Performs an interrupt of the background work.
    pub(crate) fn noise_interrupt(&mut self, source: u32) {
        self.next_noise_interrupt(source);
        let interrupts = &mut self.noise.interrupts[source as usize];
        let ns = draw(&interrupts.length, &mut interrupts.rng, &mut 0);
        self.interrupt(self.noise_cpu(source), ns);
    }
}
