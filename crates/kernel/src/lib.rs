// SPDX-License-Identifier: GPL-2.0-only
//! The simulated Linux machine.
//!
//! One [`Machine`] owns the world: clock, event queue, CPUs, tasks, policy, chance. It runs an event at a time in the
//! order (time, sequence); a handler runs at one instant and what it costs is charged to its CPU (cost.rs). There is no
//! float, hash order, wall clock, file or thread in here: the same inputs give the same bytes on any host.
//!
//! Where to find what: `schedule` and `wakeup` are kernel/sched/core.c; `class` lists what the core asks of the classes
//! `rt`, `ext`, `fair` and `idle`; `program` and `sync` execute what tasks ask for; `check` watches. `layout` and `target` are
//! what a policy sees of the kernel, `ext::kfuncs`, `bpf_world` and `tracepoint` what it can call and attach to; `load`
//! brings one in, against the symbols of a `release` of Linux.
#![deny(clippy::float_arithmetic)]

mod bpf_world;
pub mod cgroup;
pub mod chance;
pub mod check;
mod checked;
pub mod class;
mod cost;
mod cpufreq;
pub mod cpuset;
pub mod decision;
pub mod event;
pub mod ext;
pub mod fair;
mod footprint;
mod fork;
mod hotplug;
mod idle;
pub mod invariant;
mod iterator;
pub mod layout;
pub mod load;
pub mod lock;
pub mod machine;
mod nullable;
mod params;
pub mod program;
pub mod release;
pub mod rng;
pub mod rq;
pub mod rt;
mod schedule;
mod step;
pub mod sync;
mod table;
pub mod target;
pub mod task;
#[cfg(test)]
mod testbed;
pub mod tracepoint;
pub mod user_space;
pub mod waiting;
mod wakeup;

pub use machine::{Ended, Machine};
pub use table::Table;
