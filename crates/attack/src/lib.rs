// SPDX-License-Identifier: GPL-2.0-only
//! Attacks on the simulator with hostile inputs.
//!
//! The inputs come from three sources:
//!
//! - Hand-written inputs. The attack objects are compiled from `corpus/*.bpf.c`. These files list
//!   how each attack must end ([`corpus`]). The machines, workloads, profiles, suites and
//!   recordings are in [`texts`].
//! - Damaged inputs. [`mutate`] damages valid inputs, and uses knowledge of their formats.
//! - Generated policies. [`policy`] makes hostile policies from valid instructions.
//!
//! A [`campaign`] starts [`child`] processes, which run inputs with limits. A panic, a signal, a
//! time-out or excessive memory use is a [`Failure`](campaign::Failure). The campaign reports
//! failures together with the inputs that caused them. docs/security.md describes the threat model.

pub mod campaign;
pub mod child;
pub mod compile;
pub mod corpus;
pub mod execute;
pub mod kind;
pub mod mutate;
pub mod policy;
mod readers;
pub mod seeds;
pub mod texts;

use std::path::{Path, PathBuf};

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../..")
}

/// Returns the directory for compiled objects and failing inputs.
pub fn output() -> PathBuf {
    root().join("target/attack")
}
