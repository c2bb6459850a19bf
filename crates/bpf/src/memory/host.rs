// SPDX-License-Identifier: GPL-2.0-only
//! Address space of the host: system calls that reserve, protect and release pages.
//!
//! Miri does not support most of these calls. It uses [`host_miri`](super) instead, which has the
//! same functions.

use super::layout::{HOST_ALIGN, REACH, RESERVED};
use super::share::SharedFile;

/// Access rights of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    None,
    Read,
    ReadWrite,
}

impl Access {
    fn prot(self) -> libc::c_int {
        match self {
            Access::None => libc::PROT_NONE,
            Access::Read => libc::PROT_READ,
            Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

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
    // SAFETY: the call replaces no existing mapping.
    let got = unsafe { map(start, RESERVED, libc::PROT_NONE, libc::MAP_FIXED_NOREPLACE) }?;
    if got == start {
        return Some(host);
    }
    // Kernels before 4.17 treat the address only as a hint, so the mapping may be elsewhere.
    // SAFETY: the pages were reserved above.
    unsafe { unmap(got, RESERVED) };
    None
}

/// Reserves a region at any free host address.
pub(super) fn reserve_anywhere() -> Option<u64> {
    let margin = HOST_ALIGN as usize;
    // SAFETY: the call replaces no existing mapping.
    let got = unsafe { map(0, RESERVED + margin, libc::PROT_NONE, 0) }?;
    let host = (got + REACH).next_multiple_of(HOST_ALIGN);
    let (start, end) = (host - REACH, got + (RESERVED + margin) as u64);
    // SAFETY: the pages were reserved above, and lie outside of the region and its margins.
    unsafe {
        unmap(got, (start - got) as usize);
        unmap(start + RESERVED as u64, (end - start) as usize - RESERVED);
    }
    Some(host)
}

/// Releases the host's addresses of a region, including the margins.
///
/// # Safety
/// A function of this module reserved the region, and nothing uses it any more.
pub(super) unsafe fn release(host: u64) {
    // SAFETY: as the caller promises.
    unsafe { unmap(host - REACH, RESERVED) };
}

/// Maps accessible memory that consists of zeros, at the host address `at` if it is free.
pub(crate) fn zeros(at: u64, bytes: usize) -> Option<*mut u8> {
    // SAFETY: the call replaces no existing mapping.
    let got = unsafe { map(at, bytes, Access::ReadWrite.prot(), 0) }?;
    // Huge pages would waste memory, because only a few words of each page are used.
    // SAFETY: the mapping was created above.
    unsafe { libc::madvise(got as *mut libc::c_void, bytes, libc::MADV_NOHUGEPAGE) };
    Some(got as *mut u8)
}

/// Releases the memory that [`zeros`] returned.
///
/// # Safety
/// The memory has this size, and nothing uses it any more.
pub(crate) unsafe fn release_zeros(start: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { unmap(start as u64, bytes) };
}

/// Sets the access rights of pages. Returns whether the host could do so: it may allow no more
/// memory mappings, or have no memory left.
///
/// # Safety
/// The pages are part of a reserved region. While they are not accessible, no reference to them
/// is used.
pub(super) unsafe fn protect(start: u64, bytes: usize, access: Access) -> bool {
    // SAFETY: as the caller promises.
    unsafe { libc::mprotect(start as *mut libc::c_void, bytes, access.prot()) == 0 }
}

/// Drops the contents of pages, which then consist of zeros.
///
/// # Safety
/// The pages are part of a reserved region, and nothing uses them any more.
pub(super) unsafe fn drop_contents(start: u64, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_DONTNEED) };
}

/// Replaces pages by inaccessible ones.
///
/// # Safety
/// The pages are part of a reserved region, and nothing uses them any more.
pub(super) unsafe fn replace(start: u64, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { map(start, bytes, libc::PROT_NONE, libc::MAP_FIXED) };
}

/// Maps a part of a file at any host address.
pub(super) fn map_file(bytes: u64, file: SharedFile) -> Option<u64> {
    // SAFETY: the call replaces no existing mapping.
    unsafe { file_at(0, bytes, file, 0) }
}

/// Replaces pages by those of a file.
///
/// # Safety
/// The pages are part of a reserved region, and nothing uses them any more.
pub(super) unsafe fn replace_by_file(start: u64, bytes: u64, file: SharedFile) -> Option<u64> {
    // SAFETY: as the caller promises.
    unsafe { file_at(start, bytes, file, libc::MAP_FIXED) }
}

/// Maps pages of a file at `start`, or at any address if `start` is 0.
///
/// # Safety
/// With MAP_FIXED, the pages at `start` are part of a reserved region, and nothing uses them any more.
unsafe fn file_at(start: u64, bytes: u64, file: SharedFile, flags: libc::c_int) -> Option<u64> {
    let offset = libc::off_t::try_from(file.offset).ok()?;
    let bytes = usize::try_from(bytes).ok()?;
    let prot = Access::ReadWrite.prot();
    let flags = libc::MAP_SHARED | flags;
    // SAFETY: without MAP_FIXED, the call replaces no existing mapping; otherwise as the caller promises.
    let got = unsafe { libc::mmap(start as *mut libc::c_void, bytes, prot, flags, file.fd, offset) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

/// Maps private pages of zeros at `start`, or at any address if `start` is 0.
///
/// # Safety
/// As in [`file_at`].
unsafe fn map(start: u64, bytes: usize, prot: libc::c_int, flags: libc::c_int) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: without MAP_FIXED, the call replaces no existing mapping; otherwise as the caller promises.
    let got = unsafe { libc::mmap(start as *mut libc::c_void, bytes, prot, flags, -1, 0) };
    (got != libc::MAP_FAILED).then_some(got as u64)
}

/// Releases pages.
///
/// # Safety
/// This module mapped the pages, and nothing uses them any more.
pub(super) unsafe fn unmap(start: u64, bytes: usize) {
    if bytes > 0 {
        // SAFETY: as the caller promises.
        unsafe { libc::munmap(start as *mut libc::c_void, bytes) };
    }
}
