// SPDX-License-Identifier: GPL-2.0-only
//! A map whose keys are numbers, such as pids or the numbers of locks. It needs no hashing, because
//! most keys are small, and most small numbers are keys.

use std::collections::BTreeMap;

/// Keys below this limit index a vector. The limit is the kernel's PID_MAX_LIMIT. Larger keys are
/// kept in a tree, because a vector for them would take gigabytes. Such keys occur only in damaged
/// traces and in traces of other programs.
const DENSE: u32 = 1 << 22;

/// A map from numbers to entries. An entry is created with its default value when it is first
/// requested.
#[derive(Clone, Debug)]
pub struct ByNumber<T> {
    /// For each number, the index of its entry in `entries` plus 1, or 0 if the number has no
    /// entry.
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

    /// Returns the entry of a number, and creates it if it is missing.
    #[inline]
    pub fn entry(&mut self, number: u32) -> &mut T {
        let index = self.index(number);
        self.at(index)
    }

    /// Returns the index of a number's entry for use with [`ByNumber::at`], and creates the entry
    /// if it is missing.
    #[inline]
    pub fn index(&mut self, number: u32) -> u32 {
        match self.slots.get(number as usize) {
            Some(&slot) if slot != 0 => slot - 1,
            _ => self.make(number),
        }
    }

    /// Returns the entry at an index that [`ByNumber::index`] returned.
    #[inline]
    pub fn at(&mut self, index: u32) -> &mut T {
        &mut self.entries[index as usize].1
    }

    #[cold]
    fn make(&mut self, number: u32) -> u32 {
        let new = crate::number::index(self.entries.len());
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

    /// Returns the entry of a number, or `None` if it was never created.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        let index = match self.slots.get(number as usize) {
            Some(&slot) => slot.checked_sub(1)?,
            None => *self.sparse.get(&number)?,
        };
        Some(&self.entries[index as usize].1)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns all entries, sorted by number.
    pub fn into_sorted(mut self) -> Vec<(u32, T)> {
        self.entries.sort_unstable_by_key(|&(number, _)| number);
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_very_large_numbers_have_entries() {
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
