// SPDX-License-Identifier: GPL-2.0-only
//! Sweeps: runs of all combinations of policies, machines, workloads, parameters, kernels and seeds.
//!
//! A sweep file ([`definition`]) names the values of each axis. [`plan`] turns them into a list of
//! runs. [`run`] executes the runs on all CPUs of the host and writes one row for each run to a
//! Parquet file ([`rows`]), in the order of the list.
//!
//! The result of each run is kept in a [`store`] under a hash of everything that it depends on. A
//! run whose result is there is not executed again. A sweep that was interrupted therefore goes on
//! where it ended, and writes the same bytes as one that was not.

pub mod definition;
pub mod plan;
pub mod rows;
mod run;
pub mod store;

pub use definition::Sweep;
pub use plan::Plan;
pub use run::{Done, Options};
pub use store::Store;
