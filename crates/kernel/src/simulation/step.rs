// SPDX-License-Identifier: GPL-2.0-only
//! The step events of the CPUs. The step event of a CPU is due when its running task finishes its
//! current work.
//!
//! Steps are the most frequent events, and move to a later time whenever work is charged to their
//! CPU. They are therefore kept in a tournament tree, with a leaf for each CPU and the earliest
//! step at the root.

use super::id::CpuId;
use super::table::{Id, Table};

/// Sort key of a step: the time in ns << CPU_BITS, plus the number of the CPU. If two steps have
/// the same time, the lower CPU is first.
type Key = u64;
/// Key of a CPU whose step event is not scheduled.
const NEVER: Key = Key::MAX;
const CPU_BITS: u32 = 16;
/// Latest time of a step, ns. The next later time would give the key NEVER.
const LAST: u64 = (1 << (64 - CPU_BITS)) - 2;

/// The tournament tree of all steps.
pub struct Steps {
    /// A complete tree in which each node has four children. A child is another node or a CPU. A
    /// node contains the smallest key of each of its children. The children of node n have the
    /// numbers 4n + 1 to 4n + 4. The numbers of the CPUs follow after the last node.
    nodes: Vec<[Key; 4]>,
    /// The smallest key of the tree.
    first: Key,
    /// Sequence number of each CPU's step. It determines the order among all events at the same
    /// time.
    sequences: Table<CpuId, u64>,
}

impl Steps {
    pub fn new(nr_cpus: u32) -> Steps {
        assert!(
            nr_cpus <= 1 << CPU_BITS,
            "the key of a step has no room for the numbers of {nr_cpus} CPUs"
        );
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

    /// Schedules the step of `cpu` or moves it to the time `time`. Times later than three days
    /// (2^48 ns) are set to three days.
    #[inline]
    pub(crate) fn arm(&mut self, cpu: CpuId, time: u64, sequence: u64) {
        let time = time.min(LAST);
        self.sequences[cpu] = sequence;
        self.set(cpu, time << CPU_BITS | u64::from(cpu));
    }

    /// Returns the sequence number of a CPU's step.
    pub(crate) fn sequence(&self, cpu: CpuId) -> u64 {
        self.sequences[cpu]
    }

    #[inline]
    pub(crate) fn disarm(&mut self, cpu: CpuId) {
        self.set(cpu, NEVER);
    }

    #[inline]
    fn set(&mut self, cpu: CpuId, mut key: Key) {
        // `at` is the index of a child slot. Node n has the slots 4n to 4n + 3, and is itself the
        // child in slot n - 1.
        let mut at = self.nodes.len() - 1 + cpu.index();
        let mut keys = &mut self.nodes[at / 4];
        loop {
            keys[at % 4] = key;
            key = keys[0].min(keys[1]).min(keys[2].min(keys[3]));
            if at < 4 {
                self.first = key;
                return;
            }
            at = at / 4 - 1;
            keys = &mut self.nodes[at / 4];
            if keys[at % 4] == key {
                return;
            }
        }
    }

    /// Returns the time of the earliest step and the CPU to which it belongs.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, CpuId)> {
        let key = self.first;
        (key != NEVER).then(|| (key >> CPU_BITS, cpu_of_key(key)))
    }

    /// Returns the CPU whose step has the second smallest key at the root. This is often the second
    /// earliest step.
    #[inline]
    pub(crate) fn runner_up(&self) -> Option<CpuId> {
        let [a, b, c, d] = self.nodes[0];
        let second = a.min(b).max(c.min(d)).min(a.max(b)).min(c.max(d));
        (second != NEVER).then(|| cpu_of_key(second))
    }
}

/// Returns the CPU in a step's key. It exists, because all keys are built from CPUs of the machine
/// ([`Steps::arm`]).
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
