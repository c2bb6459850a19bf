// SPDX-License-Identifier: GPL-2.0-only
//! Set of a machine's CPUs, stored as a bitmap.

use crate::simulation::id::CpuId;
use crate::simulation::table::Id;

/// Number that identifies a set of allowed CPUs: 0 for all CPUs, `1 + cpu` for a single CPU. Other
/// sets get larger numbers in the order in which they are first used.
pub type AffinityGroup = u32;

pub const ALL_CPUS: AffinityGroup = 0;

/// Returns the affinity group of the set that contains only `cpu`.
pub(crate) fn single_cpu(cpu: CpuId) -> AffinityGroup {
    1 + cpu.nr()
}

/// Set of CPUs. The bits from `nr_cpus` on are always 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSet {
    words: Box<[u64]>,
    nr_cpus: u32,
}

impl CpuSet {
    pub fn empty(nr_cpus: u32) -> CpuSet {
        CpuSet {
            words: vec![0; nr_cpus.div_ceil(64) as usize].into(),
            nr_cpus,
        }
    }

    pub fn all(nr_cpus: u32) -> CpuSet {
        let mut set = CpuSet::empty(nr_cpus);
        set.words.fill(!0);
        if let Some(last) = set.words.last_mut() {
            // Clears the unused bits after the last CPU.
            *last >>= 63 - (nr_cpus - 1) % 64;
        }
        set
    }

    pub fn from_cpus(nr_cpus: u32, cpus: &[u32]) -> CpuSet {
        let mut set = CpuSet::empty(nr_cpus);
        for &cpu in cpus {
            assert!(
                cpu < nr_cpus,
                "CPU {cpu} does not exist: the machine has {nr_cpus} CPUs"
            );
            set.insert(CpuId::new(cpu as usize));
        }
        set
    }

    /// Returns the number of CPUs of the machine whose CPUs the set contains.
    pub(crate) fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64] >> (cpu.index() % 64) & 1 != 0
    }

    /// Returns whether the set contains the CPU with the number `nr`.
    pub fn contains_nr(&self, nr: u32) -> bool {
        nr < self.nr_cpus && self.contains(CpuId::new(nr as usize))
    }

    pub(crate) fn insert(&mut self, cpu: CpuId) {
        assert!(
            cpu.nr() < self.nr_cpus,
            "CPU {cpu} does not exist: the machine has {} CPUs",
            self.nr_cpus
        );
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    pub(crate) fn remove(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    pub(crate) fn set(&mut self, cpu: CpuId, present: bool) {
        if present { self.insert(cpu) } else { self.remove(cpu) }
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// Returns the lowest CPU in `word`, which is a part of word number `index` of a set. This CPU
    /// exists, because sets never contain CPUs that the machine does not have.
    pub(crate) fn member(index: usize, word: u64) -> CpuId {
        CpuId::new(index * 64 + word.trailing_zeros() as usize)
    }

    /// Returns the number of CPUs in the set (cpumask_weight()).
    pub fn weight(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    /// Returns the number of CPUs that are in both sets (cpumask_weight_and()).
    pub fn weight_and(&self, other: &CpuSet) -> u32 {
        self.words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| (a & b).count_ones())
            .sum()
    }

    pub(crate) fn first(&self) -> Option<CpuId> {
        self.next(0)
    }

    /// Returns the CPU that is number `n` in the ascending order of the set, counted from 0.
    pub(crate) fn nth(&self, mut n: u32) -> Option<CpuId> {
        for (i, &word) in self.words.iter().enumerate() {
            let mut word = word;
            if n >= word.count_ones() {
                n -= word.count_ones();
                continue;
            }
            for _ in 0..n {
                word &= word - 1;
            }
            return Some(CpuSet::member(i, word));
        }
        None
    }

    /// Returns the first CPU of the set at or after `from`.
    pub(crate) fn next(&self, from: u32) -> Option<CpuId> {
        if from >= self.nr_cpus {
            return None;
        }
        let mut i = (from / 64) as usize;
        let mut word = self.words[i] & (!0 << (from % 64));
        loop {
            if word != 0 {
                return Some(CpuSet::member(i, word));
            }
            i += 1;
            word = *self.words.get(i)?;
        }
    }

    /// Returns the first CPU at or after `from` that is in both sets.
    pub(crate) fn next_and(&self, other: &CpuSet, from: u32) -> Option<CpuId> {
        if from >= self.nr_cpus {
            return None;
        }
        let mut i = (from / 64) as usize;
        let mut word = self.words[i] & other.words[i] & (!0 << (from % 64));
        loop {
            if word != 0 {
                return Some(CpuSet::member(i, word));
            }
            i += 1;
            word = self.words.get(i)? & other.words[i];
        }
    }

    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let mut next = self.first();
        std::iter::from_fn(move || {
            let cpu = next?;
            next = self.next(cpu.nr() + 1);
            Some(cpu)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_set_contains_exactly_the_machines_cpus() {
        for nr_cpus in [1, 63, 64, 65, 128, 1000] {
            let numbers: Vec<u32> = (0..nr_cpus).collect();
            let all = CpuSet::all(nr_cpus);
            assert_eq!(all, CpuSet::from_cpus(nr_cpus, &numbers));
            assert_eq!(all.weight(), nr_cpus);
        }
    }

    #[test]
    fn nth_matches_the_iteration_order() {
        let set = CpuSet::from_cpus(200, &[0, 3, 63, 64, 130, 199]);
        let cpus: Vec<CpuId> = (0..).map_while(|n| set.nth(n)).collect();
        assert!(set.iter().eq(cpus));
    }
}
