// SPDX-License-Identifier: GPL-2.0-only
//! State of caches, memory, CPU frequencies, idle states and hardware threads.

pub mod caches;
pub mod cpufreq;
pub mod cpuidle;
pub mod memory;
pub mod pages;
pub mod smt;
