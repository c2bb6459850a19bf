// SPDX-License-Identifier: GPL-2.0-only
//! Scripts, which say what happens on a machine, one event a line, and the logs of what the scheduler
//! then decides (docs/scripts.md). Between two lines no time passes, and the kernel's own work takes
//! no time either.
//!
//! [`Script::parse`] reads a script, and [`run`] executes it in the simulator and returns the log.
//! [`convert`] writes a script from a workload. `scripts/conform.sh` executes the same scripts in a real kernel, which must log the same.

mod convert;
mod log;
mod machine;
mod parse;
mod run;
mod words;

pub use convert::{Converted, Source, Stalled, convert};
pub use input::Error;
pub use parse::{Command, Line, Policy, Script};
pub use run::{Loaded, RELEASE, run};
