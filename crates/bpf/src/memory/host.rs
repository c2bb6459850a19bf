// SPDX-License-Identifier: GPL-2.0-only
//! Reserves and releases address space on the host.

use super::layout::{HOST_ALIGN, REACH, RESERVED};

/// Asks the host to use huge pages for a range of memory. They make accesses to a large and densely
/// used range faster: with small pages, the translation of addresses takes as long as fetching the
/// data. The request is only a hint. It does nothing for a range that is smaller than a huge page.
pub fn want_huge_pages(start: *const u8, bytes: usize) {
    const HUGE: usize = 2 << 20;
    let first = (start as usize).next_multiple_of(HUGE);
    let end = (start as usize + bytes) / HUGE * HUGE;
    if first < end {
        // SAFETY: this changes only how the host backs the pages. A failure on hosts without huge
        // pages does no harm.
        unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
    }
}

/// Reserves a region at the host address `host`, with an inaccessible margin before and after it.
/// The engines check only the base register of an access, to which the access then adds an offset.
/// If the sum lies outside of the region, it lies in a margin, so the access faults instead of
/// reaching other memory.
pub(super) fn reserve_at(host: u64) -> Option<u64> {
    let start = host - REACH;
    let got = map(start, RESERVED, libc::MAP_FIXED_NOREPLACE)?;
    if got == start {
        return Some(host);
    }
    // Kernels before 4.17 treat the address only as a hint, so the mapping may be elsewhere.
    unmap(got, RESERVED);
    None
}

/// Reserves a region at any free host address.
pub(super) fn reserve_anywhere() -> Option<u64> {
    let margin = HOST_ALIGN as usize;
    let got = map(0, RESERVED + margin, 0)?;
    let host = (got + REACH).next_multiple_of(HOST_ALIGN);
    let (start, end) = (host - REACH, got + (RESERVED + margin) as u64);
    unmap(got, (start - got) as usize);
    unmap(start + RESERVED as u64, (end - start) as usize - RESERVED);
    Some(host)
}

/// Reserves inaccessible pages at `addr`, or at any address if `addr` is 0.
pub(super) fn map(addr: u64, bytes: usize, flags: libc::c_int) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: the call replaces no existing mapping.
    let got = unsafe { libc::mmap(addr as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

pub(super) fn unmap(addr: u64, bytes: usize) {
    if bytes > 0 {
        // SAFETY: this module reserved the pages, and no code uses them any more.
        unsafe { libc::munmap(addr as *mut libc::c_void, bytes) };
    }
}

/// Releases the host's addresses of a region, including the margins.
pub(super) fn release(host: u64) {
    unmap(host - REACH, RESERVED);
}
