// SPDX-License-Identifier: GPL-2.0-only
//! The simulated scheduler (kernel/sched). It consists of the core, which handles wake-ups,
//! schedule(), fork, policy changes and hotplug, and of the scheduling classes.

pub mod cgroup;
pub mod class;
pub(crate) mod deadline;
mod exit;
pub mod ext;
pub mod fair;
pub mod fork;
pub mod hotplug;
pub mod idle;
pub mod mirror;
pub(crate) mod nohz_full;
pub mod overlap;
pub mod prefetch;
pub mod rt;
pub mod schedule;
pub(crate) mod schedutil;
pub mod setscheduler;
pub mod state;
mod stopper;
mod tick;
pub mod tracepoint;
pub mod ttwu_queue;
pub mod wakeup;
