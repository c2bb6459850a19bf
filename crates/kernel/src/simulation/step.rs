// SPDX-License-Identifier: GPL-2.0-only
//! When each CPU's running task is through with the work at hand: the most frequent event, and one that is moved whenever
//! something is charged to the CPU. So it has a place of its own a CPU, in a tournament whose winner is due first.

/// The time in ns, and below it the CPU: of steps at one time the lowest CPU's comes first.
type Key = u64;
const NEVER: Key = Key::MAX;
const CPU_BITS: u32 = 16;
const LAST: u64 = (1 << (64 - CPU_BITS)) - 2;

pub struct Steps {
    /// A complete tree of fours: the root is 0, the children of n are 4n + 1 to 4n + 4, the leaves are the CPUs.
    keys: Vec<Key>,
    first_leaf: usize,
    /// By CPU: where its step stands among the events of its time.
    sequences: Vec<u64>,
}

impl Steps {
    pub fn new(nr_cpus: u32) -> Steps {
        assert!(nr_cpus <= 1 << CPU_BITS, "{nr_cpus} CPUs");
        let (mut first_leaf, mut leaves) = (1, 4);
        while leaves < nr_cpus as usize {
            first_leaf += leaves;
            leaves *= 4;
        }
        Steps {
            keys: (0..first_leaf + leaves).map(|_| NEVER).collect(),
            first_leaf,
            sequences: (0..nr_cpus).map(|_| 0).collect(),
        }
    }

    /// Arms or moves the step of `cpu` to `time`; one beyond three days comes then.
    #[inline]
    pub fn arm(&mut self, cpu: u32, time: u64, sequence: u64) {
        let time = time.min(LAST);
        self.sequences[cpu as usize] = sequence;
        self.set(cpu, time << CPU_BITS | u64::from(cpu));
    }

    /// The sequence number that a CPU's step was armed with.
    pub fn sequence(&self, cpu: u32) -> u64 {
        self.sequences[cpu as usize]
    }

    #[inline]
    pub fn disarm(&mut self, cpu: u32) {
        self.set(cpu, NEVER);
    }

    #[inline]
    fn set(&mut self, cpu: u32, key: Key) {
        let mut at = self.first_leaf + cpu as usize;
        self.keys[at] = key;
        while at > 0 {
            at = (at - 1) / 4;
            let four = |n: usize| self.keys[4 * at + 1 + n];
            let winner = four(0).min(four(1)).min(four(2).min(four(3)));
            if self.keys[at] == winner {
                return;
            }
            self.keys[at] = winner;
        }
    }

    /// When the first step is due, and whose it is.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        let key = self.keys[0];
        (key != NEVER).then_some((key >> CPU_BITS, key as u32 & ((1 << CPU_BITS) - 1)))
    }

    /// Whose step lost against the first one's at last: often the second.
    #[inline]
    pub fn runner_up(&self) -> Option<u32> {
        let first = self.keys[0];
        let key = (1..5).fold(NEVER, |least, n| match self.keys[n] {
            key if key == first => least,
            key => least.min(key),
        });
        (key != NEVER).then_some(key as u32 & ((1 << CPU_BITS) - 1))
    }
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
                let cpu = rng.below(nr_cpus.into()) as u32;
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
