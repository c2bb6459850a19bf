// SPDX-License-Identifier: GPL-2.0-only
//! Allocates arenas, and makes pages accessible and inaccessible.

use super::exhausted::Exhausted;
use super::host::{Access, drop_contents, protect};
use super::host_maps::OutOfMaps;
use super::layout::*;
use super::limit::Use;
use super::region::Region;

impl Region {
    /// Allocates an arena of 4 GiB in which no page is accessible yet. Returns `None` if all arenas
    /// are in use.
    pub fn arena(&self) -> Option<u64> {
        let n = u64::from(self.arenas.get().trailing_ones());
        if n >= NR_ARENAS {
            return None;
        }
        self.arenas.set(self.arenas.get() | 1 << n);
        Some(self.base + ARENAS + n * ARENA_SIZE)
    }

    /// Frees an arena and its contents.
    pub(crate) fn release_arena(&self, base: u64) {
        let n = (base - self.base - ARENAS) / ARENA_SIZE;
        self.arenas.set(self.arenas.get() & !(1 << n));
        let first = (base - self.base) / PAGE;
        let words = (first / 64..(first + ARENA_SIZE / PAGE) / 64).map(|word| &self.mapped[word as usize]);
        let pages: u64 = words.map(|word| u64::from(word.get().count_ones())).sum();
        let pages = pages - self.shared_pages(base, ARENA_SIZE);
        self.discard(base, ARENA_SIZE);
        self.memory.uncharge(Use::Arenas, pages * PAGE);
    }

    /// Makes pages of an arena accessible and fills them with zeros.
    pub(crate) fn commit_arena(&self, addr: u64, size: u64) -> Result<(), Exhausted> {
        self.memory.charge(Use::Arenas, size)?;
        self.commit(addr, size)
            .inspect_err(|_| self.memory.uncharge(Use::Arenas, size))?;
        Ok(())
    }

    /// Frees pages of an arena and their contents.
    pub(crate) fn discard_arena(&self, addr: u64, size: u64) -> Result<(), Exhausted> {
        self.discard_part(addr, size)?;
        self.memory.uncharge(Use::Arenas, size);
        Ok(())
    }

    /// Makes inaccessible pages accessible and fills them with zeros. Fails if the host allows no
    /// more memory mappings.
    pub(super) fn commit(&self, addr: u64, size: u64) -> Result<(), OutOfMaps> {
        debug_assert!(addr.is_multiple_of(PAGE) && self.contains(addr));
        self.maps.split()?;
        self.protect(addr, size, Access::ReadWrite)
    }

    /// Makes pages inaccessible. Pages next to them stay accessible, so the host may have to split
    /// a memory mapping. Fails like [`Region::commit`].
    pub(super) fn discard_part(&self, addr: u64, size: u64) -> Result<(), OutOfMaps> {
        self.maps.split()?;
        self.discard(addr, size);
        Ok(())
    }

    /// Makes pages inaccessible and drops their contents. If the host refuses to make the pages
    /// inaccessible, later loads from them return zeros.
    pub(super) fn discard(&self, addr: u64, size: u64) {
        self.unshare(addr, size);
        let protected = self.protect(addr, size, Access::None);
        // SAFETY: `protect` has checked that the pages belong to this region.
        unsafe { drop_contents(self.host::<u8>(addr) as u64, size as usize) };
        if protected.is_err() {
            self.mark(addr, size, Access::None);
        }
    }

    /// Sets the access rights of pages. Fails if the host allows no more memory mappings or has no
    /// memory left. Panics if the pages do not lie in the region.
    pub(super) fn protect(&self, addr: u64, size: u64, access: Access) -> Result<(), OutOfMaps> {
        assert!(
            size <= SIZE && within(addr.wrapping_sub(self.base), size.next_multiple_of(PAGE), 0, SIZE),
            "{size} bytes at {addr:#x} are not in the region"
        );
        // SAFETY: the pages belong to this region.
        if !unsafe { protect(self.host::<u8>(addr) as u64, size as usize, access) } {
            return Err(OutOfMaps);
        }
        self.mark(addr, size, access);
        Ok(())
    }

    /// Records whether pages are accessible.
    pub(super) fn mark(&self, addr: u64, size: u64, access: Access) {
        let first = (addr - self.base) / PAGE;
        let end = first + size.div_ceil(PAGE);
        let mut page = first;
        while page < end {
            let (word, bit) = ((page / 64) as usize, page % 64);
            let nr = (64 - bit).min(end - page);
            let bits = (u64::MAX >> (64 - nr)) << bit;
            let old = self.mapped[word].get();
            self.mapped[word].set(if access == Access::None {
                old & !bits
            } else {
                old | bits
            });
            page += nr;
        }
    }
}
