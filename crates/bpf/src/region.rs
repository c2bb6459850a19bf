// SPDX-License-Identifier: GPL-2.0-only
//! The address space of one simulated machine.
//!
//! Everything a policy can point at lies in one reservation of 128 GiB, aligned to its size: kernel objects, maps, globals,
//! objects allocated by BPF code, arenas and BPF stacks. So one compare tells whether an address is the policy's business,
//! and a policy cannot reach the simulator's own memory. The kernel's objects lie in the upper half: one compare tells whether
//! a program may store through a pointer, too. A store to the upper half is legal for the few fields that the kernel lets a
//! policy write ([`Region::may_store`]), so the simulator can trust everything else it keeps there. Inside, addresses are handed out in order of request from fixed
//! offsets, and the first machine of a process sits at the same address on every host: pointers are visible to policies
//! and must not differ between runs. What is not handed out is inaccessible, so a wild access inside faults in hardware.
//!
//! Every region has the same addresses for the policy, whatever else the process has mapped: a policy that hashes a pointer
//! behaves the same in every run. An address as a policy sees it, and as all of this crate passes it on, differs from the
//! host's address by [`Region::delta`], which only the loads and stores themselves add. The first region of a process lies where
//! the policy sees it, so that nothing is to be added there. The area map (offsets from the base):
//!
//! | from | area |
//! |---|---|
//! | 0 | guard |
//! | 64 KiB | zeros, read only: what loads through NULL see |
//! | 1 MiB | pages and small objects of BPF programs: maps, globals, stacks, hash elements, kptrs |
//! | 16 GiB | guard |
//! | 32 GiB | seven arenas of 4 GiB |
//! | 60 GiB | guard |
//! | 80 GiB | kernel objects, in slabs |
//! | 96 GiB | guard |

mod heap;
mod maps;
mod memory;
mod objects;
mod pages;
mod slab;

use std::cell::{Cell, OnceCell, RefCell};

use crate::func::{Fault, FaultKind};
use crate::lines::Lines;
use heap::Heap;
use maps::Maps;
pub use maps::OutOfMaps;
pub use memory::{DEFAULT_LIMIT, Memory, OutOfMemory, RECORD, Use};
use slab::Places;
pub use slab::{ObjectType, Slab};

/// Size and alignment of a region in bytes.
pub const SIZE: u64 = 1 << SHIFT;
/// log2 of [`SIZE`]: `addr >> SHIFT` is equal for all addresses of a region and for no others.
pub const SHIFT: u32 = 37;
/// `addr >> OWN_SHIFT` is equal for all addresses of the lower half, where the program's own memory is.
pub const OWN_SHIFT: u32 = SHIFT - 1;
/// The first address of every region, as policies see it.
const BASE: u64 = 0x2000_0000_0000;
/// Regions elsewhere in the host's memory are aligned to this, for huge pages.
const HOST_ALIGN: u64 = 2 << 20;

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
const BPF_END: u64 = 16 << 30;
const ARENAS: u64 = 32 << 30;
const KERNEL: u64 = 80 << 30;
const KERNEL_END: u64 = 96 << 30;
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
    /// What to add to an address to get the host's.
    delta: u64,
    memory: Memory,
    /// One bit a page: is it accessible?
    mapped: Box<[Cell<u64>]>,
    /// Next free address of the BPF area and of the kernel area.
    bpf_next: Cell<u64>,
    kernel_next: Cell<u64>,
    /// One bit an arena: taken?
    arenas: Cell<u8>,
    heap: RefCell<Heap>,
    slabs: RefCell<Vec<Places>>,
    /// The first slab of objects with fields that programs may store to: the tasks.
    tasks: OnceCell<Places>,
    lines: Lines,
    /// Checked mode: what was freed since somebody asked.
    freed: RefCell<Option<Vec<u64>>>,
    maps: Maps,
}

/// Why there is no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The run has as much as it may ([`Region::memory`]).
    Memory,
    /// The host has no memory map left.
    Maps,
}

impl Exhausted {
    /// The policy's fault that it leads to.
    pub(crate) fn fault(self, region: &Region) -> Fault {
        match self {
            Exhausted::Memory => region.memory.fault(),
            Exhausted::Maps => OutOfMaps.into(),
        }
    }
}

impl From<OutOfMemory> for Exhausted {
    fn from(_: OutOfMemory) -> Exhausted {
        Exhausted::Memory
    }
}

impl From<OutOfMaps> for Exhausted {
    fn from(_: OutOfMaps) -> Exhausted {
        Exhausted::Maps
    }
}

/// Returns whether `size` bytes at `offset` are among the `len` bytes at `start`.
fn within(offset: u64, size: u64, start: u64, len: u64) -> bool {
    offset >= start && offset - start < len && size <= len - (offset - start)
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

/// Reserves the host's addresses of a region from `host` on, with a margin on both sides: an offset may reach beyond a base
/// register that was checked.
fn reserve_at(host: u64) -> Option<u64> {
    let start = host - REACH;
    let got = map(start, RESERVED, libc::MAP_FIXED_NOREPLACE)?;
    if got == start {
        return Some(host);
    }
    // A kernel before 4.17 takes the address as a hint.
    unmap(got, RESERVED);
    None
}

/// Reserves them wherever there is room.
fn reserve_anywhere() -> Option<u64> {
    let margin = HOST_ALIGN as usize;
    let got = map(0, RESERVED + margin, 0)?;
    let host = (got + REACH).next_multiple_of(HOST_ALIGN);
    let (start, end) = (host - REACH, got + (RESERVED + margin) as u64);
    unmap(got, (start - got) as usize);
    unmap(start + RESERVED as u64, (end - start) as usize - RESERVED);
    Some(host)
}

/// Inaccessible pages at `addr`, or anywhere.
fn map(addr: u64, bytes: usize, flags: libc::c_int) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: replaces nothing that is mapped.
    let got = unsafe { libc::mmap(addr as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

fn unmap(addr: u64, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the pages were reserved here, and nobody uses them.
        unsafe { libc::munmap(addr as *mut libc::c_void, bytes) };
    }
}

/// Gives the host's addresses of a region back.
fn release(host: u64) {
    unmap(host - REACH, RESERVED);
}

impl Region {
    /// Reserves a region. Fails when the host has no room for 128 GiB of addresses.
    pub fn new() -> Result<Region, String> {
        let base = BASE;
        let host = reserve_at(base).or_else(reserve_anywhere);
        let host = host.ok_or("cannot reserve 128 GiB of address space: is the process limited (ulimit -v)?")?;
        let lines = Lines::new(base, host + LINES).inspect_err(|_| release(host))?;
        let region = Region {
            lines,
            base,
            delta: host.wrapping_sub(base),
            memory: Memory::default(),
            mapped: vec![0; (SIZE / PAGE / 64) as usize]
                .into_iter()
                .map(Cell::new)
                .collect(),
            bpf_next: Cell::new(base + BPF),
            kernel_next: Cell::new(base + KERNEL),
            arenas: Cell::new(0),
            heap: RefCell::default(),
            slabs: RefCell::default(),
            tasks: OnceCell::new(),
            freed: RefCell::default(),
            maps: Maps::default(),
        };
        want_huge_pages((host + KERNEL) as *const u8, (KERNEL_END - KERNEL) as usize);
        let zeros = region.protect(base + ZEROS, ZEROS_SIZE, libc::PROT_READ);
        zeros.map_err(|_| "the host gives no memory: is the process limited (ulimit -v)?")?;
        region.lines.make_private(base + ZEROS, ZEROS_SIZE);
        Ok(region)
    }

    /// First address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// What to add to an address of the region to get the host's; wraps.
    #[inline]
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// Where an address of the region is in the host's memory.
    #[inline]
    pub fn host<T>(&self, addr: u64) -> *mut T {
        addr.wrapping_add(self.delta) as *mut T
    }

    /// What the run's memory is used for, and how much there may be.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.memory
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
            _ => unsafe { std::slice::from_raw_parts(self.host(addr), len as usize) },
        })
    }

    /// May a helper or kfunc write these bytes, whose address a policy gave? As [`Region::check`], but the kernel's own
    /// structures are not its to hand out: those are written through [`Region::at`] alone.
    #[inline]
    pub fn check_given(&self, addr: u64, len: u64) -> Result<(), Fault> {
        self.check(addr, len, true)?;
        let offset = addr.wrapping_sub(self.base);
        if len > 0 && offset < KERNEL_END && offset + len > KERNEL {
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
            _ => unsafe { std::slice::from_raw_parts_mut(self.host(addr), len as usize) },
        })
    }

    /// Reads a plain value at an address the policy gave.
    #[inline]
    pub fn load<T: Copy>(&self, addr: u64) -> Result<T, Fault> {
        self.check(addr, size_of::<T>() as u64, false)?;
        Ok(unsafe { self.host::<T>(addr).read_unaligned() })
    }

    /// Writes a plain value at an address the policy gave; see [`Region::check_given`].
    #[inline]
    pub fn store<T: Copy>(&self, addr: u64, value: T) -> Result<(), Fault> {
        self.check_given(addr, size_of::<T>() as u64)?;
        unsafe { self.host::<T>(addr).write_unaligned(value) };
        Ok(())
    }

    /// Copies bytes that may overlap between addresses the policy gave; see [`Region::check_given`].
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<(), Fault> {
        self.check(from, len, false)?;
        self.check_given(to, len)?;
        // Of nothing the addresses may be any.
        if len > 0 {
            // SAFETY: both were checked just now.
            unsafe { std::ptr::copy(self.host::<u8>(from), self.host::<u8>(to), len as usize) };
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
        unsafe { &mut *self.host(addr) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        release(self.base.wrapping_add(self.delta));
    }
}

#[cfg(test)]
mod tests;
