// SPDX-License-Identifier: GPL-2.0-only
//! What tasks ask for: a [`Workload`] is data, a list of tasks each running a [`Program`] of [`Op`]s
//! over shared [`Resource`]s. Readers and generators make it; the kernel crate executes it.
//!
//! [`load`] takes what a user writes: an rt-app file, the name of one in a folder, a generator with parameters, or a
//! recording to be replayed. Whatever is wrong with it is an [`Error`] with the place and a hint, never a panic.

pub mod builder;
mod check;
pub mod disturbance;
pub mod generator;
mod load;
pub mod program;
pub mod replay;
pub mod rtapp;
mod tasks;

pub use builder::Builder;
pub use check::MAX_NS;
pub use disturbance::{Action, Disturbance};
pub use generator::{Generator, Parameter, Unit, generators};
pub use input::{Error, Position};
pub use load::{files, load};
pub use program::{Cgroup, Channel, Dist, MEASURED, Op, Policy, Program, Resource, Score, TaskSpec, Workload};
pub use rtapp::to_rtapp_json;
pub use tasks::Tasks;
