// SPDX-License-Identifier: GPL-2.0-only
//! Enables the same features of third-party crates in every build. The crate contains no code.
//!
//! cargo compiles a crate with the features that the selected packages ask for. For example, only
//! the Python package needs `syn` with `visit-mut`. Without this crate, `cargo build -p windtunnel`
//! would therefore compile `serde` and most other crates again after `cargo test --workspace`.
//!
//! The crates `input` and `trace`, which have no other dependencies in the workspace, depend on this
//! crate. Its dependencies are crates that they, or nearly all crates, need anyway.
//! `scripts/check/features.sh` tests that the features are the same.
