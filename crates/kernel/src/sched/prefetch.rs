// SPDX-License-Identifier: GPL-2.0-only
//! Prefetches memory of the host that the next events will probably access.

use crate::machine::Machine;
use crate::sched::state::task::Task;
use crate::simulation::event::Event;
use crate::simulation::id::{CpuId, IDLE, TaskId};

impl Machine {
    /// Runs before `event` is handled, and prefetches for the events after it. This does not affect
    /// the result of the simulation.
    ///
    /// In simulations with many tasks, cache misses of the host are a large part of the time that
    /// an event takes.
    #[inline(always)]
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
        // The task itself was already prefetched one event earlier.
        if let Some(Event::Wake { task, .. }) = next {
            self.prefetch_rq(self.tasks[task].cpu());
        }
    }

    #[inline]
    fn prefetch_rq(&self, cpu: CpuId) {
        let rq = (&raw const self.rqs[cpu]).cast::<u8>();
        for line in [0, 64, 128, 192] {
            prefetch(rq.wrapping_add(line));
        }
    }

    /// Prefetches the host memory that a wake-up of `task` and a switch to it will access.
    #[inline]
    pub(crate) fn prefetch_task(&self, task: TaskId) {
        let addr = self.layout.task_addr(task);
        let task_struct = self.region.host::<u8>(addr);
        let task = (&raw const self.tasks[task]).cast::<u8>();
        for line in [0, 64] {
            prefetch(task.wrapping_add(line));
        }
        if !self.ext.has_policy() {
            // The fair class schedules the task.
            for line in [0, 64, 128] {
                prefetch(task.wrapping_add(std::mem::offset_of!(Task, fair) + line));
            }
        }
        for line in [0, 64, 128, 192] {
            prefetch(task_struct.wrapping_add(line));
        }
        prefetch(self.region.lines().host_address(addr));
    }
}

#[inline(always)]
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
