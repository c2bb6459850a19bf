// SPDX-License-Identifier: GPL-2.0-only
//! The cache model: which CPU's cache has which line of the region, and what it costs to get one from elsewhere.
//!
//! The model lies in this crate because compiled code looks at the words of `lines` with a few machine instructions of its own.
//! What a transfer costs is set by the world (`Lines::set_caches`).

pub(crate) mod lines;
mod sets;

pub use lines::{Cache, LINE, Lines, MAX_CACHES, Transfers};
pub use sets::{Competitors, Sets};
