// SPDX-License-Identifier: GPL-2.0-only
//! Attacks on the simulator.
//!
//! Three sources of hostile inputs share one way of running them:
//!
//! - `corpus/*.bpf.c` are hand-written attack objects, each with its expected end ([`corpus`]); [`texts`] are hand-written
//!   machines, workloads, profiles, suites and recordings.
//! - [`mutate`] damages real inputs, with knowledge of their format.
//! - [`policy`] generates policies that are well formed and hostile.
//!
//! A [`child`] process runs inputs under limits; the [`campaign`] starts children, and turns a panic, a signal, a time-out
//! or too much memory into a [`Failure`](campaign::Failure) with the input that caused it. docs/security.md has the threat
//! model.

pub mod campaign;
pub mod child;
pub mod compile;
pub mod corpus;
pub mod execute;
pub mod kind;
pub mod mutate;
pub mod policy;
pub mod random;
pub mod seeds;
pub mod texts;

use std::path::{Path, PathBuf};

/// Root folder of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../..")
}

/// Folder of compiled objects and failing inputs.
pub fn output() -> PathBuf {
    root().join("target/attack")
}
