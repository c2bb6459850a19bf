// SPDX-License-Identifier: GPL-2.0-only
//! Errors of the steps that a profile describes.

use crate::sched::tracepoint::ProgramError;
use bpf::fault::Fault;
use profile::ProfileError;
use thiserror::Error;

/// Why a step of a profile could not be performed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UserSpaceError {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("no policy is loaded")]
    NoPolicy,
    #[error("{path} = {value}: {error}")]
    Entry {
        path: String,
        value: i64,
        error: EntryError,
    },
    #[error("{file}: there is no program {name}")]
    UnknownProgram { file: String, name: String },
    #[error("program {program} returned {value} for {args:?}")]
    Returned {
        program: String,
        value: i32,
        args: Vec<String>,
    },
    #[error("resume_latency_us = {0}: expected a number of us, or 0 for no limit")]
    Latency(i64),
    #[error("the machine has no CPU {0}")]
    NoCpu(i64),
    /// A word of memory at an address that a program has returned.
    #[error("{path} = {value}: {fault}")]
    Memory { path: String, value: i64, fault: Fault },
}

/// Why an entry of a map cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    #[error("expected MAP[KEY]")]
    NoKey,
    #[error("']' is missing")]
    MissingBracket,
    #[error("{file}: there is no map {name}")]
    UnknownMap { file: String, name: String },
    #[error("'{0}' in the key is not a number")]
    KeyNotNumber(String),
    #[error("each part of a key must have at most 8 bytes")]
    KeyTooLong,
    #[error("the map is a per-CPU map: expected MAP[KEY][cpu]")]
    NoCpuIndex,
    #[error("'{0}' is not a CPU number")]
    CpuNotNumber(String),
    #[error("{0}")]
    Object(Box<bpf::error::Error>),
}

impl From<bpf::error::Error> for EntryError {
    fn from(error: bpf::error::Error) -> EntryError {
        EntryError::Object(Box::new(error))
    }
}
