// SPDX-License-Identifier: GPL-2.0-only
//! Suites: tests of policies as data. A case is an object, a machine, a workload and steps: what a test's user-space half
//! does, and what must hold then.
//!
//! `definition` is the file as written, `step` the closed list of steps, `run` takes a case through them.

mod definition;
mod run;
mod step;

pub use definition::{Case, Suite};
