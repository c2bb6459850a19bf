// SPDX-License-Identifier: GPL-2.0-only
//! Conversion of numbers without loss.

/// Converts the length of a collection, or an index into it, to `u32`.
///
/// # Panics
/// If `len` is 2^32 or more. This does not happen: blocks and headers are limited, and no
/// machine has that many CPUs, tasks or tracks.
#[inline]
#[track_caller]
pub(crate) fn index(len: usize) -> u32 {
    u32::try_from(len).expect("fewer than 2^32 elements")
}
