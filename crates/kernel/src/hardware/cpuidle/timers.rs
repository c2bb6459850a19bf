// SPDX-License-Identifier: GPL-2.0-only
//! The timers that are armed on each CPU. The idle governor uses the time until the next one.
//!
//! A cancelled timer remains in the heap until it is the earliest timer. A machine without a
//! governor keeps no timers.

use crate::hardware::cpuidle::state::Timer;
use crate::machine::Machine;
use crate::sched::ext::state::scheds::SchedId;
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
        let owner = self.bpf_timer_owner(timer, generation)?;
        let timers = &self.ext.policy_of(owner)?.timers;
        Some(timers.slots.get(timer as usize)?.cpu)
    }

    /// Returns the policy that started a BPF timer, or `None` if the timer was cancelled or started
    /// again.
    pub(crate) fn bpf_timer_owner(&self, timer: u32, generation: u32) -> Option<SchedId> {
        let is_pending = |&id: &SchedId| {
            let policy = self.ext.policy_of(id);
            let slot = policy.and_then(|policy| policy.timers.slots.get(timer as usize));
            slot.is_some_and(|slot| slot.pending == Some(generation))
        };
        let subs = self.ext.live_subs();
        std::iter::once(SchedId::ROOT).chain(subs).find(is_pending)
    }
}
