// SPDX-License-Identifier: GPL-2.0-only
//! Errors of the program on the host. The subject of the messages is the program.

use super::watchdog::LIMIT;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why the program could not be started, or cannot continue.
#[derive(Debug, Error)]
pub enum HostError {
    #[error("cannot execute {}: {error}", program.display())]
    NotExecuted { program: PathBuf, error: io::Error },
    #[error("{} ended before its first instruction", .0.display())]
    EndedAtOnce(PathBuf),
    #[error("the host does not allow tracing: {0}")]
    NoTracing(io::Error),
    #[error("{call}: {error}")]
    SharedMemory { call: &'static str, error: io::Error },
    #[error("the stack of the program cannot be {0}")]
    Stack(&'static str),
    #[error("it is gone{}", .0.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    Gone(Option<io::Error>),
    #[error("it ended")]
    Ended,
    #[error("the signal {0} ended it")]
    Killed(i32),
    #[error("it received the signal {0}")]
    Signal(i32),
    #[error("segmentation fault at {0:#x}")]
    SegmentationFault(u64),
    #[error("it computed for {} s without a system call", LIMIT.as_secs())]
    Hung,
    #[error("its registers cannot be {what}: {error}")]
    Registers { what: &'static str, error: io::Error },
    #[error("it makes a system call of 32-bit programs")]
    ThirtyTwoBit,
}
