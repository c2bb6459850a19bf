// SPDX-License-Identifier: GPL-2.0-only
//! Speeds of CPUs. They depend on the frequency of the CPU and on the other hardware threads of its
//! core. Tasks with footprints can be slower than that, see `hardware::memory`.
//!
//! ```text
//! thread 0  |== task, full speed ==|== 0.62 ==|== full speed ==|
//! thread 1  |        idle          |== task ==|      idle      |
//! ```
//!
//! A CPU is busy from the switch to a task until the switch to the idle task, including the kernel
//! work of the former but not of the latter. An idle CPU that handles an interrupt does not slow
//! its siblings.
//!
//! Only the work of tasks is scaled. CPU time is measured as elapsed time and not as work, so
//! sum_exec_runtime, vruntime, slices and ticks do not depend on the siblings. The capacity that
//! policies and PELT see does not depend on them, either (arch_scale_cpu_capacity(),
//! update_rq_clock_pelt()). Kernel and policy work costs the same whether the siblings are busy or
//! not.

pub mod state;

use crate::hardware::memory;
use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE};
use machine::smt::FULL_SPEED;

impl Machine {
    /// Records that `cpu` has switched from the idle task (`busy`) or to it, and changes the speeds
    /// of all CPUs of its core.
    #[inline]
    pub(crate) fn set_busy(&mut self, cpu: CpuId, busy: bool) {
        if self.cpufreq.tracks_busy {
            self.track_busy(cpu, busy);
        }
        if !self.smt.speeds.is_empty() {
            self.set_busy_in_core(cpu, busy);
        }
    }

    fn set_busy_in_core(&mut self, cpu: CpuId, busy: bool) {
        let core = self.smt.core_of[cpu.index()];
        let nr = &mut self.smt.busy[core];
        *nr = if busy { *nr + 1 } else { *nr - 1 };
        for index in 0..self.smt.cores[core].len() {
            let sibling = self.smt.cores[core][index];
            if self.rqs[sibling].curr != IDLE {
                self.update_speed(sibling);
            }
        }
    }

    /// Calculates the speed of a CPU again, after a change of its capacity or of the number of its
    /// busy siblings. A task that loads more or less from memory also changes the speeds of others.
    pub(crate) fn update_speed(&mut self, cpu: CpuId) {
        match self.uses_memory(cpu) {
            true => self.update_memory(cpu),
            false => self.apply_speed(cpu),
        }
    }

    /// Calculates the speed of a CPU again and stores it. Work that the running task has done until
    /// now counts at the old speed.
    pub(super) fn apply_speed(&mut self, cpu: CpuId) {
        let speed = self.current_speed(cpu);
        if speed == self.rqs[cpu].speed || self.is_suspended(cpu) {
            return;
        }
        self.progress(cpu);
        let rq = &self.rqs[cpu];
        if rq.curr == IDLE || rq.spinning || !rq.online {
            self.rqs[cpu].speed = speed;
            return;
        }
        let due = self.step_due(cpu);
        self.rqs[cpu].speed = speed;
        // If only kernel work is left until the step event, its time does not change. The event
        // then keeps its place among the events at the same time.
        if self.step_due(cpu) != due {
            self.arm_step(cpu);
        }
    }

    /// Returns the work that a task of `cpu` does per ns; 1024 on the fastest CPU if nothing slows
    /// the task.
    pub(super) fn current_speed(&self, cpu: CpuId) -> u64 {
        let base = self.base_speed(cpu);
        match self.extra_ps(cpu) {
            0 => base,
            extra => memory::slowed(base, extra),
        }
    }

    /// Returns the work that a task of `cpu` does per ns if caches and memory do not slow it.
    pub(crate) fn base_speed(&self, cpu: CpuId) -> u64 {
        let capacity = self.rqs[cpu].capacity;
        let core = self.smt.core_of[cpu.index()];
        match self.smt.speeds.get(self.smt.busy[core].saturating_sub(1)) {
            Some(&speed) => (capacity * speed).div_ceil(u64::from(FULL_SPEED)),
            None => capacity,
        }
    }

    /// Verifies the number of busy CPUs of each core, and the speeds of CPUs that run tasks.
    ///
    /// # Panics
    /// If one of them is wrong.
    pub(crate) fn verify_speeds(&self) {
        let mut busy = vec![0; self.smt.busy.len()];
        for rq in self.rqs.iter().filter(|rq| rq.curr != IDLE) {
            busy[self.smt.core_of[rq.cpu.index()]] += 1;
            self.verify_frequency(rq.cpu);
            let suspended = self.is_suspended(rq.cpu);
            assert_eq!(
                rq.speed,
                if suspended { 0 } else { self.current_speed(rq.cpu) },
                "the speed of CPU {} is wrong",
                rq.cpu
            );
        }
        assert!(
            self.smt.speeds.is_empty() || busy == self.smt.busy,
            "the numbers of busy CPUs are wrong"
        );
    }
}

#[cfg(test)]
mod tests;
