// SPDX-License-Identifier: GPL-2.0-only
//! The tasks' programs: what each step does, and what tasks wait for.

pub mod cursor;
pub mod execute;
pub mod resource;
pub mod sync;
