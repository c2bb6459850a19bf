// SPDX-License-Identifier: GPL-2.0-only
//! Suites: files with test cases for policies, run by `windtunnel suite`.
//!
//! A case is an object, a machine, a workload and steps. The steps do what the user-space part of a
//! test does, for example load the policy and wait, and state what must hold.
//!
//! `definition` is the file format, `step` the list of steps, and `run` executes a case.

mod definition;
mod run;
mod step;

pub use definition::{Case, Suite};
