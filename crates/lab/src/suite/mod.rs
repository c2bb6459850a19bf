// SPDX-License-Identifier: GPL-2.0-only
//! Suites: files with test cases for policies. `windtunnel suite` runs them.
//!
//! A case consists of an object, a machine, a workload and steps. Some steps do what the user-space
//! program of a test does, for example load the policy and wait. Other steps state what must hold.
//!
//! `definition` is the file format, `step` the list of steps, and `run` executes a case.

mod definition;
mod run;
mod step;

pub use definition::{Case, Suite};
