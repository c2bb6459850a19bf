// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the fair class, as far as possible through its effects on a simulated machine.

mod balance;
mod eevdf;
mod groups;
mod levels;
mod limits;
mod random;
mod wake;
