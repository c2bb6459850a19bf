// SPDX-License-Identifier: GPL-2.0-only
//! Address space and pages of the host.

use super::layout::{HOST_ALIGN, REACH, RESERVED};

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
pub(super) fn reserve_at(host: u64) -> Option<u64> {
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
pub(super) fn reserve_anywhere() -> Option<u64> {
    let margin = HOST_ALIGN as usize;
    let got = map(0, RESERVED + margin, 0)?;
    let host = (got + REACH).next_multiple_of(HOST_ALIGN);
    let (start, end) = (host - REACH, got + (RESERVED + margin) as u64);
    unmap(got, (start - got) as usize);
    unmap(start + RESERVED as u64, (end - start) as usize - RESERVED);
    Some(host)
}

/// Inaccessible pages at `addr`, or anywhere.
pub(super) fn map(addr: u64, bytes: usize, flags: libc::c_int) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: replaces nothing that is mapped.
    let got = unsafe { libc::mmap(addr as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

pub(super) fn unmap(addr: u64, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the pages were reserved here, and nobody uses them.
        unsafe { libc::munmap(addr as *mut libc::c_void, bytes) };
    }
}

/// Gives the host's addresses of a region back.
pub(super) fn release(host: u64) {
    unmap(host - REACH, RESERVED);
}
