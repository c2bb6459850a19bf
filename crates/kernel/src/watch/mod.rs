// SPDX-License-Identifier: GPL-2.0-only
//! Checks, invariants, recorded decisions and waiting tasks. Nothing in this directory affects the
//! run.

pub mod check;
pub mod decide;
pub mod decision;
pub mod invariant;
pub mod left_waiting;
pub mod observe;
pub mod verify;
pub mod violation;
pub mod waiting;
