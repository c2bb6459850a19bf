// SPDX-License-Identifier: GPL-2.0-only
//! Attacks in processes of their own: the corpus, drawn inputs, and limits.

mod corpus;
mod limits;
mod random;
