// SPDX-License-Identifier: GPL-2.0-only
//! Prefetching for the host: what the next events are likely to touch.

use crate::machine::Machine;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};

impl Machine {
    /// Asks the host's caches for what the events to come are likely to touch: with many tasks, waiting for that is a good part
    /// of an event's cost. No effect on the simulation.
    #[inline]
    pub(crate) fn prefetch(&self, event: &Event) {
        if let Event::Step { .. } = event {
            if let Some(cpu) = self.events.likely_step() {
                self.prefetch_rq(cpu);
                let curr = self.rqs[cpu].curr;
                if curr != IDLE {
                    self.prefetch_task(curr);
                }
            }
            return;
        }
        let [next, then] = self.events.likely();
        if let Some(Event::Wake { task, .. }) = then {
            self.prefetch_task(task);
        }
        // Asked for as the one before it came.
        if let Some(Event::Wake { task, .. }) = next {
            self.prefetch_rq(self.tasks[task].cpu);
        }
    }

    #[inline]
    fn prefetch_rq(&self, cpu: CpuId) {
        let rq = (&raw const self.rqs[cpu]).cast::<u8>();
        for line in [0, 64, 128, 192] {
            prefetch(rq.wrapping_add(line));
        }
    }

    /// The same of what a wake-up of `task` and a switch to it touch.
    #[inline]
    pub(crate) fn prefetch_task(&self, task: TaskId) {
        let task_struct = self.layout.task_host(task).cast::<u8>();
        let addr = self.layout.task_addr(task);
        let task = (&raw const self.tasks[task]).cast::<u8>();
        for line in [0, 64] {
            prefetch(task.wrapping_add(line));
        }
        for line in [0, 64, 128, 192] {
            prefetch(task_struct.wrapping_add(line));
        }
        prefetch(self.region.lines().host_address(addr));
    }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
