// SPDX-License-Identifier: GPL-2.0-only
//! Model of the caches of the simulated CPUs: which cache holds which cache line, and the cost of
//! moving a line to another cache.
//!
//! The model is part of this crate because the code that the JIT emits reads the model's data
//! directly, with a few machine instructions. The kernel crate sets the costs of transfers
//! (`Lines::set_caches`).

pub(crate) mod lines;
mod sets;

pub use lines::{Cache, LINE, Lines, MAX_CACHES, Transfers};
pub use sets::{Competitors, Sets};
