// SPDX-License-Identifier: GPL-2.0-only
//! The simulated Linux machine: hardware, kernel scheduler, tasks and the loaded policy.
//!
//! A [`Machine`] owns all state: the clock, the event queue, CPUs, tasks, the policy and the random
//! generator. It handles one event at a time, in the order (time, sequence number). An event
//! handler runs at one instant of simulated time; the cost of its work is charged to its CPU.
//!
//! This crate uses no floating point, hash order, wall clock, file or thread. The same inputs
//! therefore produce the same bytes on any host.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | the machine itself; `run` has its event loop |
//! | `simulation` | time, order and cost: the event queue, charging, locks, random numbers |
//! | `hardware` | sets of CPUs, caches, CPU frequency |
//! | `sched` | kernel/sched: the core and the classes `rt`, `ext`, `fair` and `idle` |
//! | `programs` | the steps that tasks execute and the objects that tasks wait for |
//! | `policy` | loading a BPF object; the kernel types and functions that it can use |
//! | `watch` | checks, invariants and recorded decisions; they never change a run |
//!
//! Other crates use the modules under the names exported below, without the directory's name.
#![deny(clippy::float_arithmetic)]

mod hardware;
pub mod machine;
mod policy;
mod programs;
mod run;
mod sched;
mod simulation;
#[cfg(test)]
mod testbed;
mod watch;

pub use hardware::cpuset;
pub use machine::{Ended, Machine};
pub use policy::{kfuncs, layout, load, release, target, tracepoint, user_space};
pub use sched::{cgroup, class, ext, fair, rq, rt, task};
pub use simulation::table::Table;
pub use simulation::{chance, event, id, rng, timeline};
pub use watch::{check, decision, violation, waiting};
