// SPDX-License-Identifier: GPL-2.0-only
//! Model of cache lines that compete for a few sets of a set-associative cache.
//!
//! Structures compete if they begin at multiples of a large power of two. For example, a cache of
//! 512 KiB with 4 ways has 128 KiB per way. Lines that are 8 KiB apart then fall into only 16 sets
//! (128 / 8). These sets hold 64 lines (16 * 4), and the other sets of the cache do not help. In
//! general, a cache of `size` bytes holds `size / distance` such lines, in `size / distance / ways`
//! sets.
//!
//! In a real kernel, the page allocator determines to which set a structure belongs. The model uses
//! the structure's index instead, because structures that are allocated one after the other lie in
//! neighbouring pages. Cache lines at different offsets in a structure use different sets.
//!
//! A line that enters a full set evicts the line that entered first. Because replacement is first
//! in, first out, hits need no bookkeeping.
//!
//! The model ignores all other data that would use these sets.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::lines::{Cache, LINE};

/// Sets of a cache for competing structures, and the costs of the structures' cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// Number of sets for competing lines, at least 1.
    pub count: u64,
    /// Number of lines in each set, at least 1.
    pub ways: u32,
    /// Costs of fetching a competing line. They may differ from the costs of other lines.
    /// `memory_ns` is the cost if no cache holds the line.
    pub first: Cache,
    /// Costs of fetching a line right after another line of the same structure. They are lower,
    /// because the transfers of the two lines overlap.
    pub next: Cache,
}

/// An array of structures that compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitors {
    /// Address of the first structure, aligned to a cache line.
    pub base: u64,
    /// Distance between two structures in bytes, a multiple of the line size.
    pub stride: u64,
    /// Number of structures.
    pub count: u64,
    /// Number of competing cache lines of each structure. They are the first lines of the
    /// structure.
    pub lines: u64,
}

impl Competitors {
    /// Returns the index of the structure that contains `addr`, and the index of the cache line in
    /// the structure. Returns `None` if the line does not compete.
    fn find(&self, addr: u64) -> Option<(u64, u64)> {
        let offset = addr.checked_sub(self.base)?;
        let (number, line) = (offset / self.stride, offset % self.stride / LINE);
        (number < self.count && line < self.lines).then_some((number, line))
    }
}

/// All structures of a region that compete for sets, and the lines that each cache holds.
pub(crate) struct Conflicts {
    /// The sets of each cache. The index is the number of the cache's bit.
    sets: Vec<Sets>,
    arrays: RefCell<Vec<Competitors>>,
    /// Addresses of the lines in each set, oldest first. The index of a set is computed from the
    /// array of structures, the line's index in its structure, the cache, and the set's number in
    /// the cache. Lines stay in this list even if they are invalidated later.
    held: RefCell<Vec<VecDeque<u64>>>,
    /// Number of competing lines that one structure has, summed over all arrays.
    kinds: Cell<u64>,
    /// For each cache, by the number of its bit, the address of the line that entered last. 0 if
    /// that line had itself entered right after another line of the same structure.
    last: Vec<Cell<u64>>,
}

/// Result of [`Conflicts::enter`]: the costs for a competing line that enters a cache, and the line
/// that it evicts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entered<'a> {
    /// Costs of the entering line in the cache.
    pub prices: &'a Cache,
    /// The line that was evicted.
    pub evicted: Option<u64>,
}

impl Conflicts {
    pub fn new(sets: Vec<Sets>) -> Conflicts {
        assert!(sets.iter().all(|sets| sets.count > 0 && sets.ways > 0));
        Conflicts {
            last: vec![Cell::new(0); sets.len()],
            sets,
            arrays: RefCell::default(),
            held: RefCell::default(),
            kinds: Cell::new(0),
        }
    }

    pub fn add(&self, array: Competitors) {
        assert!(array.stride > 0 && array.stride.is_multiple_of(LINE) && array.base.is_multiple_of(LINE));
        self.arrays.borrow_mut().push(array);
        self.kinds.set(self.kinds.get() + array.lines);
    }

    /// Records that the line at `addr` enters the cache with this bit. If the cache already holds
    /// the line, nothing is evicted. Returns `None` if the line does not compete.
    pub fn enter(&self, bit: u32, addr: u64) -> Option<Entered<'_>> {
        let mut kind = 0;
        let (number, line, begin, end) = self.arrays.borrow().iter().find_map(|array| {
            let found = array.find(addr);
            if found.is_none() {
                kind += array.lines;
            }
            found.map(|(number, line)| {
                let begin = array.base + number * array.stride;
                (number, line, begin, begin + array.stride)
            })
        })?;
        let Sets {
            count,
            ways,
            first,
            next,
        } = &self.sets[bit as usize];
        let addr = addr / LINE * LINE;
        let last = &self.last[bit as usize];
        let follows = last.get() != addr && (begin..end).contains(&last.get());
        last.set(if follows { 0 } else { addr });
        // Sets are ordered by array, then by the line's index in its structure, then by cache.
        let before: u64 = self.sets[..bit as usize].iter().map(|sets| sets.count).sum();
        let all: u64 = self.sets.iter().map(|sets| sets.count).sum();
        let set_index = ((kind + line) * all + before + number % count) as usize;
        let mut held = self.held.borrow_mut();
        if held.len() <= set_index {
            held.resize((self.kinds.get() * all) as usize, VecDeque::new());
        }
        let set = &mut held[set_index];
        let mut evicted = None;
        if !set.contains(&addr) {
            set.push_back(addr);
            if set.len() > *ways as usize {
                evicted = set.pop_front();
            }
        }
        Some(Entered {
            prices: if follows { next } else { first },
            evicted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the conflicts of two caches, each with two sets of two ways. Two arrays compete for
    /// the sets: one of structures with two lines, and one of structures with one line.
    fn conflicts() -> Conflicts {
        let sets = Sets {
            count: 2,
            ways: 2,
            first: Cache::ALONE,
            next: Cache::ALONE,
        };
        let conflicts = Conflicts::new(vec![sets; 2]);
        for (base, stride, lines) in [(0x1000, 2 * LINE, 1), (0x8000, LINE, 1)] {
            conflicts.add(Competitors {
                base,
                stride,
                count: 8,
                lines,
            });
        }
        conflicts
    }

    #[test]
    fn a_full_set_evicts_the_line_that_entered_first() {
        let conflicts = conflicts();
        let structure = |number: u64| 0x1000 + number * 2 * LINE;
        let evicted = |bit, addr| conflicts.enter(bit, addr).map(|entered| entered.evicted);
        for number in [0, 2, 1, 3] {
            assert_eq!(
                evicted(0, structure(number)),
                Some(None),
                "each set has room for two lines"
            );
        }
        assert_eq!(evicted(0, structure(4)), Some(Some(structure(0))));
        assert_eq!(evicted(0, structure(2) + 8), Some(None), "the line is still in the set");
        assert_eq!(
            evicted(0, structure(6)),
            Some(Some(structure(2))),
            "a hit does not delay the eviction of its line"
        );
        assert_eq!(evicted(1, structure(4)), Some(None), "the other cache has its own sets");
        assert_eq!(
            evicted(0, 0x8000),
            Some(None),
            "a line of the other array uses other sets"
        );
    }

    #[test]
    fn lines_outside_of_the_structures_do_not_compete() {
        let conflicts = conflicts();
        for addr in [0xfff, 0x1000 + LINE, 0x1000 + 16 * LINE, 0x8000 + 8 * LINE] {
            assert_eq!(conflicts.enter(0, addr), None, "{addr:#x}");
        }
    }
}
