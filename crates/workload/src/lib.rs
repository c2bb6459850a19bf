// SPDX-License-Identifier: GPL-2.0-only
//! What tasks ask for: a [`Workload`] is data, a list of tasks each running a [`Program`] of [`Op`]s
//! over shared [`Resource`]s. Readers and generators make it; the kernel crate executes it.

pub mod program;

pub use program::{Dist, Op, Policy, Program, Resource, TaskSpec, Workload};
