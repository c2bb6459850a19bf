// SPDX-License-Identifier: GPL-2.0-only
//! The notations that users write everywhere, and the messages about what they wrote.

pub mod cpu_list;
