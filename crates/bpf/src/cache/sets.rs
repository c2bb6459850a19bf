// SPDX-License-Identifier: GPL-2.0-only
//! Lines that compete for a few sets of a cache: those of structures which all begin at multiples of a large power of two.
//!
//! A cache of `size` bytes and `ways` ways keeps `size / apart` of structures that lie `apart` bytes from each other, `ways` in each of
//! `size / apart / ways` sets, however much room is elsewhere. Which set a structure has is where the page allocator put it, here
//! its number: pages of structures made one after the other follow each other. Lines at different offsets of a structure have sets
//! of their own. What comes into a full set takes the place of what came there first; a use does not make a line younger, so that uses
//! of what is there need no bookkeeping.
//!
//! Left out: all else that wants room in these sets.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::lines::{Cache, LINE};

/// What a cache does with structures that compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// Sets that they have, and lines in each. 1 or more.
    pub count: u64,
    pub ways: u32,
    /// What their lines cost, which may be shorter than others; `memory_ns`, too, if no cache has one.
    pub first: Cache,
    /// What a line costs that is asked for right after another one of the same structure, while that is on its way.
    pub next: Cache,
}

/// Structures in an array that stand for ones that compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Competitors {
    /// First byte of the first, and bytes from one to the next: whole lines.
    pub base: u64,
    pub stride: u64,
    /// How many there are.
    pub count: u64,
    /// Lines at the beginning of each that compete.
    pub lines: u64,
}

impl Competitors {
    /// The structure's number, and which of its lines it is.
    fn find(&self, addr: u64) -> Option<(u64, u64)> {
        let offset = addr.checked_sub(self.base)?;
        let (number, line) = (offset / self.stride, offset % self.stride / LINE);
        (number < self.count && line < self.lines).then_some((number, line))
    }
}

/// Competing lines of one region, and which of them each cache has.
pub(crate) struct Conflicts {
    /// By the bit of the cache.
    sets: Vec<Sets>,
    arrays: RefCell<Vec<Competitors>>,
    /// By array, line of the structure, cache and set: what is there, the oldest first. Some of it may have been invalidated since.
    held: RefCell<Vec<VecDeque<u64>>>,
    /// How many lines of structures compete, over all arrays.
    kinds: Cell<u64>,
    /// By the bit of the cache: the line that came last, if it did not follow another one of its structure; else 0.
    last: Vec<Cell<u64>>,
}

/// A competing line has come into a cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Brought<'a> {
    /// What such lines cost there.
    pub prices: &'a Cache,
    /// The line that had to go.
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

    /// The cache with this bit gets the line of an address, unless it is there; `None` if the line competes with no other.
    pub fn bring(&self, bit: u32, addr: u64) -> Option<Brought<'_>> {
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
        // Sets of one kind of line follow each other, over all caches.
        let before: u64 = self.sets[..bit as usize].iter().map(|sets| sets.count).sum();
        let all: u64 = self.sets.iter().map(|sets| sets.count).sum();
        let place = ((kind + line) * all + before + number % count) as usize;
        let mut held = self.held.borrow_mut();
        if held.len() <= place {
            held.resize((self.kinds.get() * all) as usize, VecDeque::new());
        }
        let set = &mut held[place];
        let mut evicted = None;
        if !set.contains(&addr) {
            set.push_back(addr);
            if set.len() > *ways as usize {
                evicted = set.pop_front();
            }
        }
        Some(Brought {
            prices: if follows { next } else { first },
            evicted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two caches of two sets with two ways; one array of structures of two lines, one of lines.
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
    fn the_first_that_came_to_a_full_set_goes() {
        let conflicts = conflicts();
        let structure = |number: u64| 0x1000 + number * 2 * LINE;
        let evicted = |bit, addr| conflicts.bring(bit, addr).map(|brought| brought.evicted);
        for number in [0, 2, 1, 3] {
            assert_eq!(evicted(0, structure(number)), Some(None), "each set has room for two");
        }
        assert_eq!(evicted(0, structure(4)), Some(Some(structure(0))));
        assert_eq!(evicted(0, structure(2) + 8), Some(None), "it is still there");
        assert_eq!(
            evicted(0, structure(6)),
            Some(Some(structure(2))),
            "and none the younger for that"
        );
        assert_eq!(evicted(1, structure(4)), Some(None), "another cache");
        assert_eq!(evicted(0, 0x8000), Some(None), "a line of another kind");
    }

    #[test]
    fn other_lines_compete_with_none() {
        let conflicts = conflicts();
        for addr in [0xfff, 0x1000 + LINE, 0x1000 + 16 * LINE, 0x8000 + 8 * LINE] {
            assert_eq!(conflicts.bring(0, addr), None, "{addr:#x}");
        }
    }
}
