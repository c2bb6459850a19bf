// SPDX-License-Identifier: GPL-2.0-only
//! The simulated scheduler (kernel/sched). It consists of the core, which handles wake-ups,
//! schedule(), fork, policy changes and hotplug, and of the scheduling classes.

pub mod cgroup;
pub mod cgroup_change;
pub mod class;
pub(crate) mod deadline;
pub mod dl_server;
pub mod ext;
pub mod fair;
pub mod fork;
pub mod hook;
pub mod hotplug;
pub mod idle;
pub(crate) mod nohz_full;
pub mod observed;
pub mod prefetch;
pub mod rq;
pub mod rt;
pub mod sched_class;
pub mod schedule;
pub(crate) mod schedutil;
pub mod setscheduler;
pub mod task;
pub mod tracepoint;
pub mod ttwu_queue;
pub mod wakeup;
