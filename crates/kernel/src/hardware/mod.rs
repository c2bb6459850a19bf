// SPDX-License-Identifier: GPL-2.0-only
//! State of the simulated hardware: sets of CPUs, caches, CPU frequencies and idle states.

pub mod cpufreq;
pub mod cpuidle;
pub mod footprint;
pub mod memory;
pub mod smt;
