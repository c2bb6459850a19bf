// SPDX-License-Identifier: GPL-2.0-only
//! State of the simulated hardware: sets of CPUs, caches and CPU frequencies.

pub mod caches;
pub mod cpufreq;
pub mod cpuset;
pub mod footprint;
