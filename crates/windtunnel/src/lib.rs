// SPDX-License-Identifier: GPL-2.0-only
//! The `windtunnel` command, a simulator for Linux CPU schedulers.
//!
//! [`command`] has the subcommands. They parse options, execute runs with the crates `runner` and
//! `lab`, and print the results.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod command;
pub mod live;
pub mod top;
pub mod workloads;
