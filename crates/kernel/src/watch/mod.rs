// SPDX-License-Identifier: GPL-2.0-only
//! Checks, invariants, records of decisions, and descriptions of waiting tasks. The code in this
//! directory never affects a run.

pub mod capture;
pub mod decide;
pub mod invariant;
pub mod left_waiting;
pub mod observe;
pub mod state;
pub mod step_log;
pub mod verify;
