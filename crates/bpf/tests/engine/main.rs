// SPDX-License-Identifier: GPL-2.0-only
//! Both engines, on small programs written down (`../corpus`) and on random ones.

mod asm;
mod corpus;
mod nesting;
mod random;
mod world;
