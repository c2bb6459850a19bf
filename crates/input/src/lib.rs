// SPDX-License-Identifier: GPL-2.0-only
//! The notations that users write everywhere, and the messages about what they wrote.

pub mod cpu_list;
pub mod duration;
pub mod error;
pub mod size;
pub mod source;
pub mod suggest;

pub use error::{Error, Position};
pub use source::Source;
