// SPDX-License-Identifier: GPL-2.0-only
//! Notations that occur in many kinds of user input, for example durations, sizes and CPU lists.
//! The error type for user errors is also here.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod cpu_list;
pub mod duration;
pub mod error;
mod number;
mod quoted;
pub mod size;
pub mod source;
pub mod suggest;

pub use error::{Error, Position};
pub use number::{counted, index, to_usize};
pub use source::Source;
