// SPDX-License-Identifier: GPL-2.0-only
//! What happened: the events a kernel tracepoint could have said, and what takes them in.
//!
//! A run produces [`Record`]s in time order and hands them, a batch at a time, to a [`Sink`]:
//! the [`Hash`] that identifies the run, the [`Writer`] of trace files, the [`Draw`]ing of the
//! schedule as text, the files of [`export`], the report crate's summary, or a [`Tee`] of several. A [`Reader`] gives a
//! trace file's records back. No sink keeps the records, so memory does not grow with time.
//! [`recording`] reads what was recorded on a real machine.

mod by_number;
pub mod draw;
pub mod encode;
pub mod escape;
pub mod event;
pub mod export;
pub mod file;
pub mod follow;
mod form;
pub mod hash;
pub mod header;
pub mod label;
pub mod recording;
pub mod tee;

pub use by_number::ByNumber;
pub use draw::{Draw, DrawError, DrawOptions};
pub use event::{Event, MigrateReason, Record, Sink, TaskState, built_in_dsq, dsq_name};
pub use file::{ReadError, Reader, Trailer, Writer};
pub use follow::Follow;
pub use hash::Hash;
pub use header::{Header, Place, Shared};
pub use tee::Tee;
