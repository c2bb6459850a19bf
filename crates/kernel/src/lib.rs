// SPDX-License-Identifier: GPL-2.0-only
//! The simulated Linux machine.
//!
//! One [`Machine`] owns the world: clock, event queue, CPUs, tasks, policy, chance. It handles one event at a time, in the
//! order (time, sequence). A handler runs at one instant; what it costs is charged to its CPU. There is no float, hash order,
//! wall clock, file or thread in here: the same inputs give the same bytes on any host.
//!
//! | room | what it holds |
//! |---|---|
//! | [`machine`] | the machine itself and its event loop |
//! | `simulation` | time, order and cost: the event queue, charging, locks as timelines, chance |
//! | `hardware` | sets of CPUs, caches, frequency |
//! | `sched` | kernel/sched: the core and the classes `rt`, `ext`, `fair` and `idle` |
//! | `programs` | what tasks do, step by step, and what they wait for |
//! | `policy` | how an object comes in, what of the kernel it sees and can call |
//! | `watch` | checks, invariants, decisions; they never steer |
//!
//! Other crates use the modules by the names below; the rooms are for those who change this crate.
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
