// SPDX-License-Identifier: GPL-2.0-only
//! The simulated hardware: caches, memory, CPU frequencies, idle states, hardware threads, and CPUs
//! that run in turn.

pub mod cpufreq;
pub mod cpuidle;
pub mod footprint;
pub mod memory;
pub mod smt;
pub mod turns;
