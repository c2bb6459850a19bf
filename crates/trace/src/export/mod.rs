// SPDX-License-Identifier: GPL-2.0-only
//! Exporters: consumers of records (sinks) that write the records of a run in the file formats of
//! other tools.

mod ftrace;
mod output;
pub(crate) mod perfetto;
mod printk;
mod spans;

pub use ftrace::Ftrace;
pub use perfetto::Perfetto;
pub use printk::Printk;
