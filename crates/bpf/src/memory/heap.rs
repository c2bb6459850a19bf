// SPDX-License-Identifier: GPL-2.0-only
//! Allocates memory for BPF programs: whole pages for maps, and smaller objects in size classes.

use super::layout::*;
use super::limit::Use;
use super::region::Region;
use super::slab::SlabLayout;

/// The objects that were allocated for BPF programs.
#[derive(Default)]
pub(super) struct Heap {
    /// Addresses of the free objects of each size class.
    pub(super) free: [Vec<u64>; CLASSES.len()],
    /// For each chunk, its size class plus 1, or 0 if it is not in use. The index of a chunk is
    /// (address - base) / CHUNK.
    pub(super) class: Vec<u8>,
    /// Sizes of live objects that are larger than the largest size class, by address.
    pub(super) large: std::collections::BTreeMap<u64, u64>,
    /// Addresses of freed large objects, by size.
    pub(super) large_free: std::collections::BTreeMap<u64, Vec<u64>>,
}

impl Region {
    /// Allocates pages for BPF programs. The pages are accessible and filled with zeros. The pages
    /// next to them stay inaccessible. Returns `None` in three cases: the area for such pages is
    /// full, the memory limit is reached ([`Region::memory`]), or the host allows no more memory
    /// mappings.
    pub fn pages(&self, size: u64) -> Option<u64> {
        self.pages_for(Use::Maps, size)
    }

    fn pages_for(&self, purpose: Use, size: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(PAGE)?;
        let addr = self.bpf_next.get() + PAGE;
        let next = addr.checked_add(size)?.checked_add(PAGE)?;
        if next > self.base + BPF_END {
            // The area is full. The error is the same as for the memory limit. A run normally
            // reaches that limit first, because the area is far larger than the default limit.
            self.memory.mark_refused();
            return None;
        }
        self.bpf_next.set(next);
        self.commit_for(purpose, addr, size)?;
        Some(addr)
    }

    /// Gives the memory of these pages back to the host. The addresses of the pages are not reused.
    pub(crate) fn release_pages(&self, addr: u64, size: u64) {
        let size = size.max(1).next_multiple_of(PAGE);
        self.discard(addr, size);
        self.memory.uncharge(Use::Maps, size);
    }

    /// Makes pages accessible and charges their size to the purpose `purpose`.
    fn commit_for(&self, purpose: Use, addr: u64, size: u64) -> Option<()> {
        self.memory.charge(purpose, size).ok()?;
        let done = self.commit(addr, size);
        if done.is_err() {
            self.memory.uncharge(purpose, size);
        }
        done.ok()
    }

    /// Allocates an object of `size` bytes, filled with zeros and aligned to at least 16 bytes. If
    /// freed objects of this size exist, reuses the one that was freed last. Returns `None` if
    /// memory is exhausted.
    pub fn alloc(&self, size: u64) -> Option<u64> {
        let mut heap = self.heap.borrow_mut();
        let Some(class) = CLASSES.iter().position(|&class| size <= class) else {
            let addr = match heap.large_free.get_mut(&size).and_then(Vec::pop) {
                Some(addr) => {
                    if self
                        .commit_for(Use::Objects, addr, size.next_multiple_of(PAGE))
                        .is_none()
                    {
                        heap.large_free.entry(size).or_default().push(addr);
                        return None;
                    }
                    addr
                }
                None => self.pages_for(Use::Objects, size)?,
            };
            heap.large.insert(addr, size);
            return Some(addr);
        };
        if heap.free[class].is_empty() {
            self.grow(&mut heap, class)?;
        }
        let addr = heap.free[class].pop()?;
        // SAFETY: the object is in a chunk that `grow` has made accessible, and it is free.
        unsafe { std::ptr::write_bytes(self.host::<u8>(addr), 0, CLASSES[class] as usize) };
        Some(addr)
    }

    /// Allocates a chunk and adds its objects to the free objects of a size class.
    fn grow(&self, heap: &mut Heap, class: usize) -> Option<()> {
        let addr = self.bpf_next.get().next_multiple_of(CHUNK);
        if addr + CHUNK > self.base + BPF_END {
            self.memory.mark_refused();
            return None;
        }
        self.commit_for(Use::Objects, addr, CHUNK)?;
        self.bpf_next.set(addr + CHUNK);
        let index = ((addr - self.base) / CHUNK) as usize;
        if heap.class.len() <= index {
            heap.class.resize(index + 1, 0);
        }
        heap.class[index] = class as u8 + 1;
        let nr = CHUNK / CLASSES[class];
        heap.free[class].extend((0..nr).rev().map(|i| addr + i * CLASSES[class]));
        Some(())
    }

    /// Frees an object that `alloc` returned. Panics unless an object starts at `addr`. A caller
    /// must therefore check the address if it comes from a policy.
    pub fn free(&self, addr: u64) {
        if let Some(freed) = &mut *self.freed.borrow_mut() {
            freed.push(addr);
        }
        let mut heap = self.heap.borrow_mut();
        if let Some(size) = heap.large.remove(&addr) {
            self.discard(addr, size.next_multiple_of(PAGE));
            self.memory.uncharge(Use::Objects, size.next_multiple_of(PAGE));
            heap.large_free.entry(size).or_default().push(addr);
            return;
        }
        let offset = addr.wrapping_sub(self.base);
        let class = heap
            .class
            .get((offset / CHUNK) as usize)
            .map_or(0, |&class| usize::from(class));
        // A later `alloc` clears the whole object. If the address lay inside of an object, `alloc`
        // could write beyond the end of the chunk.
        assert!(
            class != 0 && ((offset % CHUNK) as u32).is_multiple_of(CLASSES[class - 1] as u32),
            "free of {addr:#x}, which was not allocated"
        );
        heap.free[class - 1].push(addr);
    }

    /// Starts recording the addresses of freed objects for [`Region::take_freed`].
    pub(crate) fn record_freed(&self) {
        *self.freed.borrow_mut() = Some(Vec::new());
    }

    /// Removes the last address from the list of freed objects and returns it.
    pub(crate) fn take_freed(&self) -> Option<u64> {
        self.freed.borrow_mut().as_mut()?.pop()
    }

    /// Returns the start and the size of the object that contains an address. The object may be
    /// live or freed. `alloc` has rounded the size up.
    pub(crate) fn allocation_at(&self, addr: u64) -> Option<(u64, u64)> {
        let heap = self.heap.borrow();
        let offset = addr.checked_sub(self.base)?;
        if let Some(class) = heap.class.get((offset / CHUNK) as usize).filter(|&&class| class != 0) {
            let size = CLASSES[usize::from(*class) - 1];
            return Some((addr - offset % CHUNK % size, size));
        }
        let (&start, &size) = heap.large.range(..=addr).next_back()?;
        (addr - start < size).then_some((start, size))
    }

    /// Returns the number of the slab that contains an address, the index of the object in the
    /// slab, and the object's address. Slabs are numbered in the order of their creation.
    pub(crate) fn object_at(&self, addr: u64) -> Option<(usize, u64, u64)> {
        let slabs = self.slabs.borrow();
        let n = slabs.iter().position(|slab| addr.wrapping_sub(slab.base) < slab.size)?;
        let slab = &slabs[n];
        let index = (addr - slab.base) / slab.stride;
        Some((n, index, slab.base + index * slab.stride))
    }

    /// Returns all slabs in the order of their creation.
    pub(crate) fn slabs(&self) -> Vec<SlabLayout> {
        self.slabs.borrow().clone()
    }

    /// Returns whether the address lies in the part of the region for maps, globals and objects of
    /// BPF programs.
    pub(crate) fn in_bpf_area(&self, addr: u64) -> bool {
        (self.base + BPF..self.base + BPF_END).contains(&addr)
    }

    /// Returns whether the address is the first one of an arena.
    pub(crate) fn is_arena(&self, addr: u64) -> bool {
        self.in_arenas(addr) && (addr - self.base - ARENAS).is_multiple_of(ARENA_SIZE)
    }

    /// Returns whether the address lies in an arena.
    pub(crate) fn in_arenas(&self, addr: u64) -> bool {
        (self.base + ARENAS..self.base + ARENAS + NR_ARENAS * ARENA_SIZE).contains(&addr)
    }
}
