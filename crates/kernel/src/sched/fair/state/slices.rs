// SPDX-License-Identifier: GPL-2.0-only
//! The custom slices of the entities in a timeline. The shortest and the longest slice of a queue
//! limit how long its current entity runs, and how much lag its entities keep. Linux finds them in
//! the nodes of its red-black tree (`min_slice`, `max_slice`).

use std::collections::BTreeMap;

/// Shortest and longest custom slice, ns (__setparam_fair).
const CUSTOM_SLICES: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;

/// Returns the custom slice that a task gets if it requests `ns`. 0 requests the base slice.
pub(crate) fn custom_slice(ns: u64) -> u64 {
    match ns {
        0 => 0,
        ns => ns.clamp(*CUSTOM_SLICES.start(), *CUSTOM_SLICES.end()),
    }
}

/// Lengths of the custom slices in a timeline. Entities with the base slice are not in it.
#[derive(Default)]
pub(crate) struct Slices {
    /// Number of entities with each length, ns.
    counts: BTreeMap<u64, u32>,
    total: u32,
}

impl Slices {
    /// Adds the slice of an entity; 0 is the base slice.
    #[inline]
    pub(crate) fn insert(&mut self, slice: u64) {
        if slice != 0 {
            self.total += 1;
            *self.counts.entry(slice).or_insert(0) += 1;
        }
    }

    /// Removes the slice of an entity; 0 is the base slice.
    #[inline]
    pub(crate) fn remove(&mut self, slice: u64) {
        if slice != 0 {
            self.total -= 1;
            let count = self.counts.get_mut(&slice).expect("the slice was inserted");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&slice);
            }
        }
    }

    /// Returns the number of entities.
    #[inline]
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    pub(crate) fn shortest(&self) -> Option<u64> {
        self.counts.keys().next().copied()
    }

    pub(crate) fn longest(&self) -> Option<u64> {
        self.counts.keys().next_back().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_slices_are_counted() {
        let mut slices = Slices::default();
        for slice in [500_000, 0, 200_000, 500_000] {
            slices.insert(slice);
        }
        assert_eq!(
            (slices.total(), slices.shortest(), slices.longest()),
            (3, Some(200_000), Some(500_000))
        );
        slices.remove(500_000);
        slices.remove(0);
        assert_eq!((slices.total(), slices.longest()), (2, Some(500_000)));
        slices.remove(500_000);
        slices.remove(200_000);
        assert_eq!((slices.total(), slices.shortest(), slices.longest()), (0, None, None));
    }

    #[test]
    fn requested_slices_are_limited() {
        let requests = [0, 1, 99_999, 100_000, 3_000_000, 100_000_000, u64::MAX];
        let expected = [0, 100_000, 100_000, 100_000, 3_000_000, 100_000_000, 100_000_000];
        assert_eq!(requests.map(custom_slice), expected);
    }
}
