// SPDX-License-Identifier: GPL-2.0-only
//! The functions of `host` for Miri, which cannot reserve address space, protect pages or map
//! files: all memory of a region is allocated and accessible. The table of accessible pages
//! ([`Region::check`](super::Region::check)) is the same, so Miri still finds accesses that the
//! checks should have refused, if they go beyond the region.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use super::layout::{HOST_ALIGN, REACH, RESERVED};
use super::share::SharedFile;

/// Access rights of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    None,
    Read,
    ReadWrite,
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, HOST_ALIGN as usize).expect("the size is small")
}

pub fn want_huge_pages(_: *const u8, _: usize) {}

pub(super) fn reserve_at(_: u64) -> Option<u64> {
    None
}

pub(super) fn reserve_anywhere() -> Option<u64> {
    // The region begins at the next multiple of the alignment after the margin.
    Some(zeros(0, RESERVED + HOST_ALIGN as usize)?.expose_provenance() as u64 + HOST_ALIGN)
}

/// # Safety
/// As in `host`.
pub(super) unsafe fn release(host: u64) {
    const { assert!(REACH <= HOST_ALIGN) };
    // SAFETY: `reserve_anywhere` allocated these bytes.
    unsafe { release_zeros((host - HOST_ALIGN) as *mut u8, RESERVED + HOST_ALIGN as usize) };
}

pub(crate) fn zeros(_: u64, bytes: usize) -> Option<*mut u8> {
    // SAFETY: the size is not 0.
    let start = unsafe { alloc_zeroed(layout(bytes)) };
    (!start.is_null()).then_some(start)
}

/// # Safety
/// As in `host`.
pub(crate) unsafe fn release_zeros(start: *mut u8, bytes: usize) {
    // SAFETY: `zeros` allocated these bytes.
    unsafe { dealloc(start, layout(bytes)) };
}

/// # Safety
/// As in `host`.
pub(super) unsafe fn protect(_: u64, _: usize, _: Access) -> bool {
    true
}

/// # Safety
/// As in `host`.
pub(super) unsafe fn drop_contents(start: u64, bytes: usize) {
    // SAFETY: the pages are part of a region, and nothing uses them.
    unsafe { std::ptr::write_bytes(start as *mut u8, 0, bytes) };
}

/// # Safety
/// As in `host`.
pub(super) unsafe fn replace(_: u64, _: usize) {}

pub(super) fn map_file(_: u64, _: SharedFile) -> Option<u64> {
    None
}

/// # Safety
/// As in `host`.
pub(super) unsafe fn replace_by_file(_: u64, _: u64, _: SharedFile) -> Option<u64> {
    None
}

/// # Safety
/// As in `host`.
pub(super) unsafe fn unmap(_: u64, _: usize) {}
