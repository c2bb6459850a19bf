// SPDX-License-Identifier: GPL-2.0-only
//! The time at which each CPU's running task finishes its current work (its step).
//!
//! Steps are the most frequent events, and a step moves whenever its CPU is charged. So they are
//! not in the event queue: each CPU has a leaf in a tournament tree, and the step at the root is
//! due first.

use super::id::CpuId;
use super::table::{Id, Table};

/// The time in ns, shifted left by CPU_BITS, plus the CPU. Of two steps at the same time, the one
/// with the lower CPU comes first.
type Key = u64;
const NEVER: Key = Key::MAX;
const CPU_BITS: u32 = 16;
const LAST: u64 = (1 << (64 - CPU_BITS)) - 2;

/// The tournament tree.
pub struct Steps {
    /// A complete tree in which each node has four children. A node contains the smallest key of
    /// each child, and a child is a node or a CPU. Node n has the children 4n + 1 to 4n + 4; the
    /// CPUs follow after the last node.
    nodes: Vec<[Key; 4]>,
    /// The smallest key of the tree.
    first: Key,
    /// Sequence number of each CPU's step, which orders it among other events at the same time.
    sequences: Table<CpuId, u64>,
}

impl Steps {
    pub fn new(nr_cpus: u32) -> Steps {
        assert!(nr_cpus <= 1 << CPU_BITS, "{nr_cpus} CPUs");
        let (mut nr_nodes, mut leaves) = (1, 4);
        while leaves < nr_cpus as usize {
            nr_nodes += leaves;
            leaves *= 4;
        }
        Steps {
            nodes: vec![[NEVER; 4]; nr_nodes],
            first: NEVER,
            sequences: vec![0; nr_cpus as usize].into(),
        }
    }

    /// Arms the step of `cpu`, or moves it to `time`. Times beyond three days (2^48 ns) are clamped
    /// to that.
    #[inline]
    pub fn arm(&mut self, cpu: CpuId, time: u64, sequence: u64) {
        let time = time.min(LAST);
        self.sequences[cpu] = sequence;
        self.set(cpu, time << CPU_BITS | u64::from(cpu));
    }

    /// Returns the sequence number of a CPU's step.
    pub fn sequence(&self, cpu: CpuId) -> u64 {
        self.sequences[cpu]
    }

    #[inline]
    pub fn disarm(&mut self, cpu: CpuId) {
        self.set(cpu, NEVER);
    }

    #[inline]
    fn set(&mut self, cpu: CpuId, mut key: Key) {
        // `at` indexes child slots: those of node n are 4n to 4n + 3, and node n itself is in slot
        // n - 1.
        let mut at = self.nodes.len() - 1 + cpu.index();
        loop {
            let parent = at / 4;
            let keys = &mut self.nodes[parent];
            keys[at % 4] = key;
            let least = keys[0].min(keys[1]).min(keys[2].min(keys[3]));
            if parent == 0 {
                self.first = least;
                return;
            }
            at = parent - 1;
            if self.nodes[at / 4][at % 4] == least {
                return;
            }
            key = least;
        }
    }

    /// Returns the time of the earliest step and its CPU.
    #[inline]
    pub fn first(&self) -> Option<(u64, CpuId)> {
        let key = self.first;
        (key != NEVER).then(|| (key >> CPU_BITS, cpu_of_key(key)))
    }

    /// Returns the CPU with the step that lost to the earliest one at the root. It is often the
    /// second earliest.
    #[inline]
    pub fn runner_up(&self) -> Option<CpuId> {
        let root = self.nodes[0];
        let rest = root.into_iter().filter(|&key| key != self.first).min().unwrap_or(NEVER);
        (rest != NEVER).then(|| cpu_of_key(rest))
    }
}

/// Returns the CPU of a step's key. Keys are built from CPUs of the machine ([`Steps::arm`]).
fn cpu_of_key(key: Key) -> CpuId {
    CpuId::new(key as usize & ((1 << CPU_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_step_is_first_after_any_move() {
        let mut rng = crate::simulation::rng::Rng::new(3);
        for nr_cpus in [1, 2, 3, 64, 100] {
            let mut steps = Steps::new(nr_cpus);
            let mut model = std::collections::BTreeMap::new();
            for _ in 1..5000 {
                let cpu = CpuId::new(rng.below(nr_cpus.into()) as usize);
                if rng.below(4) == 0 {
                    steps.disarm(cpu);
                    model.remove(&cpu);
                } else {
                    let time = rng.below(50);
                    steps.arm(cpu, time, 0);
                    model.insert(cpu, time);
                }
                let first = model.iter().map(|(&cpu, &time)| (time, cpu)).min();
                assert_eq!(steps.first(), first);
            }
        }
    }
}
