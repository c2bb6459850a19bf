// SPDX-License-Identifier: GPL-2.0-only
//! State of the real-time class.

pub mod cpupri;
pub mod queue;
