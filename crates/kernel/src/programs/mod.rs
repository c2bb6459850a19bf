// SPDX-License-Identifier: GPL-2.0-only
//! Tasks' programs: the effect of each step, and the objects that tasks wait for.

pub mod cursor;
pub mod execute;
pub mod resource;
pub mod sync;
