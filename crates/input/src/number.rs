// SPDX-License-Identifier: GPL-2.0-only
//! Conversion of numbers without loss, and numbers in texts.

/// Converts the length of a collection, or an index into it, to `u32`.
///
/// # Panics
/// `len` is 2^32 or more. This does not happen: readers limit the size of their inputs, so no
/// collection that they build is that long.
#[inline]
#[must_use]
#[track_caller]
pub fn index(len: usize) -> u32 {
    u32::try_from(len).expect("inputs are limited to fewer than 2^32 elements")
}

/// Converts to `usize`, which has 64 bits on all supported hosts.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the assertion does not compile elsewhere"
)]
pub fn to_usize(number: u64) -> usize {
    const { assert!(usize::BITS == u64::BITS) };
    number as usize
}

/// Returns a number with its noun, in the plural if the number is not 1.
pub fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}
