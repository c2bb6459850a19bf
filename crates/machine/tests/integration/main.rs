// SPDX-License-Identifier: GPL-2.0-only
//! Machine descriptions: read, refused with a hint, printed.

mod descriptions;
mod fuzz;
mod named;
