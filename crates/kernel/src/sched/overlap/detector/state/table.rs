// SPDX-License-Identifier: GPL-2.0-only
//! Tables of the race detector. It looks up a variable at each access, so these tables hash with one
//! multiplication. Nothing iterates over them, except to sort all entries.
#![expect(
    clippy::disallowed_types,
    reason = "the hash table is private, and entries are only listed in order"
)]

use crate::sched::overlap::detector::state::Variable;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Number of recently accessed variables that are found without hashing. A power of two.
const RECENT: usize = 1024;

/// A hash table with a fast hash function for keys that consist of integers.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V>(HashMap<K, V, BuildHasherDefault<Multiply>>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table(HashMap::default())
    }
}

impl<K: Copy + Eq + Hash + Ord, V: Copy + Ord> Table<K, V> {
    /// Returns all entries in the order of their keys.
    pub(crate) fn sorted(&self) -> Vec<(K, V)> {
        let mut entries: Vec<(K, V)> = self.0.iter().map(|(&key, &value)| (key, value)).collect();
        entries.sort_unstable();
        entries
    }
}

impl<K: Eq + Hash, V> Table<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Returns the value of a key. Makes the value if the key was missing.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

/// Hashes integers by multiplication with 2^64 divided by the golden ratio.
#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table takes the bucket from the low bits, but the high bits of a product are better.
        self.0 ^ self.0 >> 32
    }
}

/// The variables that the policy has accessed, by address.
pub(crate) struct Variables {
    all: Vec<Variable>,
    /// Index in `all` of each address.
    index: Table<u64, u32>,
    /// Index in `all` of variables that were accessed recently. The low bits of the address are the
    /// position.
    recent: Box<[u32]>,
}

impl Default for Variables {
    fn default() -> Variables {
        Variables {
            all: Vec::new(),
            index: Table::default(),
            recent: vec![0; RECENT].into_boxed_slice(),
        }
    }
}

impl Variables {
    /// Returns the variable at an address. Creates it if it is missing.
    #[inline]
    pub(crate) fn entry(&mut self, addr: u64) -> &mut Variable {
        let place = (addr ^ addr >> 10) as usize % RECENT;
        let recent = self.recent[place] as usize;
        let at = match self.all.get(recent) {
            Some(variable) if variable.addr == addr => recent,
            _ => self.search(addr, place),
        };
        &mut self.all[at]
    }

    #[inline(never)]
    fn search(&mut self, addr: u64, place: usize) -> usize {
        let all = &mut self.all;
        let at = *self.index.get_or_insert_with(addr, || {
            all.push(Variable::new(addr));
            (all.len() - 1) as u32
        });
        self.recent[place] = at;
        at as usize
    }

    /// Returns the variable at an address, or `None` if it was not accessed.
    pub(crate) fn get_mut(&mut self, addr: u64) -> Option<&mut Variable> {
        self.index.get(&addr).map(|&at| &mut self.all[at as usize])
    }

    /// Returns the variable at an address, or `None` if it was not accessed.
    pub(crate) fn get(&self, addr: u64) -> Option<&Variable> {
        self.index.get(&addr).map(|&at| &self.all[at as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_keep_their_state_beyond_the_recent_ones() {
        let mut variables = Variables::default();
        let nr = 10 * RECENT as u64;
        for round in 1..=2 {
            for addr in 0..nr {
                let variable = variables.entry(addr);
                assert_eq!(variable.addr, addr);
                variable.version += 1;
                assert_eq!(variable.version, round);
            }
        }
        assert!(variables.get(nr).is_none());
        assert_eq!(variables.get(7).map(|variable| variable.version), Some(2));
    }
}
