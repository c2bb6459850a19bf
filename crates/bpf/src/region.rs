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

mod maps;
mod memory;
mod slab;

use std::cell::{Cell, OnceCell, RefCell};

use crate::func::{Fault, FaultKind};
use crate::lines::Lines;
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

#[derive(Default)]
struct Heap {
    free: [Vec<u64>; CLASSES.len()],
    /// Size class of each chunk, by (address - base) / CHUNK; 0 = not a chunk, else class + 1.
    class: Vec<u8>,
    /// Objects larger than the largest class, and what was given back of them.
    large: std::collections::BTreeMap<u64, u64>,
    large_free: std::collections::BTreeMap<u64, Vec<u64>>,
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

    /// Accessible, zeroed pages of the BPF area between inaccessible ones; `None` when the area is full, memory is used up
    /// ([`Region::memory`]) or in too many pieces for the host.
    pub fn pages(&self, size: u64) -> Option<u64> {
        self.pages_for(Use::Maps, size)
    }

    fn pages_for(&self, what: Use, size: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(PAGE)?;
        let addr = self.bpf_next.get() + PAGE;
        let next = addr.checked_add(size)?.checked_add(PAGE)?;
        if next > self.base + BPF_END {
            // The address space is an upper limit of its own, far above what a run may have by default.
            self.memory.refuse();
            return None;
        }
        self.bpf_next.set(next);
        self.commit_for(what, addr, size)?;
        Some(addr)
    }

    /// Gives the memory of `pages` back to the host; the addresses are not used again.
    pub fn release_pages(&self, addr: u64, size: u64) {
        let size = size.max(1).next_multiple_of(PAGE);
        self.discard(addr, size);
        self.memory.give_back(Use::Maps, size);
    }

    /// Makes pages accessible that count as used for this.
    fn commit_for(&self, what: Use, addr: u64, size: u64) -> Option<()> {
        self.memory.charge(what, size).ok()?;
        let done = self.commit(addr, size);
        if done.is_err() {
            self.memory.give_back(what, size);
        }
        done.ok()
    }

    /// A zeroed object of `size` bytes, at least 16-byte aligned; `None` when memory is exhausted.
    /// Last freed, first reused.
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
        unsafe { std::ptr::write_bytes(self.host::<u8>(addr), 0, CLASSES[class] as usize) };
        Some(addr)
    }

    fn grow(&self, heap: &mut Heap, class: usize) -> Option<()> {
        let addr = self.bpf_next.get().next_multiple_of(CHUNK);
        if addr + CHUNK > self.base + BPF_END {
            self.memory.refuse();
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
            self.memory.give_back(Use::Objects, size.next_multiple_of(PAGE));
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
        (self.base + BPF..self.base + BPF_END).contains(&addr)
    }

    /// Is this an address of an arena?
    pub(crate) fn in_arenas(&self, addr: u64) -> bool {
        (self.base + ARENAS..self.base + ARENAS + NR_ARENAS * ARENA_SIZE).contains(&addr)
    }

    /// Reserves room in the kernel area for at most `max` objects of `stride` bytes, which programs may only read.
    ///
    /// # Errors
    /// If the kernel area is too small for that many.
    pub fn slab(&self, stride: u64, max: u64) -> Result<Slab, String> {
        self.slab_of(&ObjectType::OPAQUE, stride, max)
    }

    /// As [`Region::slab`], for objects of a type that has a name and may have fields that programs store to.
    pub fn slab_of(&self, ty: &'static ObjectType, stride: u64, max: u64) -> Result<Slab, String> {
        let base = self.kernel_next.get();
        let end = stride
            .checked_next_multiple_of(64)
            .and_then(|stride| stride.checked_mul(max))
            .filter(|&bytes| bytes <= KERNEL_END - KERNEL)
            .map(|bytes| base + bytes.next_multiple_of(PAGE) + PAGE)
            .filter(|&end| end <= self.base + KERNEL_END);
        let Some(end) = end else {
            let name = ty.name;
            return Err(format!(
                "{max} objects of {stride} bytes ({name}) do not fit the memory of the simulated kernel: \
                 choose a smaller machine or fewer cgroups"
            ));
        };
        self.kernel_next.set(end);
        let places = Places::new(base, self.delta, stride.next_multiple_of(64), max, ty);
        if !ty.writable.is_empty() {
            let _ = self.tasks.set(places);
        }
        self.slabs.borrow_mut().push(places);
        Ok(Slab::new(places, max))
    }

    /// Returns whether a program may store to these bytes of the kernel's: a field of an object that the kernel's verifier
    /// accepts stores to (`bpf_scx_btf_struct_access` for task_struct).
    #[inline]
    pub fn may_store(&self, addr: u64, size: u64) -> bool {
        match self.tasks.get() {
            Some(tasks) if addr.wrapping_sub(tasks.base) < tasks.size => tasks.may_store(addr, size),
            _ => self.may_store_elsewhere(addr, size),
        }
    }

    fn may_store_elsewhere(&self, addr: u64, size: u64) -> bool {
        let slabs = self.slabs.borrow();
        let slab = slabs.iter().find(|slab| addr.wrapping_sub(slab.base) < slab.size);
        slab.is_some_and(|slab| slab.may_store(addr, size))
    }

    /// Returns whether a store of `size` bytes at `offset` from a pointer may be one to a writable field of a kernel object:
    /// the pointer is to the object, to the struct that begins with the first writable field, or to the field.
    ///
    /// Both engines refuse any other store to kernel memory. So compiled code may check a pointer once for several stores.
    pub(crate) fn may_be_field(&self, offset: i64, size: u64) -> bool {
        let slabs = self.slabs.borrow();
        let mut types = slabs.iter().map(|slab| slab.ty.writable);
        types.any(|fields| {
            let first = fields.first().map_or(0, |&(first, _)| first);
            let matches = |&(at, len): &(u64, u64)| {
                [at, at - first, 0]
                    .iter()
                    .any(|&start| within(offset as u64, size, start, len))
            };
            fields.iter().any(matches)
        })
    }

    /// Why a store to these bytes of the kernel's is refused.
    #[cold]
    pub(crate) fn refusal(&self, addr: u64, size: u64) -> Fault {
        let slabs = self.slabs.borrow();
        let slab = slabs.iter().find(|slab| addr.wrapping_sub(slab.base) < slab.size);
        let Some(slab) = slab else {
            return Fault::new(FaultKind::Memory, format!("store at a bad address: {addr:#x}"));
        };
        let offset = (addr - slab.base) % slab.stride;
        let (name, field) = (slab.ty.name, (slab.ty.field_at)(offset));
        let names: Vec<String> = slab.ty.writable.iter().map(|&(at, _)| (slab.ty.field_at)(at)).collect();
        let allowed = match names.split_last() {
            None => "a policy may only read it".to_string(),
            Some((last, names)) => format!("a policy may store to {} and {last} alone", names.join(", ")),
        };
        Fault::new(
            FaultKind::Memory,
            format!("store of {size} bytes to {field} of a {name}, which the kernel does not allow: {allowed}"),
        )
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
        let first = (base - self.base) / PAGE;
        let words = (first / 64..(first + ARENA_SIZE / PAGE) / 64).map(|word| &self.mapped[word as usize]);
        let pages: u64 = words.map(|word| u64::from(word.get().count_ones())).sum();
        self.discard(base, ARENA_SIZE);
        self.memory.give_back(Use::Arenas, pages * PAGE);
    }

    /// Makes pages of an arena accessible, zeroed.
    pub fn commit_arena(&self, addr: u64, size: u64) -> Result<(), Exhausted> {
        self.memory.charge(Use::Arenas, size)?;
        self.commit(addr, size)
            .inspect_err(|_| self.memory.give_back(Use::Arenas, size))?;
        Ok(())
    }

    /// Takes pages of an arena back, contents and all.
    pub fn discard_arena(&self, addr: u64, size: u64) -> Result<(), Exhausted> {
        self.discard_part(addr, size)?;
        self.memory.give_back(Use::Arenas, size);
        Ok(())
    }

    /// Makes inaccessible pages accessible, zeroed. Fails when memory is in too many pieces for the host.
    fn commit(&self, addr: u64, size: u64) -> Result<(), OutOfMaps> {
        debug_assert!(addr.is_multiple_of(PAGE) && self.contains(addr));
        self.maps.split()?;
        self.protect(addr, size, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Makes pages inaccessible among others that stay accessible. Fails as [`Region::commit`].
    fn discard_part(&self, addr: u64, size: u64) -> Result<(), OutOfMaps> {
        self.maps.split()?;
        self.discard(addr, size);
        Ok(())
    }

    /// Makes pages inaccessible and forgets their contents. Where the host refuses the former, they read as zeros.
    fn discard(&self, addr: u64, size: u64) {
        let protected = self.protect(addr, size, libc::PROT_NONE);
        unsafe { libc::madvise(self.host(addr), size as usize, libc::MADV_DONTNEED) };
        if protected.is_err() {
            self.mark(addr, size, libc::PROT_NONE);
        }
    }

    /// Fails when the host has no memory map, or no memory, left.
    fn protect(&self, addr: u64, size: u64, prot: libc::c_int) -> Result<(), OutOfMaps> {
        // SAFETY: pages of this region.
        if unsafe { libc::mprotect(self.host(addr), size as usize, prot) } != 0 {
            return Err(OutOfMaps);
        }
        self.mark(addr, size, prot);
        Ok(())
    }

    /// Notes whether pages are accessible.
    fn mark(&self, addr: u64, size: u64, prot: libc::c_int) {
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
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        release(self.base.wrapping_add(self.delta));
    }
}

#[cfg(test)]
mod tests;
