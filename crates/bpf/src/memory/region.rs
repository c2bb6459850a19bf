// SPDX-License-Identifier: GPL-2.0-only
//! The region: the address space of one simulated machine. This file defines its data structure and
//! its checked accesses.

use crate::error::Error;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use super::heap::Heap;
use super::host::{Access, release, reserve_anywhere, reserve_at, want_huge_pages};
use super::host_maps::Maps;
use super::layout::*;
use super::limit::Memory;
use super::slab::SlabLayout;
use crate::cache::Lines;
use crate::fault::{Fault, FaultKind};
use bytemuck::{AnyBitPattern, NoUninit};
use smallvec::SmallVec;

/// Largest number of bytes that [`Region::bytes`] returns without memory on the heap. Keys of maps
/// are rarely longer.
const SHORT: usize = 64;

/// A copy of bytes of the region.
pub type Bytes = SmallVec<[u8; SHORT]>;

/// [`Region::id`] of the next region.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The address space of one simulated machine. It is not shared between threads.
pub struct Region {
    id: u64,
    pub(super) base: u64,
    /// Number that is added to an address in the region to get the host's address of the same
    /// memory.
    pub(super) delta: u64,
    pub(super) memory: Memory,
    /// One bit per page, which is set if the page is accessible.
    pub(super) mapped: Box<[Cell<u64>]>,
    /// Next free address for pages of BPF programs.
    pub(super) bpf_next: Cell<u64>,
    /// Next free address for kernel objects.
    pub(super) kernel_next: Cell<u64>,
    /// One bit per arena, which is set if the arena is in use.
    pub(super) arenas: Cell<u8>,
    pub(super) heap: RefCell<Heap>,
    pub(super) slabs: RefCell<Vec<SlabLayout>>,
    /// The first slab whose objects have fields to which programs may store.
    pub(super) writable: OnceCell<SlabLayout>,
    pub(super) lines: Lines,
    /// Addresses of the objects that were freed since the last call of `take_freed`. `None` without
    /// the sanitizer.
    pub(super) freed: RefCell<Option<Vec<u64>>>,
    pub(super) maps: Maps,
    /// Ranges of addresses that are mapped from a file ([`Region::share`]), with their sizes.
    pub(super) shared: RefCell<Vec<(u64, u64)>>,
}

impl Region {
    /// Reserves a region. Fails if the host has no room for 128 GiB of addresses.
    pub fn new() -> Result<Region, Error> {
        let base = BASE;
        let host = reserve_at(base).or_else(reserve_anywhere);
        let host =
            host.ok_or("cannot reserve 128 GiB of address space: is the process's memory limited (ulimit -v)?")?;
        let lines = Lines::new(base, host + LINES).inspect_err(|_| {
            // SAFETY: the region was reserved above, and nothing uses it yet.
            unsafe { release(host) }
        })?;
        let region = Region {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
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
            writable: OnceCell::new(),
            freed: RefCell::default(),
            maps: Maps::default(),
            shared: RefCell::default(),
        };
        want_huge_pages((host + KERNEL) as *const u8, (KERNEL_END - KERNEL) as usize);
        let zeros = region.protect(base + ZEROS, ZEROS_SIZE, Access::Read);
        zeros.map_err(|_| "the host has no memory left: is the process's memory limited (ulimit -v)?")?;
        region.lines.make_private(base + ZEROS, ZEROS_SIZE);
        Ok(region)
    }

    /// Returns a number that no other region in this process has, or ever had. Slabs and maps use
    /// it to recognise their region. Addresses do not suffice: all regions have the same base.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the first address of the region.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the number that is added to an address in the region to get the host's address of
    /// the same memory. The addition may wrap.
    #[inline]
    pub fn delta(&self) -> u64 {
        self.delta
    }

    /// Converts an address in the region to the host's address.
    #[inline]
    pub fn host<T>(&self, addr: u64) -> *mut T {
        addr.wrapping_add(self.delta) as *mut T
    }

    /// Returns the run's memory use and limit.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the cache model of this region.
    #[inline]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    pub fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }

    /// Returns the value that `addr >> SHIFT` has for every address in this region.
    pub fn tag(&self) -> u64 {
        self.base >> SHIFT
    }

    /// Returns whether the address lies in this region. The memory at the address may be
    /// inaccessible.
    #[inline]
    pub fn contains(&self, addr: u64) -> bool {
        addr >> SHIFT == self.base >> SHIFT
    }

    /// Returns the address in the middle of the read-only zeros. Every byte within [`REACH`] of
    /// this address is 0.
    pub fn zeros(&self) -> u64 {
        self.base + ZEROS + REACH
    }

    /// Checks whether a policy may read these bytes, or write them if `write` is set. An access to
    /// zero bytes is always allowed.
    #[inline]
    pub fn check(&self, addr: u64, len: u64, write: bool) -> Result<(), Fault> {
        let offset = addr.wrapping_sub(self.base);
        // Below the area of BPF programs, only the read-only zeros are accessible.
        let writable = offset >= BPF || !write;
        if offset < SIZE && len <= PAGE - offset % PAGE && self.is_mapped(offset / PAGE) && writable {
            return Ok(());
        }
        self.check_pages(addr, len, write)
    }

    /// Like [`Region::check`], for bytes that may lie in any number of pages, or in none.
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
        let target = if addr < NULL_LIMIT {
            "a NULL pointer"
        } else {
            "a bad address"
        };
        Fault::new(
            FaultKind::Memory,
            format!("{verb} of {len} bytes through {target}: {addr:#x}"),
        )
    }

    pub(super) fn is_mapped(&self, page: u64) -> bool {
        self.mapped[(page / 64) as usize].get() >> (page % 64) & 1 != 0
    }

    /// Checks whether the policy may read the bytes at `addr`, and copies them.
    ///
    /// The copy is necessary because BPF code and this type's other functions may change the bytes
    /// while the caller uses them. Copies of up to [`SHORT`] bytes need no memory on the heap.
    #[inline]
    pub fn bytes(&self, addr: u64, len: u64) -> Result<Bytes, Fault> {
        self.check(addr, len, false)?;
        let mut bytes = Bytes::with_capacity(len as usize);
        // SAFETY: the range has just been checked, and the new vector has room for it.
        unsafe {
            std::ptr::copy_nonoverlapping(self.host::<u8>(addr), bytes.as_mut_ptr(), len as usize);
            bytes.set_len(len as usize);
        }
        Ok(bytes)
    }

    /// Checks whether a helper or kfunc may write to these bytes if a policy passed their address.
    /// The rules are those of [`Region::check`], and the kernel's own structures are refused, too.
    /// The simulator itself writes to these structures through [`Region::host`] and [`Owned`].
    ///
    /// [`Owned`]: super::Owned
    #[inline]
    pub fn check_writable(&self, addr: u64, len: u64) -> Result<(), Fault> {
        self.check(addr, len, true)?;
        let offset = addr.wrapping_sub(self.base);
        if len > 0 && offset < KERNEL_END && offset + len > KERNEL {
            return Err(self.kernel_store_fault(addr, len));
        }
        Ok(())
    }

    #[cold]
    fn kernel_store_fault(&self, addr: u64, len: u64) -> Fault {
        Fault::new(
            FaultKind::Memory,
            format!("store of {len} bytes to kernel memory: {addr:#x}"),
        )
    }

    /// Sets all bytes of a range to `value`. Fails if [`Region::check_writable`] refuses the range.
    pub fn fill(&self, addr: u64, len: u64, value: u8) -> Result<(), Fault> {
        self.check_writable(addr, len)?;
        // A range of zero bytes may have any address, even an invalid one.
        if len > 0 {
            // SAFETY: the range has just been checked.
            unsafe { std::ptr::write_bytes(self.host::<u8>(addr), value, len as usize) };
        }
        Ok(())
    }

    /// Writes `bytes` to an address. Fails if [`Region::check_writable`] refuses the range.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.check_writable(addr, bytes.len() as u64)?;
        if !bytes.is_empty() {
            // SAFETY: the range has just been checked. No reference to memory of the region exists
            // outside of this module, so `bytes` does not overlap it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.host::<u8>(addr), bytes.len()) };
        }
        Ok(())
    }

    /// Reads a value from an address that the policy passed.
    #[inline]
    pub fn load<T: AnyBitPattern>(&self, addr: u64) -> Result<T, Fault> {
        self.check(addr, size_of::<T>() as u64, false)?;
        // SAFETY: the range has just been checked, and each pattern of bits is a valid `T`.
        Ok(unsafe { self.host::<T>(addr).read_unaligned() })
    }

    /// Writes a value to an address that the policy passed. Fails if [`Region::check_writable`]
    /// refuses the address.
    #[inline]
    pub fn store<T: NoUninit>(&self, addr: u64, value: T) -> Result<(), Fault> {
        self.check_writable(addr, size_of::<T>() as u64)?;
        // SAFETY: the range has just been checked. `T` has no padding, so each byte that programs
        // can load afterwards has a value.
        unsafe { self.host::<T>(addr).write_unaligned(value) };
        Ok(())
    }

    /// Copies bytes between two addresses that the policy passed. The ranges may overlap. Fails if
    /// [`Region::check`] or [`Region::check_writable`] refuses them.
    pub fn copy(&self, to: u64, from: u64, len: u64) -> Result<(), Fault> {
        self.check(from, len, false)?;
        self.check_writable(to, len)?;
        // A copy of zero bytes may have any address, even an invalid one.
        if len > 0 {
            // SAFETY: both ranges have just been checked.
            unsafe { std::ptr::copy(self.host::<u8>(from), self.host::<u8>(to), len as usize) };
        }
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `Region::new` reserved the region, and every user borrows it.
        unsafe { release(self.base.wrapping_add(self.delta)) };
    }
}
