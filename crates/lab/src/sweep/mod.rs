// SPDX-License-Identifier: GPL-2.0-only
//! Sweeps: runs of all combinations of policies, machines, workloads, parameters, kernels and seeds.
//!
//! A sweep file ([`definition`]) contains the values of each axis. [`plan`] turns them into a list
//! of runs. [`run`] executes the runs on all CPUs of the host. It writes one row for each run to a
//! Parquet file ([`rows`], [`table`]), in the order of the list.
//!
//! A [`store`](runner::store) keeps the result of each run under a digest of everything that it depends on, and runs
//! whose results are there are not executed again. An interrupted sweep can therefore be continued,
//! with the same bytes in its file as without the interruption.
//!
//! [`rows`] reads such a file again, [`analysis`] computes from it, and [`page()`] shows the result
//! as an HTML page.

pub mod analysis;
pub mod definition;
mod page;
pub mod plan;
pub mod rows;
mod run;
pub mod table;

pub use definition::Sweep;
pub use page::page;
pub use plan::Plan;
pub use run::{Done, Options};
