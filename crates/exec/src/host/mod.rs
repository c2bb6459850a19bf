// SPDX-License-Identifier: GPL-2.0-only
//! The program as a process of the host: its start, its threads, its registers and its memory.
//!
//! Only this module knows the host's process ids. The program itself sees those of the simulated
//! machine.

mod error;
mod memory;
mod start;
mod trace;
mod watchdog;

pub(crate) use error::HostError;
pub(crate) use start::{SHARED_FD, start};
pub(crate) use trace::{Call, Host, Stop};

/// Largest amount of private memory of a program, bytes (RLIMIT_DATA).
pub(crate) const MEMORY: u64 = 2 << 30;
/// Largest number of files of the host that a program can have open at the same time.
pub(crate) const HOST_FILES: u64 = 120;
