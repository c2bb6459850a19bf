// SPDX-License-Identifier: GPL-2.0-only
//! What the fair class promises, seen from outside where possible.

mod balance;
mod eevdf;
mod groups;
mod levels;
mod limits;
mod random;
mod wake;
