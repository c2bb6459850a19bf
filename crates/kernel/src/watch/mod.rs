// SPDX-License-Identifier: GPL-2.0-only
//! Watching: checks, invariants, decisions, tasks left waiting. Nothing in here steers the machine.

pub mod check;
pub mod decide;
pub mod decision;
pub mod invariant;
pub mod left_waiting;
pub mod observe;
pub mod verify;
pub mod violation;
pub mod waiting;
