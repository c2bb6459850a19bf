// SPDX-License-Identifier: GPL-2.0-only
//! The events of a run, and everything that reads or writes them.
//!
//! A simulated machine reports its events as [`Record`]s, in batches and in time order, to a
//! [`Sink`]. These are the sinks:
//!
//! - [`Hash`], which identifies the run;
//! - [`Writer`], which writes a trace file ([`Reader`] reads it back);
//! - [`Draw`], which draws the schedule as text;
//! - [`export`], which writes files for other tools;
//! - the report crate's summary;
//! - [`Tee`], which passes records on to several sinks.
//!
//! No sink keeps all records, so the memory needed does not grow with the length of a run.
//! [`recording`] reads recordings of real machines.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod by_number;
mod canonical;
pub mod draw;
pub mod encode;
pub mod escape;
pub mod event;
pub mod export;
pub mod file;
pub mod follow;
pub mod hash;
pub mod header;
pub mod label;
mod number;
pub mod recording;
pub mod snapshot;
pub mod tee;

pub use by_number::ByNumber;
pub use draw::{Draw, DrawError, DrawOptions};
pub use event::{Event, KTHREADD, MigrateReason, Record, Sink, Slowdown, TaskState, built_in_dsq, dsq_name};
pub use file::{ReadError, Reader, Trailer, Writer};
pub use follow::{Activity, Ended, Follow, RunState, Wait};
pub use hash::Hash;
pub use header::{CpuPosition, Header, Shared};
pub use snapshot::Snapshot;
pub use tee::Tee;
