// SPDX-License-Identifier: GPL-2.0-only
//! Prefetching of host memory that the next events probably need.

use crate::machine::Machine;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};

impl Machine {
    /// Prefetches the host memory that the next events probably touch. The simulation's result does
    /// not change.
    ///
    /// With many tasks, cache misses of the host are a large part of the cost of an event.
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
        // The task itself was prefetched when this event was the second in the queue.
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

    /// Prefetches the host memory that a wake-up of `task` and a switch to it touch.
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
    // SAFETY: a prefetch is only a hint and never faults, so any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
