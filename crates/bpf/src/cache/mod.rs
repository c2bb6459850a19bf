// SPDX-License-Identifier: GPL-2.0-only
//! Model of the caches of the simulated CPUs: which cache holds which cache line, and the cost of
//! moving a line to another cache.
//!
//! The model is part of this crate because the code that the JIT emits reads the model's data
//! directly, with a few machine instructions. The kernel crate calls `Lines::set_caches` to set the
//! costs of transfers.

pub(crate) mod lines;
mod sets;
mod watch;

pub use lines::{Cache, LINE, Lines, MAX_CACHES, Transfers};
pub use sets::{Competitors, Sets};
pub use watch::{Moves, Place};
