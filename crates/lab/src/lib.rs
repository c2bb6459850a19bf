// SPDX-License-Identifier: GPL-2.0-only
//! Executes several runs and draws conclusions from their results.
//!
//! [`grid`] expands axes into the runs of [sweeps](sweep) and [experiments](experiment). The other
//! modules are the [errors of the model](model_error), the [validation](validate) of replays,
//! [comparisons](compare), [explorations](explore), [grades](grade) for labs of a course,
//! [scores](score), [suites](suite) of test cases,
//! the first [difference](diff) between two runs, [invariants], the explanation of [waits](why),
//! and the HTML [page].

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

pub mod bisect;
pub mod compare;
pub mod diff;
pub mod experiment;
pub mod explore;
pub mod grade;
pub mod grid;
pub mod invariants;
pub mod model_error;
pub mod page;
pub mod predict;
pub mod score;
pub mod stall;
pub mod suite;
pub mod sweep;
pub mod validate;
pub mod why;
