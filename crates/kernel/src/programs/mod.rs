// SPDX-License-Identifier: GPL-2.0-only
//! The programs of tasks: the effects of their steps, and the objects that tasks wait for.

pub mod execute;
pub mod native;
pub mod noise;
pub mod state;
pub mod sync;
