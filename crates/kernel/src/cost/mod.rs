// SPDX-License-Identifier: GPL-2.0-only
//! Charges CPUs for the time of kernel and policy work, and for waits for locks.

pub mod charge;
pub mod dsq;
pub mod lock;
