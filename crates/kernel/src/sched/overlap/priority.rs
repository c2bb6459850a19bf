// SPDX-License-Identifier: GPL-2.0-only
//! Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): each CPU has a priority, and
//! at a point, the CPU with the highest one continues.
//!
//! Priorities become forced switches: a CPU that is outranked is delayed, and the delay is recorded as a
//! [`Hold`]. A plan with the recorded holds repeats the run without priorities.
//!
//! CPUs share one simulated time, so a CPU cannot be held back until all others are blocked, as a
//! thread of the original method is. Only CPUs that are in a handler outrank others, and each
//! handler is delayed by [`OUTRANKED_NS`] at most. A run therefore progresses like any other, and a
//! low priority looks like a burst of interrupts, not like a stall.

use super::MAX_HOLD_NS;
use super::state::{Hold, Overlap, Priorities};

/// Length of one delay of an outranked CPU, ns: a few callbacks of the other CPU.
const QUANTUM_NS: u64 = 10_000;
/// Longest time for which CPUs of a higher priority delay one handler, ns.
const OUTRANKED_NS: u64 = 100_000;

impl Priorities {
    fn of_cpu(&self, cpu: usize) -> i64 {
        self.cpus.get(cpu).copied().unwrap_or(0)
    }

    /// Lowers the priority of a CPU below all others.
    fn drop_cpu(&mut self, cpu: usize) {
        let lowest = self.cpus.iter().copied().min().unwrap_or(0).min(0);
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, 0);
        }
        self.cpus[cpu] = lowest - 1;
    }
}

impl Overlap {
    /// Returns for how long the running handler is delayed at the current point, because CPUs of a
    /// higher priority are in handlers or because its own priority drops. Records the delay.
    pub(crate) fn rank(&mut self, running: usize) -> u64 {
        let Some(priorities) = &mut self.priorities else {
            return 0;
        };
        let point = self.points;
        let cpu = self.slots[running].cpu.index();
        let is_due = priorities.drops.front().is_some_and(|hold| hold.point <= point);
        let due = if is_due { priorities.drops.pop_front() } else { None };
        let ns = match due {
            Some(hold) => {
                priorities.drop_cpu(cpu);
                hold.ns.min(MAX_HOLD_NS)
            }
            None => {
                let own = priorities.of_cpu(cpu);
                // A handler that waits for a lock may wait for this one.
                let is_outranked = self.slots.iter().any(|slot| {
                    slot.used && slot.coroutine.is_some() && !slot.waits && priorities.of_cpu(slot.cpu.index()) > own
                });
                let slot = &mut self.slots[running];
                if !is_outranked || slot.outranked_ns >= OUTRANKED_NS {
                    return 0;
                }
                slot.outranked_ns += QUANTUM_NS;
                QUANTUM_NS
            }
        };
        self.ranked.push(Hold { point, ns });
        ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_goes_below_all_other_priorities() {
        let mut priorities = Priorities {
            cpus: vec![2, 1],
            ..Priorities::default()
        };
        priorities.drop_cpu(0);
        assert!(priorities.of_cpu(0) < priorities.of_cpu(1));
        priorities.drop_cpu(3);
        assert!(priorities.of_cpu(3) < priorities.of_cpu(0));
        assert_eq!(priorities.of_cpu(2), 0);
    }
}
