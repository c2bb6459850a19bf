// SPDX-License-Identifier: GPL-2.0-only
//! Notations that occur in many kinds of user input, for example durations, sizes and CPU lists.
//! The error type for user errors is also here.

pub mod cpu_list;
pub mod duration;
pub mod error;
pub mod size;
pub mod source;
pub mod suggest;

pub use error::{Error, Position};
pub use source::Source;
