// SPDX-License-Identifier: GPL-2.0-only
//! When each CPU's running task is through with the work at hand: the most frequent event, and one that is moved whenever
//! something is charged to the CPU. So it has a place of its own a CPU, in a tournament whose winner is due first.

use super::id::CpuId;
use super::table::{Id, Table};

/// The time in ns, and below it the CPU: of steps at one time the lowest CPU's comes first.
type Key = u64;
const NEVER: Key = Key::MAX;
const CPU_BITS: u32 = 16;
const LAST: u64 = (1 << (64 - CPU_BITS)) - 2;

pub struct Steps {
    /// A complete tree of fours. A node holds the least keys of its four children: nodes below it, or CPUs. The children of
    /// node n are 4n + 1 to 4n + 4; the CPUs come behind the last node.
    nodes: Vec<[Key; 4]>,
    /// The least key of all.
    first: Key,
    /// By CPU: where its step stands among the events of its time.
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

    /// Arms or moves the step of `cpu` to `time`; one beyond three days comes then.
    #[inline]
    pub fn arm(&mut self, cpu: CpuId, time: u64, sequence: u64) {
        let time = time.min(LAST);
        self.sequences[cpu] = sequence;
        self.set(cpu, time << CPU_BITS | u64::from(cpu));
    }

    /// The sequence number that a CPU's step was armed with.
    pub fn sequence(&self, cpu: CpuId) -> u64 {
        self.sequences[cpu]
    }

    #[inline]
    pub fn disarm(&mut self, cpu: CpuId) {
        self.set(cpu, NEVER);
    }

    #[inline]
    fn set(&mut self, cpu: CpuId, mut key: Key) {
        // Children have places: those of node n are 4n to 4n + 3, and node n itself is at n - 1.
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

    /// When the first step is due, and whose it is.
    #[inline]
    pub fn first(&self) -> Option<(u64, CpuId)> {
        let key = self.first;
        (key != NEVER).then(|| (key >> CPU_BITS, cpu_of_key(key)))
    }

    /// Whose step lost against the first one's at last: often the second.
    #[inline]
    pub fn runner_up(&self) -> Option<CpuId> {
        let root = self.nodes[0];
        let rest = root.into_iter().filter(|&key| key != self.first).min().unwrap_or(NEVER);
        (rest != NEVER).then(|| cpu_of_key(rest))
    }
}

/// Returns the CPU whose step has a key. Keys are made from CPUs of the machine ([`Steps::arm`]).
fn cpu_of_key(key: Key) -> CpuId {
    CpuId::new(key as usize & ((1 << CPU_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wins_however_they_are_moved() {
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
