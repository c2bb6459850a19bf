// SPDX-License-Identifier: GPL-2.0-only
//! Speeds of CPUs: their frequency, and the other hardware threads of their core.
//!
//! ```text
//! thread 0  |== task, full speed ==|== 0.62 ==|== full speed ==|
//! thread 1  |        idle          |== task ==|      idle      |
//! ```
//!
//! A CPU is busy from the switch to a task until the switch to the idle task. The kernel work of
//! these switches is included, except for the last one. An idle CPU that handles an interrupt does
//! not slow its siblings.
//!
//! Only the work of tasks is scaled. CPU time passes in wall time, so sum_exec_runtime, vruntime,
//! slices and ticks do not depend on the siblings. The capacity that policies and PELT see does not
//! either (arch_scale_cpu_capacity(), update_rq_clock_pelt()). Kernel and policy work costs the
//! same whether the siblings are busy or not.

use crate::machine::Machine;
use crate::simulation::id::{CpuId, IDLE};
use crate::simulation::table::Id;
use machine::MachineSpec;
use machine::smt::FULL_SPEED;

/// Contention between the hardware threads of each core.
pub(crate) struct Smt {
    /// Speed of a thread by the number of busy threads of its core minus 1, in 1/1024. Empty if the
    /// threads of a core do not slow each other.
    speeds: Vec<u64>,
    /// Number of busy CPUs of each core.
    busy: Vec<usize>,
}

impl Smt {
    pub(crate) fn new(spec: &MachineSpec) -> Smt {
        let contended = spec.smt_throughput.iter().any(|&speed| speed != FULL_SPEED);
        let speeds = if contended { &spec.smt_throughput[..] } else { &[] };
        Smt {
            speeds: speeds.iter().map(|&speed| speed.into()).collect(),
            busy: vec![0; spec.topology.cores.len()],
        }
    }
}

impl Machine {
    /// Records that `cpu` has switched from the idle task or to it, and changes the speeds of its
    /// core.
    #[inline]
    pub(crate) fn set_busy(&mut self, cpu: CpuId, busy: bool) {
        if !self.smt.speeds.is_empty() {
            self.set_busy_in_core(cpu, busy);
        }
    }

    fn set_busy_in_core(&mut self, cpu: CpuId, busy: bool) {
        let core = self.spec.topology.cpus[cpu.index()].core as usize;
        let nr = &mut self.smt.busy[core];
        *nr = if busy { *nr + 1 } else { *nr - 1 };
        for thread in 0..self.spec.topology.cores[core].len() {
            let sibling = CpuId::new(self.spec.topology.cores[core][thread] as usize);
            if self.rqs[sibling].curr != IDLE {
                self.update_speed(sibling);
            }
        }
    }

    /// Applies a change of a CPU's capacity or of its busy siblings. The running task's work until
    /// now is done at the old speed.
    pub(crate) fn update_speed(&mut self, cpu: CpuId) {
        let speed = self.current_speed(cpu);
        if speed == self.rqs[cpu].speed {
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
        // A step that is kernel work ends as before, and keeps its place among the events.
        if self.step_due(cpu) != due {
            self.arm_step(cpu);
        }
    }

    /// Returns the work that a task of `cpu` does per ns; 1024 on the fastest CPU if its siblings
    /// are idle.
    fn current_speed(&self, cpu: CpuId) -> u64 {
        let capacity = self.rqs[cpu].capacity;
        let core = self.spec.topology.cpus[cpu.index()].core as usize;
        match self.smt.speeds.get(self.smt.busy[core].saturating_sub(1)) {
            Some(&speed) => (capacity * speed).div_ceil(u64::from(FULL_SPEED)),
            None => capacity,
        }
    }

    /// Verifies the busy CPUs of each core, and the speeds of CPUs that run tasks.
    ///
    /// # Panics
    /// If one of them is wrong.
    pub(crate) fn verify_speeds(&self) {
        let mut busy = vec![0; self.smt.busy.len()];
        for rq in self.rqs.iter().filter(|rq| rq.curr != IDLE) {
            busy[self.spec.topology.cpus[rq.cpu.index()].core as usize] += 1;
            assert_eq!(rq.speed, self.current_speed(rq.cpu), "speed of CPU {}", rq.cpu);
        }
        assert!(self.smt.speeds.is_empty() || busy == self.smt.busy, "busy CPUs by core");
    }
}

#[cfg(test)]
mod tests;
