// SPDX-License-Identifier: GPL-2.0-only
//! State of the simulated hardware: sets of CPUs, caches, CPU frequencies and idle states.

pub mod caches;
pub mod cpufreq;
pub mod cpuidle;
pub mod cpuset;
pub mod footprint;
pub mod memory;
pub mod pages;
pub mod smt;
