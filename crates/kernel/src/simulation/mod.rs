// SPDX-License-Identifier: GPL-2.0-only
//! Time, order of events and cost: the event queue, charging of CPUs, locks and random numbers.

pub mod chance;
pub mod contention;
pub mod cpuset;
pub mod event;
pub mod event_queue;
pub mod id;
pub mod on_demand;
pub mod prandom;
pub mod rng;
pub mod step;
pub mod table;
pub mod timeline;
