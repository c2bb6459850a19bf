// SPDX-License-Identifier: GPL-2.0-only
//! Checks, invariants, records of decisions, and descriptions of waiting tasks. The code in this
//! directory never affects a run.

pub mod check;
pub mod decide;
pub mod decision;
pub mod invariant;
pub mod left_waiting;
pub mod observe;
pub mod verify;
pub mod violation;
pub mod waiting;
