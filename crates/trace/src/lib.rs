// SPDX-License-Identifier: GPL-2.0-only
//! What happened: the events a kernel tracepoint could have said, and what takes them in.

pub mod event;

pub use event::{Event, Record, Sink, TaskState};
