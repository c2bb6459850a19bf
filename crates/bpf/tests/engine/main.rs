// SPDX-License-Identifier: GPL-2.0-only
//! Tests of both engines. They use hand-written programs (`../corpus`) and random ones.

mod asm;
mod competing;
mod corpus;
mod findings;
mod gaps;
mod given;
mod limits;
mod nesting;
mod random;
mod work;
mod world;
