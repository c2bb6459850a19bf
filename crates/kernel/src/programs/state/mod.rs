// SPDX-License-Identifier: GPL-2.0-only
//! Positions in the programs of tasks, objects that tasks wait for, and background work.

pub mod cursor;
pub mod native;
pub mod noise;
pub mod resource;
