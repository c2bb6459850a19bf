// SPDX-License-Identifier: GPL-2.0-only
//! The library behind the `windtunnel` command, a simulator for Linux CPU schedulers.
//!
//! A [`RunSpec`](spec::RunSpec) describes a run: its policy, machine, workload, seed and options.
//! [`RunSpec::resolve`](spec::RunSpec::resolve) reads the inputs and returns a
//! [`Scenario`](scenario::Scenario). Running it returns an [`Outcome`](scenario::Outcome), which
//! contains the [`RunResult`](report::RunResult). Only the commands ([`command`]) print, and they do it through
//! [`console`].
//! An error names the input, the position in it and a next step ([`error::Error`]).

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod calibrate;
pub mod code_files;
pub mod command;
pub mod compare;
pub mod console;
pub mod counters;
pub mod destination;
pub mod diff;
pub mod exit;
pub mod experiment;
pub mod exports;
pub mod grid;
pub mod inputs;
pub mod interrupt;
pub mod invariants;
pub mod live;
pub mod load;
pub mod page;
pub mod parallel;
pub mod parameter;
pub mod policy;
pub mod predict;
pub mod profiles;
pub mod quote;
pub mod running;
pub mod scenario;
pub mod score;
pub mod scripts;
pub mod search;
pub mod spec;
pub mod store;
pub mod suite;
pub mod sweep;
pub mod top;
pub mod traced;
pub mod workloads;

pub use input::{duration, error, size};
