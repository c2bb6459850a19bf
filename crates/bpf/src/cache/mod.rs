// SPDX-License-Identifier: GPL-2.0-only
//! The cache model: which CPU's cache holds which cache line of the region, and the cost of a
//! transfer.
//!
//! The model is part of this crate because compiled code tests the words of `lines` with a few
//! machine instructions. The kernel crate sets the cost of a transfer (`Lines::set_caches`).

pub(crate) mod lines;
mod sets;

pub use lines::{Cache, LINE, Lines, MAX_CACHES, Transfers};
pub use sets::{Competitors, Sets};
