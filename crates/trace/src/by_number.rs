// SPDX-License-Identifier: GPL-2.0-only
//! From numbers that are mostly small and dense (pids, locks) to entries, without hashing.

use std::collections::BTreeMap;

/// Numbers under this index a vector: the kernel's PID_MAX_LIMIT. What a damaged or foreign trace
/// has above goes into a tree, so that a wild number does not claim gigabytes.
const DENSE: u32 = 1 << 22;

/// Entries by number, made when first asked for.
#[derive(Clone, Debug)]
pub struct ByNumber<T> {
    /// Index into `entries` plus 1; 0 = none.
    slots: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
    entries: Vec<(u32, T)>,
}

impl<T> Default for ByNumber<T> {
    fn default() -> ByNumber<T> {
        ByNumber {
            slots: Vec::new(),
            sparse: BTreeMap::new(),
            entries: Vec::new(),
        }
    }
}

impl<T: Default> ByNumber<T> {
    pub fn new() -> ByNumber<T> {
        ByNumber::default()
    }

    #[inline]
    pub fn entry(&mut self, number: u32) -> &mut T {
        let place = self.place(number);
        self.at(place)
    }

    /// Where the entry of a number is, which is made if need be.
    #[inline]
    pub fn place(&mut self, number: u32) -> u32 {
        match self.slots.get(number as usize) {
            Some(&slot) if slot != 0 => slot - 1,
            _ => self.make(number),
        }
    }

    /// The entry at a place.
    #[inline]
    pub fn at(&mut self, place: u32) -> &mut T {
        &mut self.entries[place as usize].1
    }

    #[cold]
    fn make(&mut self, number: u32) -> u32 {
        let new = self.entries.len() as u32;
        if number < DENSE {
            if number as usize >= self.slots.len() {
                self.slots.resize(number as usize + 1, 0);
            }
            self.slots[number as usize] = new + 1;
        } else if let Some(&index) = self.sparse.get(&number) {
            return index;
        } else {
            self.sparse.insert(number, new);
        }
        self.entries.push((number, T::default()));
        new
    }

    /// An entry that was asked for before.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let index = match self.slots.get(number as usize) {
            Some(&slot) => slot.checked_sub(1)?,
            None => *self.sparse.get(&number)?,
        };
        Some(&self.entries[index as usize].1)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, by number.
    pub fn into_sorted(mut self) -> Vec<(u32, T)> {
        self.entries.sort_unstable_by_key(|&(number, _)| number);
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_wild_numbers() {
        let mut counts = ByNumber::<u64>::new();
        for number in [7, u32::MAX, 0, 7, u32::MAX, DENSE, 7] {
            *counts.entry(number) += 1;
        }
        assert!(counts.slots.len() <= 8);
        assert_eq!(
            [7, 3, u32::MAX, 1000].map(|number| counts.get(number).copied()),
            [Some(3), None, Some(2), None]
        );
        assert_eq!(counts.into_sorted(), [(0, 1), (7, 3), (DENSE, 1), (u32::MAX, 2)]);
    }
}
