// SPDX-License-Identifier: GPL-2.0-only
//! State of the observers: checks, invariants and the log of decisions.

pub mod check;
pub mod decision;
pub mod observed;
pub mod stepped;
pub mod violation;
pub mod waiting;
