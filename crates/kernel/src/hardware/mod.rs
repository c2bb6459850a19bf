// SPDX-License-Identifier: GPL-2.0-only
//! What a machine is made of while it runs: sets of CPUs, caches, frequency.

pub mod caches;
pub mod cpufreq;
pub mod cpuset;
pub mod footprint;
