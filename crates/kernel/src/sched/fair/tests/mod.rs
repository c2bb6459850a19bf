// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the fair class. Most of them check its effects on a simulated machine.

mod balance;
mod eevdf;
mod features;
mod groups;
mod levels;
mod limits;
mod random;
mod sched_cache;
mod slices;
mod snapshot;
mod wake;
