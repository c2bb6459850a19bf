// SPDX-License-Identifier: GPL-2.0-only
//! Tests that run attacks in child processes: the hand-written attacks, random inputs, and the
//! limits.

mod corpus;
mod limits;
mod random;
