// SPDX-License-Identifier: GPL-2.0-only
//! State of the scheduler's core: tasks and runqueues.

pub mod rq;
pub mod task;
