// SPDX-License-Identifier: GPL-2.0-only
//! Tests of both engines. They use hand-written programs (`../corpus`) and random ones.

mod arguments;
mod asm;
mod competing;
mod corpus;
mod findings;
mod gaps;
mod limits;
mod nesting;
mod random_programs;
mod work;
mod world;
