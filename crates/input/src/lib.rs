// SPDX-License-Identifier: GPL-2.0-only
//! The notations that users write everywhere, and the messages about what they wrote.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod cpu_list;
pub mod duration;
pub mod error;
mod number;
pub mod size;
pub mod source;
pub mod suggest;

pub use error::{Error, Position};
pub use number::{index, to_usize};
pub use source::Source;
