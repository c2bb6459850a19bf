// SPDX-License-Identifier: GPL-2.0-only
//! ARENA map: up to 4 GiB of pages that the program allocates. The program may use any pointer into
//! it.
//!
//! The program sees a pointer into the arena as an address of user space, or as an address of the
//! kernel in the region. Both have the same low 32 bits. A cast is the instruction that converts
//! one into the other. Page 0 is allocated only if the program asks for its address, because the
//! low 32 bits of its pointer may be 0, and a cast would turn this pointer into NULL. Only the low
//! half of the requested user address (`map_extra`) is used, because no process maps the arena.
//!
//! The simulator also accepts pointers that were not cast. Some compilers (clang 19) omit the cast
//! when they turn stores into a memset. The kernel's verifier rejects a program without the cast.

use super::Work;
use crate::error::Error;
use crate::image::MapDef;
use crate::memory::{ARENA_SIZE, Exhausted, PAGE, Region, SharedFile};

pub(super) struct Arena {
    base: u64,
    user: u64,
    /// One bit per page, which is set if the page is allocated.
    taken: Vec<u64>,
    pages: u32,
    /// Page at which the search for a free page begins. No page below it is free, apart from page
    /// 0.
    first_free: u32,
    pub(super) work: Work,
    /// Whether a process shares the pages. All of them are then accessible.
    shared: bool,
}

/// Number of instructions by which each allocation of pages, and each freed page, reduces the
/// program's budget. The host's kernel needs about as much time for it as for these instructions.
const PAGE_WORK: usize = 64;

impl Arena {
    pub fn create(def: &MapDef, region: &Region) -> Result<Arena, Error> {
        let pages = def.max_entries;
        if pages == 0 || u64::from(pages) * PAGE > ARENA_SIZE {
            return Err(Error::new(format!(
                "an arena cannot have {pages} pages; expected 1 to {} pages",
                ARENA_SIZE / PAGE
            )));
        }
        if !def.extra.is_multiple_of(PAGE) {
            return Err(Error::new(format!(
                "the address {:#x} of the arena is not aligned to a page",
                def.extra
            )));
        }
        let base = match def.arena {
            Some(base) if region.is_arena(base) => base,
            Some(base) => return Err(Error::new(format!("{base:#x} is not the address of an arena"))),
            None => region
                .arena()
                .ok_or("the simulated address space has no room for another arena")?,
        };
        let user = base + (def.extra & (ARENA_SIZE - 1));
        let mut arena = Arena {
            base,
            user,
            taken: vec![0; pages.div_ceil(64) as usize],
            pages,
            first_free: 1,
            work: Work::default(),
            shared: false,
        };
        let globals = (def.arena_globals / PAGE) as u32;
        for page in pages.saturating_sub(globals)..pages {
            arena.set(page, true);
        }
        Ok(arena)
    }

    pub fn bases(&self) -> (u64, u64) {
        (self.base, self.user)
    }

    /// Shares all pages with a process. The process can use pages that the program has not
    /// allocated, as in the kernel, where the first access of the process allocates a page.
    ///
    /// # Safety
    /// See [`SharedFile`].
    pub unsafe fn share(&mut self, region: &Region, file: SharedFile) -> Result<(), Error> {
        let (low, size) = (self.low(0), u64::from(self.pages) * PAGE);
        let first = size.min(ARENA_SIZE - low);
        // SAFETY: as the caller promises.
        unsafe { region.share(self.base | low, first, file)? };
        if size > first {
            let offset = file.offset + first;
            // SAFETY: as above.
            unsafe { region.share(self.base, size - first, SharedFile { offset, ..file })? };
        }
        self.shared = true;
        Ok(())
    }

    fn is_allocated(&self, page: u32) -> bool {
        self.taken[page as usize / 64] >> (page % 64) & 1 != 0
    }

    fn set(&mut self, page: u32, taken: bool) {
        let bit = 1 << (page % 64);
        let word = &mut self.taken[page as usize / 64];
        *word = if taken { *word | bit } else { *word & !bit };
    }

    /// Returns the low 32 bits of a page's address.
    fn low(&self, page: u32) -> u64 {
        u64::from((self.user as u32).wrapping_add(page.wrapping_mul(PAGE as u32)))
    }

    fn page_index(&self, addr: u64) -> u32 {
        (addr as u32).wrapping_sub(self.user as u32) / PAGE as u32
    }

    /// Allocates `count` adjacent pages, at the address `at` unless `at` is 0. Returns the pointer
    /// that the program uses, or 0 if not enough adjacent pages are free.
    pub fn alloc(&mut self, region: &Region, at: u64, count: u32) -> Result<u64, Exhausted> {
        if count == 0 || count > self.pages {
            return Ok(0);
        }
        let last = self.pages - count;
        let page = if at != 0 {
            let page = self.page_index(at);
            self.work.add(count as usize);
            let free = page <= last && at.is_multiple_of(PAGE) && (page..page + count).all(|p| !self.is_allocated(p));
            if !free {
                return Ok(0);
            }
            page
        } else {
            let mut page = self.first_free;
            loop {
                if page > last {
                    return Ok(0);
                }
                let taken = (page..page + count).rev().find(|&p| self.is_allocated(p));
                self.work.add((page + count - taken.unwrap_or(page)) as usize);
                match taken {
                    Some(taken) => page = taken + 1,
                    None => break,
                }
            }
            if count == 1 {
                self.first_free = page + 1;
            }
            page
        };
        self.work.add(PAGE_WORK + count as usize / 4);
        self.commit(region, page, count)?;
        for page in page..page + count {
            self.set(page, true);
        }
        Ok(self.user & !0xffff_ffff | self.low(page))
    }

    /// Makes all of these pages accessible, or none of them if this fails. They are one range of
    /// addresses, or two ranges if the low 32 bits of the program's addresses wrap.
    fn commit(&self, region: &Region, page: u32, count: u32) -> Result<(), Exhausted> {
        if self.shared {
            return Ok(());
        }
        let (low, size) = (self.low(page), u64::from(count) * PAGE);
        let first = size.min(ARENA_SIZE - low);
        region.commit_arena(self.base | low, first)?;
        match size - first {
            0 => Ok(()),
            rest => region.commit_arena(self.base, rest),
        }
    }

    pub fn free(&mut self, region: &Region, at: u64, count: u32) -> Result<(), Exhausted> {
        let first = self.page_index(at);
        for page in first..first.saturating_add(count).min(self.pages) {
            self.work.add(1);
            if self.is_allocated(page) {
                self.work.add(PAGE_WORK);
                if self.shared {
                    // The next user of the page finds zeros, as in a new page.
                    let _ = region.fill(self.base | self.low(page), PAGE, 0);
                } else {
                    region.discard_arena(self.base | self.low(page), PAGE)?;
                }
                self.set(page, false);
                self.first_free = self.first_free.min(page.max(1));
            }
        }
        Ok(())
    }

    pub fn release(&self, region: &Region) {
        region.release_arena(self.base);
    }
}
