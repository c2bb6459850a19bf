// SPDX-License-Identifier: GPL-2.0-only
//! Traces for the tools that schedulers' users already have: sinks that write while the records pass.

mod ftrace;
mod output;
mod perfetto;
mod spans;

pub use ftrace::Ftrace;
pub use perfetto::Perfetto;
