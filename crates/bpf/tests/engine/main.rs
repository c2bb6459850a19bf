// SPDX-License-Identifier: GPL-2.0-only
//! Both engines, on small programs written down (`../corpus`) and on random ones.

mod asm;
mod corpus;
mod given;
mod limits;
mod nesting;
mod random;
mod work;
mod world;
