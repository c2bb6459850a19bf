// SPDX-License-Identifier: GPL-2.0-only
//! State of a machine's hardware: sets of CPUs, caches, CPU speed.

pub mod caches;
pub mod cpufreq;
pub mod cpuset;
pub mod footprint;
pub mod smt;
