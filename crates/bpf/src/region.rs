// SPDX-License-Identifier: GPL-2.0-only
//! The address space of one simulated machine.
//!
//! Everything a policy can point at lies in one reservation of 64 GiB, aligned to its size: kernel objects, maps, globals,
//! objects allocated by BPF code, arenas and BPF stacks. So one compare tells whether an address is the policy's business,
//! and a policy cannot reach the simulator's own memory. Inside, addresses are handed out in order of request from fixed
//! offsets, and the first machine of a process sits at the same address on every host: pointers are visible to policies
//! and must not differ between runs. What is not handed out is inaccessible, so a wild access inside faults in hardware.
//!
//! Addresses here are real addresses; no translation. The area map (offsets from the base):
//!
//! | from | area |
//! |---|---|
//! | 0 | guard |
//! | 64 KiB | zeros, read only: what loads through NULL see |
//! | 1 MiB | pages and small objects of BPF programs: maps, globals, stacks, hash elements, kptrs |
//! | 16 GiB | kernel objects, in slabs |
//! | 32 GiB | seven arenas of 4 GiB |
//! | 60 GiB | guard |

mod maps;
mod slab;

use std::cell::{Cell, RefCell};

use crate::func::{Fault, FaultKind};
use crate::lines::Lines;
use maps::Maps;
pub use maps::OutOfMaps;
use slab::Places;
pub use slab::Slab;

/// Size and alignment of a region in bytes.
pub const SIZE: u64 = 1 << SHIFT;
/// log2 of [`SIZE`]: `addr >> SHIFT` is equal for all addresses of a region and for no others.
pub const SHIFT: u32 = 36;
/// Where the first region goes; the next ones are tried at a stride of twice [`SIZE`].
const FIRST_BASE: u64 = 0x2000_0000_0000;
const SLOTS: u64 = 256;

/// Page size of the region (arenas count in it).
pub const PAGE: u64 = 4096;
/// Loads through a base register below this read zeros, as the kernel's PROBE_MEM loads do.
pub const NULL_LIMIT: u64 = 64 << 10;
/// A BPF load or store reaches this far from its base register: the offset field is 16 bits signed.
pub const REACH: u64 = 64 << 10;

const RESERVED: usize = (SIZE + 2 * REACH) as usize;
const ZEROS: u64 = 64 << 10;
const ZEROS_SIZE: u64 = 2 * REACH;
const BPF: u64 = 1 << 20;
const KERNEL: u64 = 16 << 30;
const ARENAS: u64 = 32 << 30;
/// An arena is this large and aligned to it, so that a cast is `base | low 32 bits`.
pub const ARENA_SIZE: u64 = 4 << 30;
const NR_ARENAS: u64 = 7;
/// Where the words of cache lines lie, beyond the region.
const LINES: u64 = SIZE + (1 << 30);

/// Small objects come from chunks of this size, each of one size class.
const CHUNK: u64 = 64 << 10;
const CLASSES: [u64; 19] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768,
];

/// One machine's address space. Not shared between threads.
pub struct Region {
    base: u64,
    /// One bit a page: is it accessible?
    mapped: Box<[Cell<u64>]>,
    /// Next free address of the BPF area and of the kernel area.
    bpf_next: Cell<u64>,
    kernel_next: Cell<u64>,
    /// One bit an arena: taken?
    arenas: Cell<u8>,
    heap: RefCell<Heap>,
    slabs: RefCell<Vec<Places>>,
    lines: Lines,
    /// Checked mode: what was freed since somebody asked.
    freed: RefCell<Option<Vec<u64>>>,
    maps: Maps,
}

#[derive(Default)]
struct Heap {
    free: [Vec<u64>; CLASSES.len()],
    /// Size class of each chunk, by (address - base) / CHUNK; 0 = not a chunk, else class + 1.
    class: Vec<u8>,
    /// Objects larger than the largest class, and what was given back of them.
    large: std::collections::BTreeMap<u64, u64>,
    large_free: std::collections::BTreeMap<u64, Vec<u64>>,
}

/// Asks the host for huge pages under memory that, if there is much of it, is used all over: finding so many small pages takes
/// as long as getting what is there. A hint; what is smaller than a huge page stays as it is.
pub fn want_huge_pages(start: *const u8, bytes: usize) {
    const HUGE: usize = 2 << 20;
    let first = (start as usize).next_multiple_of(HUGE);
    let end = (start as usize + bytes) / HUGE * HUGE;
    if first < end {
        // SAFETY: changes nothing but how the pages come to be there. It fails on hosts without them, which is as well.
        unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
    }
}

impl Region {
    /// Reserves a region. Fails when the host has no room for 64 GiB of addresses.
    pub fn new() -> Result<Region, String> {
        let base = (0..SLOTS)
            .map(|slot| FIRST_BASE + slot * 2 * SIZE)
            .find(|&base| {
                // Reserved with a margin on both sides: an offset may reach beyond a base register that was checked.
                let start = base - REACH;
                let got = unsafe {
                    libc::mmap(
                        start as *mut libc::c_void,
                        RESERVED,
                        libc::PROT_NONE,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE,
                        -1,
                        0,
                    )
                };
                if got != libc::MAP_FAILED && got as u64 != start {
                    // A kernel before 4.17 takes the address as a hint.
                    unsafe { libc::munmap(got, RESERVED) };
                }
                got as u64 == start
            })
            .ok_or("cannot reserve 64 GiB of address space: is the process limited (ulimit -v)?")?;
        let region = Region {
            lines: Lines::new(base, base + LINES)?,
            base,
            mapped: (0..SIZE / PAGE / 64).map(|_| Cell::new(0)).collect(),
            bpf_next: Cell::new(base + BPF),
            kernel_next: Cell::new(base + KERNEL),
            arenas: Cell::new(0),
            heap: RefCell::default(),
            slabs: RefCell::default(),
            freed: RefCell::default(),
            maps: Maps::default(),
        };
        want_huge_pages((base + KERNEL) as *const u8, (ARENAS - KERNEL) as usize);
        let zeros = region.protect(base + ZEROS, ZEROS_SIZE, libc::PROT_READ);
        zeros.map_err(|_| "the host gives no memory: is the process limited (ulimit -v)?")?;
        region.lines.make_private(base + ZEROS, ZEROS_SIZE);
        Ok(region)
    }

    /// First address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The cache lines of this region.
    #[inline]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    pub fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }

    /// What `addr >> SHIFT` is for addresses of this region.
    pub fn tag(&self) -> u64 {
        self.base >> SHIFT
    }

    /// Is the address in this region (accessible or not)?
    #[inline]
    pub fn contains(&self, addr: u64) -> bool {
        addr >> SHIFT == self.base >> SHIFT
    }

    /// Middle of the read-only zeros: everything within [`REACH`] of it reads 0.
    pub fn zeros(&self) -> u64 {
        self.base + ZEROS + REACH
    }

    /// May a policy read (or write) these bytes? Zero bytes are always fine.
    #[inline]
    pub fn check(&self, addr: u64, len: u64, write: bool) -> Result<(), Fault> {
        let offset = addr.wrapping_sub(self.base);
        // Only the zeros lie below the BPF area.
        let writable = offset >= BPF || !write;
        if offset < SIZE && len <= PAGE - offset % PAGE && self.is_mapped(offset / PAGE) && writable {
            return Ok(());
        }
        self.check_pages(addr, len, write)
    }

    /// The same for any number of pages, and for none.
    fn check_pages(&self, addr: u64, len: u64, write: bool) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        let offset = addr.wrapping_sub(self.base);
        if offset < SIZE && len <= SIZE - offset && (offset >= BPF || !write) {
            let (first, last) = (offset / PAGE, (offset + len - 1) / PAGE);
            if (first..=last).all(|page| self.is_mapped(page)) {
                return Ok(());
            }
        }
        Err(self.bad_access(addr, len, write))
    }

    #[cold]
    fn bad_access(&self, addr: u64, len: u64, write: bool) -> Fault {
        let verb = if write { "store" } else { "load" };
        let what = if addr < NULL_LIMIT {
            "a NULL pointer"
        } else {
            "a bad address"
        };
        Fault::new(
            FaultKind::Memory,
            format!("{verb} of {len} bytes through {what}: {addr:#x}"),
        )
    }

    fn is_mapped(&self, page: u64) -> bool {
        self.mapped[(page / 64) as usize].get() >> (page % 64) & 1 != 0
    }

    /// The bytes at `addr`, checked. They must not outlive the next call into BPF code.
    #[inline]
    pub fn bytes(&self, addr: u64, len: u64) -> Result<&[u8], Fault> {
        self.check(addr, len, false)?;
        Ok(match len {
            0 => &[],
            _ => unsafe { std::slice::from_raw_parts(addr as *const u8, len as usize) },
        })
    }

    /// May a helper or kfunc write these bytes, whose address a policy gave? As [`Region::check`], but the kernel's own
    /// structures are not its to hand out: those are written through [`Region::at`] alone.
    #[inline]
    pub fn check_given(&self, addr: u64, len: u64) -> Result<(), Fault> {
        self.check(addr, len, true)?;
        let offset = addr.wrapping_sub(self.base);
        if len > 0 && offset < ARENAS && offset + len > KERNEL {
            return Err(self.kernels_own(addr, len));
        }
        Ok(())
    }

    #[cold]
    fn kernels_own(&self, addr: u64, len: u64) -> Fault {
        Fault::new(
            FaultKind::Memory,
            format!("store of {len} bytes through a pointer to the kernel's own: {addr:#x}"),
        )
    }

    /// The writable bytes at `addr`, checked as [`Region::check_given`] does. Take no two that overlap at a time.
    #[allow(clippy::mut_from_ref)]
    pub fn bytes_mut(&self, addr: u64, len: u64) -> Result<&mut [u8], Fault> {
        self.check_given(addr, len)?;
        Ok(match len {
            0 => &mut [],
            _ => unsafe { std::slice::from_raw_parts_mut(addr as *mut u8, len as usize) },
        })
    }

    /// Reads a plain value at an address the policy gave.
    #[inline]
    pub fn load<T: Copy>(&self, addr: u64) -> Result<T, Fault> {
        self.check(addr, size_of::<T>() as u64, false)?;
        Ok(unsafe { (addr as *const T).read_unaligned() })
    }

    /// Writes a plain value at an address the policy gave; see [`Region::check_given`].
    #[inline]
    pub fn store<T: Copy>(&self, addr: u64, value: T) -> Result<(), Fault> {
        self.check_given(addr, size_of::<T>() as u64)?;
        unsafe { (addr as *mut T).write_unaligned(value) };
        Ok(())
    }

    /// Copies bytes that may overlap between addresses the policy gave; see [`Region::check_given`].
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<(), Fault> {
        self.check(from, len, false)?;
        self.check_given(to, len)?;
        // Of nothing the addresses may be any.
        if len > 0 {
            // SAFETY: both were checked just now.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, len as usize) };
        }
        Ok(())
    }

    /// The object at an address that we handed out, for the kernel's own structures: no check but in debug builds.
    ///
    /// # Safety
    /// `addr` holds a `T` of this region, and nobody uses another reference to it meanwhile.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn at<T>(&self, addr: u64) -> &mut T {
        debug_assert!(self.contains(addr), "{addr:#x} is not in the region");
        unsafe { &mut *(addr as *mut T) }
    }

    /// Accessible, zeroed pages of the BPF area between inaccessible ones; `None` when the area is full or in too many pieces
    /// for the host.
    pub fn pages(&self, size: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(PAGE)?;
        let addr = self.bpf_next.get() + PAGE;
        let next = addr.checked_add(size)?.checked_add(PAGE)?;
        if next > self.base + KERNEL {
            return None;
        }
        self.bpf_next.set(next);
        self.commit(addr, size).ok()?;
        Some(addr)
    }

    /// Gives the memory of `pages` back to the host; the addresses are not used again.
    pub fn release_pages(&self, addr: u64, size: u64) {
        self.discard(addr, size.max(1).next_multiple_of(PAGE));
    }

    /// A zeroed object of `size` bytes, at least 16-byte aligned; `None` when memory is exhausted.
    /// Last freed, first reused.
    pub fn alloc(&self, size: u64) -> Option<u64> {
        let mut heap = self.heap.borrow_mut();
        let Some(class) = CLASSES.iter().position(|&class| size <= class) else {
            let addr = match heap.large_free.get_mut(&size).and_then(Vec::pop) {
                Some(addr) => {
                    self.commit(addr, size.next_multiple_of(PAGE)).ok()?;
                    addr
                }
                None => self.pages(size)?,
            };
            heap.large.insert(addr, size);
            return Some(addr);
        };
        if heap.free[class].is_empty() {
            self.grow(&mut heap, class)?;
        }
        let addr = heap.free[class].pop()?;
        unsafe { std::ptr::write_bytes(addr as *mut u8, 0, CLASSES[class] as usize) };
        Some(addr)
    }

    fn grow(&self, heap: &mut Heap, class: usize) -> Option<()> {
        let addr = self.bpf_next.get().next_multiple_of(CHUNK);
        if addr + CHUNK > self.base + KERNEL {
            return None;
        }
        self.bpf_next.set(addr + CHUNK);
        self.commit(addr, CHUNK).ok()?;
        let index = ((addr - self.base) / CHUNK) as usize;
        if heap.class.len() <= index {
            heap.class.resize(index + 1, 0);
        }
        heap.class[index] = class as u8 + 1;
        let nr = CHUNK / CLASSES[class];
        heap.free[class].extend((0..nr).rev().map(|i| addr + i * CLASSES[class]));
        Some(())
    }

    /// Size of the live or freed object at `addr` as rounded up by `alloc`; `None` when `alloc` never gave it out.
    pub fn alloc_size(&self, addr: u64) -> Option<u64> {
        let heap = self.heap.borrow();
        if let Some(&size) = heap.large.get(&addr) {
            return Some(size);
        }
        let offset = addr.checked_sub(self.base)?;
        let class = *heap.class.get((offset / CHUNK) as usize)?;
        let size = CLASSES[(class as usize).checked_sub(1)?];
        (offset % CHUNK).is_multiple_of(size).then_some(size)
    }

    /// Frees what `alloc` returned. Panics on anything else: callers check policies' pointers first.
    pub fn free(&self, addr: u64) {
        if let Some(freed) = &mut *self.freed.borrow_mut() {
            freed.push(addr);
        }
        let mut heap = self.heap.borrow_mut();
        if let Some(size) = heap.large.remove(&addr) {
            self.discard(addr, size.next_multiple_of(PAGE));
            heap.large_free.entry(size).or_default().push(addr);
            return;
        }
        let class = heap.class[((addr - self.base) / CHUNK) as usize];
        assert!(class != 0, "free of {addr:#x}, which was not allocated");
        heap.free[class as usize - 1].push(addr);
    }

    /// From now on what is freed is noted, for [`Region::take_freed`].
    pub(crate) fn note_freed(&self) {
        *self.freed.borrow_mut() = Some(Vec::new());
    }

    /// The next object that was freed since the last time, last freed first.
    pub(crate) fn take_freed(&self) -> Option<u64> {
        self.freed.borrow_mut().as_mut()?.pop()
    }

    /// Start and size (as rounded up by `alloc`) of the object that `alloc` gave out, or may give out, around an address.
    pub(crate) fn alloc_around(&self, addr: u64) -> Option<(u64, u64)> {
        let heap = self.heap.borrow();
        let offset = addr.checked_sub(self.base)?;
        if let Some(class) = heap.class.get((offset / CHUNK) as usize).filter(|&&class| class != 0) {
            let size = CLASSES[usize::from(*class) - 1];
            return Some((addr - offset % CHUNK % size, size));
        }
        let (&start, &size) = heap.large.range(..=addr).next_back()?;
        (addr - start < size).then_some((start, size))
    }

    /// The slab that an address lies in (by order of creation), the object's number, and where that starts.
    pub(crate) fn object_around(&self, addr: u64) -> Option<(usize, u64, u64)> {
        let slabs = self.slabs.borrow();
        let n = slabs.iter().position(|slab| addr.wrapping_sub(slab.base) < slab.size)?;
        let slab = &slabs[n];
        let index = (addr - slab.base) / slab.stride;
        Some((n, index, slab.base + index * slab.stride))
    }

    /// First address and stride of each slab.
    pub(crate) fn slabs(&self) -> Vec<(u64, u64)> {
        self.slabs
            .borrow()
            .iter()
            .map(|slab| (slab.base, slab.stride))
            .collect()
    }

    /// Is this an address of the area where BPF programs' memory is?
    pub(crate) fn in_bpf_area(&self, addr: u64) -> bool {
        (self.base + BPF..self.base + KERNEL).contains(&addr)
    }

    /// Is this an address of an arena?
    pub(crate) fn in_arenas(&self, addr: u64) -> bool {
        (self.base + ARENAS..self.base + ARENAS + NR_ARENAS * ARENA_SIZE).contains(&addr)
    }

    /// Reserves room in the kernel area for at most `max` objects of `stride` bytes.
    pub fn slab(&self, stride: u64, max: u64) -> Slab {
        let stride = stride.next_multiple_of(64);
        let base = self.kernel_next.get();
        let next = base + (stride * max).next_multiple_of(PAGE) + PAGE;
        assert!(
            next <= self.base + ARENAS,
            "kernel area exhausted by a slab of {max} x {stride} bytes"
        );
        self.kernel_next.set(next);
        let places = Places::new(base, stride, max);
        self.slabs.borrow_mut().push(places);
        Slab::new(places, max)
    }

    /// Which slab (by order of creation) and which place in it starts at this address?
    #[inline]
    pub fn object(&self, addr: u64) -> Option<(usize, usize)> {
        for (n, slab) in self.slabs.borrow().iter().enumerate() {
            if addr.wrapping_sub(slab.base) < slab.size {
                return slab.index(addr).map(|index| (n, index as usize));
            }
        }
        None
    }

    /// The first free arena's 4 GiB, nothing accessible in it yet; `None` when all are taken.
    pub fn arena(&self) -> Option<u64> {
        let n = u64::from(self.arenas.get().trailing_ones());
        if n >= NR_ARENAS {
            return None;
        }
        self.arenas.set(self.arenas.get() | 1 << n);
        Some(self.base + ARENAS + n * ARENA_SIZE)
    }

    /// Takes an arena back, contents and all.
    pub fn release_arena(&self, base: u64) {
        let n = (base - self.base - ARENAS) / ARENA_SIZE;
        self.arenas.set(self.arenas.get() & !(1 << n));
        self.discard(base, ARENA_SIZE);
    }

    /// Makes inaccessible pages accessible, zeroed. Fails when memory is in too many pieces for the host.
    pub fn commit(&self, addr: u64, size: u64) -> Result<(), OutOfMaps> {
        debug_assert!(addr.is_multiple_of(PAGE) && self.contains(addr));
        self.maps.split()?;
        self.protect(addr, size, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Makes pages inaccessible among others that stay accessible. Fails as [`Region::commit`].
    pub fn discard_part(&self, addr: u64, size: u64) -> Result<(), OutOfMaps> {
        self.maps.split()?;
        self.discard(addr, size);
        Ok(())
    }

    /// Makes pages inaccessible and forgets their contents.
    fn discard(&self, addr: u64, size: u64) {
        // Where the host refuses, the pages stay accessible and are empty all the same.
        let _ = self.protect(addr, size, libc::PROT_NONE);
        unsafe { libc::madvise(addr as *mut libc::c_void, size as usize, libc::MADV_DONTNEED) };
    }

    fn protect(&self, addr: u64, size: u64, prot: libc::c_int) -> Result<(), OutOfMaps> {
        if unsafe { libc::mprotect(addr as *mut libc::c_void, size as usize, prot) } != 0 {
            return Err(OutOfMaps);
        }
        let first = (addr - self.base) / PAGE;
        let end = first + size.div_ceil(PAGE);
        let mut page = first;
        while page < end {
            let (word, bit) = ((page / 64) as usize, page % 64);
            let nr = (64 - bit).min(end - page);
            let bits = (u64::MAX >> (64 - nr)) << bit;
            let old = self.mapped[word].get();
            self.mapped[word].set(if prot == libc::PROT_NONE {
                old & !bits
            } else {
                old | bits
            });
            page += nr;
        }
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        unsafe { libc::munmap((self.base - REACH) as *mut libc::c_void, RESERVED) };
    }
}

#[cfg(test)]
mod tests;
