// SPDX-License-Identifier: GPL-2.0-only
//! The description of a run.

use ::bpf::engine::Engine;

/// How a program is started.
pub struct Settings {
    /// The words of its command line. The first is the program.
    pub command: Vec<String>,
    pub engine: Engine,
    /// Whether the output of the program is written to standard error.
    pub echo: bool,
    /// Whether to record a profile.
    pub record: bool,
    /// Index of the description of the threads in the workload ([`kernel::native::add_to`]).
    pub index: u32,
}
