// SPDX-License-Identifier: GPL-2.0-only
//! The timers that are armed on each CPU. The idle governor uses the time until the next one.
//!
//! A cancelled timer remains in the heap until it is the earliest timer. A machine without a
//! governor keeps no timers.

use crate::hardware::cpuidle::state::Timer;
use crate::machine::Machine;
use crate::simulation::event::Event;
use crate::simulation::id::CpuId;

impl Machine {
    /// Records that `cpu` has armed a timer that expires at the time `at`, ns.
    pub(crate) fn note_timer(&mut self, cpu: CpuId, at: u64, event: Event) {
        if !self.cpuidle.governed {
            return;
        }
        let now = self.now;
        let timers = &mut self.cpuidle.cpus[cpu].timers;
        // A busy CPU does not look for its next timer, so expired timers are removed here.
        while timers.peek().is_some_and(|first| first.at < now) {
            timers.pop();
        }
        timers.push(Timer { at, event });
    }

    /// Returns the time at which the next timer of `cpu` expires, ns.
    pub(super) fn next_timer(&mut self, cpu: CpuId) -> Option<u64> {
        loop {
            let &Timer { at, event } = self.cpuidle.cpus[cpu].timers.peek()?;
            if at >= self.now && self.is_armed(event) {
                return Some(at);
            }
            self.cpuidle.cpus[cpu].timers.pop();
        }
    }

    /// Returns whether a timer was not cancelled.
    fn is_armed(&self, event: Event) -> bool {
        match event {
            Event::Wake { task, generation } => self.tasks[task].wake_generation == generation,
            Event::BpfTimer { timer, generation } => self.bpf_timer_cpu(timer, generation).is_some(),
            _ => true,
        }
    }

    /// Returns the CPU of a BPF timer, or `None` if the timer was cancelled or started again.
    pub(crate) fn bpf_timer_cpu(&self, timer: u32, generation: u32) -> Option<CpuId> {
        let timers = &self.ext.policy.as_ref()?.timers;
        let timer = timers.slots.get(timer as usize)?;
        (timer.pending == Some(generation)).then_some(timer.cpu)
    }
}
