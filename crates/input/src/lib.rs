// SPDX-License-Identifier: GPL-2.0-only
//! Notations that all user inputs share, such as durations, sizes and CPU lists, and the error type
//! for user errors.

pub mod cpu_list;
pub mod duration;
pub mod error;
pub mod size;
pub mod source;
pub mod suggest;

pub use error::{Error, Position};
pub use source::Source;
