// SPDX-License-Identifier: GPL-2.0-only
//! A wind tunnel for Linux CPU schedulers: the library behind the command.
//!
//! A [`Scenario`](scenario::Scenario) is a policy, a machine, a workload and a seed; running it gives a
//! [`RunResult`](report::RunResult). The library never prints, but for [`console`], which is what the commands print with; errors say where and what to do ([`error::Error`]).

pub mod calibrate;
pub mod compare;
pub mod console;
pub mod destination;
pub mod diff;
pub mod experiment;
pub mod exports;
pub mod interrupt;
pub mod invariants;
pub mod load;
pub mod page;
pub mod parallel;
pub mod parameter;
pub mod policy;
pub mod predict;
pub mod profiles;
pub mod running;
pub mod scenario;
pub mod search;
pub mod suite;
pub mod top;
pub mod traced;
pub mod workloads;

pub use input::{duration, error, size};
