// SPDX-License-Identifier: GPL-2.0-only
//! Attacks on the simulator with hostile inputs.
//!
//! There are three sources of inputs:
//!
//! - `corpus/*.bpf.c` are hand-written attack objects with their expected ends ([`corpus`]).
//!   [`texts`] are hand-written machines, workloads, profiles, suites and recordings.
//! - [`mutate`] damages real inputs, using knowledge of their formats.
//! - [`policy`] generates hostile policies from valid instructions.
//!
//! A [`child`] process runs inputs under limits. The [`campaign`] starts children and reports a
//! panic, a signal, a time-out or excessive memory use as a [`Failure`](campaign::Failure), with
//! the input that caused it. docs/security.md describes the threat model.

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

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../..")
}

/// Returns the directory of compiled objects and failing inputs.
pub fn output() -> PathBuf {
    root().join("target/attack")
}
