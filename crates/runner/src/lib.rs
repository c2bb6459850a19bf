// SPDX-License-Identifier: GPL-2.0-only
//! Describes and executes runs.
//!
//! A [`RunSpec`](spec::RunSpec) describes a run: its policy, machine, workload, seed and options.
//! [`RunSpec::resolve`](spec::RunSpec::resolve) reads the inputs and returns a
//! [`Scenario`](scenario::Scenario). Running it returns an [`Outcome`](scenario::Outcome), which
//! contains the [`RunResult`](report::RunResult).
//!
//! An error names the input, the position in it and a next step ([`input::error::Error`]). All
//! output to the terminal goes through [`console`].

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod code_files;
pub mod console;
pub mod counters;
pub mod destination;
pub mod exit;
pub mod exports;
mod hotspots;
pub mod inputs;
pub mod interrupt;
pub mod load;
pub mod parallel;
pub mod parameter;
pub mod policy;
pub mod profiles;
pub mod quote;
pub mod repeat;
mod results;
pub mod running;
pub mod scenario;
pub mod scripts;
pub mod search;
pub mod spec;
pub mod store;
pub mod subs;
pub mod traced;
