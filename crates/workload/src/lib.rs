// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: descriptions of what tasks do.
//!
//! A [`Workload`] is data: a list of tasks, each of which executes a [`Program`] of [`Op`]s on
//! shared [`Resource`]s. Readers and generators create it, and the kernel crate executes it.
//!
//! [`load`] accepts what a user can specify: an rt-app file, the name of a file in a directory, a
//! generator with parameters, or a recording to replay. Errors in the input are an [`Error`] with a
//! position and a hint, never a panic.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod builder;
mod check;
pub mod disturbance;
pub mod generator;
mod load;
pub mod program;
pub mod replay;
pub mod rtapp;
mod task_specs;
mod tasks;

pub use builder::Builder;
pub use check::MAX_NS;
pub use disturbance::{Action, Disturbance};
pub use generator::{Generator, Parameter, Unit, generators};
pub use input::{Error, Position};
pub use load::{files, load};
pub use program::{
    Attributes, Cgroup, Channel, Dist, Lack, MEASURED, Op, Program, RecordedMachine, Resource, SchedPolicy, Score,
    TaskKind, Workload,
};
pub use rtapp::to_rtapp_json;
pub use task_specs::{TaskSpec, TaskSpecs};
pub use tasks::Tasks;
