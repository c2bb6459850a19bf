// SPDX-License-Identifier: GPL-2.0-only
//! Workloads that are read, refused with a hint, or damaged.

mod examples;
mod fuzz;
