// SPDX-License-Identifier: GPL-2.0-only
//! The loader, which turns an object's bytes into executable code:
//!
//! - `object` reads the ELF file, and `btf` reads its types.
//! - `core_relo` adapts the code to the kernel's types.
//! - `link` combines the results in an image.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod btf;
pub mod core_relo;
pub mod link;
pub mod object;
