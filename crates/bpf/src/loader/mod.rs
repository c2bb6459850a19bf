// SPDX-License-Identifier: GPL-2.0-only
//! From an object's bytes to code that can run: `object` reads the ELF file, `btf` its types, `core_relo` fits it to the kernel's
//! types, `link` makes the image.

pub mod btf;
pub mod core_relo;
pub mod link;
pub mod object;
