// SPDX-License-Identifier: GPL-2.0-only
//! Tests that run attacks in child processes: the corpus, random inputs, and limits.

mod corpus;
mod limits;
mod random;
