// SPDX-License-Identifier: GPL-2.0-only
//! Errors of loading a policy.

use crate::policy::user_space_error::UserSpaceError;
use crate::sched::ext::state::exit_info::Exit;
use bpf::cache::LINE;
use bpf::fault::Fault;
use bpf::link::Image;
use profile::{OPS, ProfileError};
use std::fmt;
use thiserror::Error;

/// Reason why a policy could not be loaded. The machine is then unchanged, except for effects of
/// programs of the policy that have already run.
#[derive(Debug)]
#[must_use]
pub enum LoadError {
    /// A user error: the object is not a scheduler, or the profile does not fit the object.
    Input(InputError),
    /// A policy error: the kernel or libbpf would reject the policy, or the policy failed while it
    /// was being enabled.
    Refused(Box<Exit>),
}

/// A user error that prevents the loading of a policy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InputError {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("the profile does not fit: {0}")]
    UserSpace(#[from] UserSpaceError),
    #[error("{0}")]
    Object(Box<bpf::error::Error>),
    /// The global variables of an object cannot be written.
    #[error("{0}")]
    Memory(Fault),
    #[error("no policy is installed")]
    NotInstalled,
    #[error("{file}: the object has no struct sched_ext_ops{}", table_name(name))]
    NoScheduler {
        file: String,
        /// Name of the table of callbacks that the profile asks for, or an empty string.
        name: String,
    },
    #[error("a profile cannot set ops.{member} = {value}; it can set {}", OPS.join(", "))]
    Member { member: String, value: String },
    #[error("a profile cannot leave out ops.{0}: Linux 7.2 has no such callback")]
    UnknownCallback(String),
    #[error(
        "{file}: the profile does not fit: {key} = \"{name}\", but the object has no such program; {}",
        tracing_programs(known)
    )]
    NoProgram {
        file: String,
        key: &'static str,
        name: String,
        /// The tracing programs of the object.
        known: Vec<String>,
    },
    #[error(
        "global array {array} has the declaration tag {tag}, but its elements are not whole cache lines: \
         align the element type to {LINE} bytes"
    )]
    Unaligned { array: String, tag: &'static str },
}

impl From<bpf::error::Error> for InputError {
    fn from(error: bpf::error::Error) -> InputError {
        InputError::Object(Box::new(error))
    }
}

fn table_name(name: &str) -> String {
    match name {
        "" => ", so it is not a scheduler".into(),
        name => format!(" {name}"),
    }
}

fn tracing_programs(known: &[String]) -> String {
    match known {
        [] => "it has no tracing program".into(),
        known => format!("its tracing programs are {}", known.join(", ")),
    }
}

impl LoadError {
    /// Returns the error for an object that the kernel or libbpf would reject before any of its
    /// code runs.
    pub(crate) fn refused(image: &Image, reason: impl fmt::Display, now: u64) -> LoadError {
        LoadError::Refused(Exit::refusal(file_stem(&image.file), reason.to_string(), now))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Input(error) => error.fmt(f),
            LoadError::Refused(exit) => exit.fmt(f),
        }
    }
}

impl<E: Into<InputError>> From<E> for LoadError {
    fn from(error: E) -> LoadError {
        LoadError::Input(error.into())
    }
}

/// Returns NAME for a path of the form `path/to/NAME.bpf.o`.
pub(crate) fn file_stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".bpf.o").or(name.strip_suffix(".o")).unwrap_or(name)
}
