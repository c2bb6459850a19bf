// SPDX-License-Identifier: GPL-2.0-only
//! Model of the CPUs' caches for the memory in the region, which BPF programs and the simulated
//! kernel share.
//!
//! This file records which caches hold a copy of each cache line. It computes the simulated time
//! that a load or store takes if the line must first move from one cache to another.
//!
//! Each 64-byte cache line has one word, with a bit for each cache. The bit is set if the cache
//! holds the line. A load needs the bit of its CPU's cache. If this bit is not set, the line comes
//! from the nearest cache that holds it. A store needs the bit of its CPU's cache, and no other bit
//! may be set: all other copies are invalidated first. The cost of a store is the cost of
//! invalidating the farthest copy. This is MESI without evictions: a line stays in a cache until
//! another CPU writes to it. The first access to a line is free. Only lines of structures that
//! compete for a few sets ([`super::sets`]) can be evicted. If no cache holds such a line any more,
//! it comes from memory.
//!
//! Each core has one cache. On a machine with more than [`MAX_CACHES`] cores, several neighbouring
//! cores share a bit, as in the directories of large machines (coarse vectors; Gupta, Weber, Mowry,
//! ICPP 1990).
//!
//! To which line is an access charged? To the line of the access's base register, moved by whole
//! lines (`offset / 64`, rounded down). This is exact if the object begins at a line boundary or
//! lies within one line, as kernel and map objects do. It lets accesses to neighbouring fields
//! share one test of a cache's bit; otherwise, the emitted code would spend more time on these
//! tests than on the accesses.
//!
//! The word of a cache line is at `bias + (address / LINE) * 8`, where `bias` is a constant of the
//! region. The code that the JIT emits computes this address with two shifts and an addition.
//! Accesses to BPF stacks are always free, and so are reads through NULL, which return zeros. The
//! words of the cache lines of both are marked as private.

use crate::error::Error;
use std::cell::Cell;

use super::sets::{Competitors, Conflicts, Sets};
use super::watch::{Moves, Place, Watch};
use crate::memory::host;
use crate::memory::layout::{REACH, SIZE, in_reach};

/// Size of a cache line in bytes. The Pentium III has lines of 32 bytes, later x86 CPUs have lines
/// of 64 bytes. The model uses one size for all machines, which keeps the table simple.
pub const LINE: u64 = 64;
/// Number of bits in the word of a cache line that stand for caches.
pub const MAX_CACHES: u32 = 63;
/// Word of a private cache line. All its bits are set, as if every cache held the line.
const PRIVATE: u64 = u64::MAX;
/// Size in bytes of the words for the region and for the inaccessible margins on both sides of it.
const RESERVED: usize = ((SIZE + 2 * REACH) / LINE * 8) as usize;

/// Returns an address in the cache line to which an access at `base + offset` is charged.
#[inline(always)]
pub(crate) fn line_address(base: u64, offset: i32) -> u64 {
    base.wrapping_add(whole_lines(offset) as u64)
}

/// Returns the offset in bytes, rounded down to a multiple of the cache line size.
#[inline(always)]
pub(crate) fn whole_lines(offset: i32) -> i64 {
    i64::from(offset).div_euclid(LINE as i64) * LINE as i64
}

/// The caches that are near to one CPU, and this CPU's costs of fetching a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bit of the cache of the CPU's core.
    pub own: u64,
    /// Bits of the cores that share the CPU's last-level cache, including `own`.
    pub llc: u64,
    /// Bits of the cores of the CPU's NUMA node, including `own`.
    pub node: u64,
    /// Cost in ns of fetching a cache line from a core with the same last-level cache.
    pub llc_ns: u32,
    /// Cost in ns of fetching a cache line from another core of the same node.
    pub node_ns: u32,
    /// Cost in ns of fetching a cache line from another node.
    pub remote_ns: u32,
    /// Cost in ns of fetching a cache line from memory. A line comes from memory if several cores
    /// hold it and none of them shares this CPU's last-level cache. This number is also the minimum
    /// cost of invalidating copies that several cores hold, unless all of them share this CPU's
    /// last-level cache. If the number is 0, such a line comes from the nearest cache instead.
    pub memory_ns: u32,
}

/// Returns whether several caches hold a cache line, which means that the line is clean.
fn is_shared(holders: u64) -> bool {
    holders & holders.wrapping_sub(1) != 0
}

impl Cache {
    /// The cache of a machine that has only one cache. Every access is free.
    pub(crate) const ALONE: Cache = Cache {
        own: 1,
        llc: 1,
        node: 1,
        llc_ns: 0,
        node_ns: 0,
        remote_ns: 0,
        memory_ns: 0,
    };

    /// Returns the cost of a load, which fetches the line from the nearest of its holders.
    #[inline]
    fn nearest(&self, holders: u64) -> u64 {
        if holders & self.llc != 0 {
            return u64::from(self.llc_ns);
        }
        if self.memory_ns > 0 && is_shared(holders) {
            return u64::from(self.memory_ns);
        }
        let near = holders & self.node != 0;
        u64::from(if near { self.node_ns } else { self.remote_ns })
    }

    /// Returns the cost of a store, which invalidates all other copies: the cost for the farthest
    /// copy.
    #[inline]
    fn farthest(&self, holders: u64) -> u64 {
        if holders & !self.llc == 0 {
            return u64::from(self.llc_ns);
        }
        let far = holders & !self.node != 0;
        let ns = if far { self.remote_ns } else { self.node_ns };
        u64::from(if is_shared(holders) { ns.max(self.memory_ns) } else { ns })
    }
}

/// Number of cache lines that were fetched or invalidated, and the total cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    pub count: u64,
    pub ns: u64,
}

/// Conflicts and observers that a transfer of a cache line considers. Most runs have none.
#[derive(Default)]
struct Special {
    conflicts: Option<Conflicts>,
    watch: Option<Watch>,
}

/// The cache lines of one region.
pub struct Lines {
    start: *mut u8,
    /// Constant from which the address of a cache line's word is computed: `bias + (address / LINE)
    /// * 8`.
    bias: u64,
    caches: Box<[Cache]>,
    /// `None` on most runs, so that a transfer needs one test only.
    special: Option<Box<Special>>,
    transfers: Cell<Transfers>,
}

impl Lines {
    /// Allocates the words for the region at `base`. Their host address is `at` if it is free.
    pub(crate) fn new(base: u64, at: u64) -> Result<Lines, Error> {
        let start = host::zeros(at, RESERVED).ok_or(
            "cannot reserve 16 GiB of address space for cache lines: is the process's memory limited (ulimit -v)?",
        )?;
        Ok(Lines {
            start,
            bias: (start as u64).wrapping_sub((base - REACH) / LINE * 8),
            caches: Box::new([Cache::ALONE]),
            special: None,
            transfers: Cell::default(),
        })
    }

    /// Sets each CPU's caches. Must be called before the first access.
    pub fn set_caches(&mut self, caches: Vec<Cache>) {
        assert!(!caches.is_empty(), "the caller describes at least one CPU");
        assert!(caches.iter().all(|cache| cache.own & PRIVATE << MAX_CACHES == 0));
        self.caches = caches.into();
    }

    /// Sets how many competing cache lines each cache can hold. Element `n` describes the cache
    /// with bit `n`. Must be called before the first access.
    pub fn set_sets(&mut self, sets: Vec<Sets>) {
        self.special.get_or_insert_default().conflicts = Some(Conflicts::new(sets));
    }

    /// Makes the cache lines of these structures compete for sets. Has no effect unless
    /// [`Lines::set_sets`] was called.
    pub fn add_competitors(&self, structures: Competitors) {
        if let Some(conflicts) = self.conflicts() {
            conflicts.add(structures);
        }
    }

    /// Returns whether no cache line is ever transferred, because the machine has only one cache.
    pub(crate) fn never_move(&self) -> bool {
        self.conflicts().is_none() && self.caches.iter().all(|cache| cache.own == self.caches[0].own)
    }

    /// Returns whether cache lines can evict each other.
    pub(crate) fn compete(&self) -> bool {
        self.conflicts().is_some()
    }

    fn conflicts(&self) -> Option<&Conflicts> {
        self.special.as_ref()?.conflicts.as_ref()
    }

    fn watch(&self) -> Option<&Watch> {
        self.special.as_ref()?.watch.as_ref()
    }

    /// Records from now on which data causes transfers. Must be called before maps are created.
    pub fn watch_transfers(&mut self) {
        self.special.get_or_insert_default().watch = Some(Watch::default());
    }

    /// Returns the recorded transfers of each place. Empty unless [`Lines::watch_transfers`] was
    /// called.
    pub fn moved(&self) -> Vec<(Place, Moves)> {
        self.watch().map_or(Vec::new(), Watch::moved)
    }

    /// Sets the address of the access that the program is making, for the record of a transfer.
    pub(crate) fn set_access(&self, addr: Option<u64>) {
        if let Some(watch) = self.watch() {
            watch.set_access(addr);
        }
    }

    /// Registers `len` bytes at `start` as values of the map `handle`. A value begins every `stride`
    /// bytes.
    pub(crate) fn register_values(&self, start: u64, len: u64, stride: u64, handle: u64) {
        if let Some(watch) = self.watch() {
            watch.register(start, len, stride, handle);
        }
    }

    /// Returns the number from which the address of a cache line's word is computed:
    /// `bias + (address / LINE) * 8`.
    pub(crate) fn bias(&self) -> u64 {
        self.bias
    }

    /// Returns which caches are near to this CPU, and the costs.
    #[inline]
    pub(crate) fn cache(&self, cpu: u32) -> &Cache {
        self.caches.get(cpu as usize).unwrap_or(&self.caches[0])
    }

    /// Returns the word of the cache line at `addr`.
    ///
    /// # Safety
    /// As for [`Lines::load`].
    #[inline]
    unsafe fn word(&self, addr: u64) -> &Cell<u64> {
        debug_assert!(in_reach(self.region_base(), addr), "{addr:#x} is not in the region");
        // SAFETY: as the caller promises, the word lies in the mapping. Only this thread uses it.
        unsafe { &*(self.bias.wrapping_add(addr / LINE * 8) as *const Cell<u64>) }
    }

    /// Returns the host address of a cache line's word, for prefetching.
    #[inline]
    pub fn host_address(&self, addr: u64) -> *const u8 {
        self.bias.wrapping_add(addr / LINE * 8) as *const u8
    }

    fn region_base(&self) -> u64 {
        (self.start as u64).wrapping_sub(self.bias) / 8 * LINE + REACH
    }

    /// Charges a load by `cpu` from the cache line at `addr`. Fetches the line if the CPU's cache
    /// does not hold it. Returns the cost in ns.
    ///
    /// # Safety
    /// `addr` lies in the region of this model, or within [`REACH`] of it.
    #[inline]
    pub unsafe fn load(&self, cpu: u32, addr: u64) -> u64 {
        let cache = self.cache(cpu);
        // SAFETY: as the caller promises.
        unsafe {
            if self.word(addr).get() & cache.own != 0 {
                return 0;
            }
            self.fetch(cache, addr)
        }
    }

    /// Charges a load by `cpu` from the first cache line of some objects of an array, like
    /// [`Lines::load`]. The array starts at `base`, and an object begins every `stride` bytes. Both
    /// numbers are multiples of the size of a cache line. Returns the number of loads and their total
    /// cost in ns.
    ///
    /// # Safety
    /// [`Lines::load`] may be called for `base + index * stride` with each index.
    #[inline]
    pub unsafe fn load_each(&self, cpu: u32, base: u64, stride: u64, indexes: impl Iterator<Item = u64>) -> (u64, u64) {
        debug_assert!(base.is_multiple_of(LINE) && stride.is_multiple_of(LINE));
        let cache = self.cache(cpu);
        let (mut nr, mut total) = (0, 0);
        if self.special.is_some() {
            indexes.for_each(|index| {
                nr += 1;
                // SAFETY: as the caller promises.
                total += unsafe { self.load(cpu, base + index * stride) };
            });
            return (nr, total);
        }
        // The loop computes the address of a word directly from the index.
        let (first, step, own) = (self.host_address(base) as u64, stride / LINE * 8, cache.own);
        let mut fetched = 0;
        indexes.for_each(|index| {
            nr += 1;
            debug_assert!(in_reach(self.region_base(), base + index * stride));
            // SAFETY: as in `word`, because this is the word of the line at `base + index * stride`.
            let word = unsafe { &*((first + index * step) as *const Cell<u64>) };
            let holders = word.get();
            if holders & own == 0 {
                word.set(holders | own);
                if holders != 0 {
                    fetched += 1;
                    total += cache.nearest(holders);
                }
            }
        });
        let Transfers { count, ns } = self.transfers.get();
        self.transfers.set(Transfers {
            count: count + fetched,
            ns: ns + total,
        });
        (nr, total)
    }

    /// Charges a store by `cpu` to the cache line at `addr`. Invalidates all other copies of the
    /// line. Returns the cost in ns.
    ///
    /// # Safety
    /// `addr` lies in the region of this model, or within [`REACH`] of it.
    #[inline]
    pub unsafe fn store(&self, cpu: u32, addr: u64) -> u64 {
        let cache = self.cache(cpu);
        // SAFETY: as the caller promises.
        unsafe {
            if self.word(addr).get() == cache.own {
                return 0;
            }
            self.claim(cache, addr)
        }
    }

    /// Like [`Lines::store`], for the cache line at `addr` and the next one.
    ///
    /// # Safety
    /// `addr` and `addr + LINE` are addresses for which [`Lines::store`] may be called.
    #[inline]
    pub unsafe fn store_two(&self, cpu: u32, addr: u64) -> u64 {
        let cache = self.cache(cpu);
        // SAFETY: as the caller promises.
        unsafe {
            let (first, second) = (self.word(addr), self.word(addr + LINE));
            if first.get() == cache.own && second.get() == cache.own {
                return 0;
            }
            self.claim(cache, addr) + self.claim(cache, addr + LINE)
        }
    }

    /// Moves the cache line at `addr` to the cache of `cpu` free of charge. The caller charges for
    /// the transfer.
    ///
    /// # Safety
    /// `addr` lies in the region of this model, or within [`REACH`] of it.
    pub unsafe fn transfer_to(&self, cpu: u32, addr: u64) {
        // SAFETY: as the caller promises.
        let word = unsafe { self.word(addr) };
        if word.get() != PRIVATE {
            word.set(self.cache(cpu).own);
        }
    }

    /// # Safety
    /// As for [`Lines::load`].
    #[inline(never)]
    unsafe fn fetch(&self, cache: &Cache, addr: u64) -> u64 {
        // SAFETY: as the caller promises.
        let word = unsafe { self.word(addr) };
        let holders = word.get();
        word.set(holders | cache.own);
        match (&self.special, holders) {
            (None, 0) => 0,
            (None, _) => self.count(cache.nearest(holders)),
            (Some(special), _) => self.fetch_special(special, cache, addr, holders),
        }
    }

    /// # Safety
    /// As for [`Lines::load`].
    #[inline(never)]
    unsafe fn claim(&self, cache: &Cache, addr: u64) -> u64 {
        // SAFETY: as the caller promises.
        let word = unsafe { self.word(addr) };
        let holders = word.get();
        if holders == PRIVATE || holders == cache.own {
            return 0;
        }
        word.set(cache.own);
        match (&self.special, holders) {
            (None, 0) => 0,
            (None, _) => self.count(cache.farthest(holders)),
            (Some(special), _) => self.claim_special(special, cache, addr, holders),
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch_special(&self, special: &Special, cache: &Cache, addr: u64, holders: u64) -> u64 {
        let ns = match (self.enter(special, cache, addr), holders) {
            (None, 0) => return 0,
            (None, _) => cache.nearest(holders),
            (Some(prices), 0) => u64::from(prices.memory_ns),
            (Some(prices), _) => prices.nearest(holders),
        };
        if let Some(watch) = &special.watch {
            watch.record(addr, false, ns);
        }
        self.count(ns)
    }

    #[cold]
    #[inline(never)]
    fn claim_special(&self, special: &Special, cache: &Cache, addr: u64, holders: u64) -> u64 {
        let ns = match (self.enter(special, cache, addr), holders) {
            (None, 0) => return 0,
            (None, _) => cache.farthest(holders),
            (Some(prices), 0) => u64::from(prices.memory_ns),
            (Some(prices), _) => prices.farthest(holders),
        };
        if let Some(watch) = &special.watch {
            watch.record(addr, true, ns);
        }
        self.count(ns)
    }

    /// Records that a cache line enters a cache. If the line competes for sets, this may evict
    /// another line, and the function returns the costs of the entering line. Otherwise returns
    /// `None`.
    fn enter<'a>(&self, special: &'a Special, cache: &Cache, addr: u64) -> Option<&'a Cache> {
        let conflicts = special.conflicts.as_ref()?;
        let entered = conflicts.enter(cache.own.trailing_zeros(), addr / LINE * LINE)?;
        if let Some(evicted) = entered.evicted {
            // SAFETY: the evicted line has entered the cache by an access to an address in it.
            let word = unsafe { self.word(evicted) };
            word.set(word.get() & !cache.own);
        }
        Some(entered.prices)
    }

    fn count(&self, ns: u64) -> u64 {
        let Transfers { count, ns: total } = self.transfers.get();
        self.transfers.set(Transfers {
            count: count + 1,
            ns: total + ns,
        });
        ns
    }

    /// Makes accesses to these bytes free.
    pub(crate) fn make_private(&self, addr: u64, len: u64) {
        assert!(in_reach(self.region_base(), addr) && in_reach(self.region_base(), addr + len));
        for line in (addr / LINE..(addr + len).div_ceil(LINE)).map(|line| line * LINE) {
            // SAFETY: the lines lie between two addresses that are near to the region.
            unsafe { self.word(line).set(PRIVATE) };
        }
    }

    /// Returns the number and the cost of all transfers so far.
    pub fn transfers(&self) -> Transfers {
        self.transfers.get()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and nothing uses it after the drop.
        unsafe { host::release_zeros(self.start, RESERVED) };
    }
}

#[cfg(test)]
mod tests;
