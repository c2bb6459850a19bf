// SPDX-License-Identifier: GPL-2.0-only
//! The simulated Linux machine: hardware, scheduler, tasks, and the loaded policy, which is the
//! scheduler under test.
//!
//! A [`Machine`] owns all state: the clock, the event queue, the CPUs, the tasks, the policy and
//! the random generator. It handles one event after another, ordered by time and sequence number.
//! The simulated time does not advance while an event handler runs. The time that the handler's
//! work would take is charged to its CPU and delays the task that runs there.
//!
//! The crate uses no floating-point numbers, iteration over hash tables, real-time clock, files or
//! threads. Therefore the same inputs yield exactly the same output on every computer.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | the machine itself; the module `run` contains its event loop |
//! | `simulation` | time, order of events and cost: event queue, charging, locks, random numbers |
//! | `hardware` | sets of CPUs, caches, CPU frequencies |
//! | `sched` | the scheduler (kernel/sched): the core and the classes `rt`, `ext`, `fair`, `idle` |
//! | `programs` | the programs that tasks execute, and the objects that tasks wait for |
//! | `policy` | loading of a policy, and the kernel types and functions that it can use |
//! | `watch` | checks, invariants and records of decisions; they never affect a run |
//!
//! Other crates use the modules through the re-exports below, without the names of the directories.
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
pub use policy::{kfuncs, layout, load, release, target, user_space};
pub use sched::{cgroup, class, ext, fair, rq, rt, task, tracepoint};
pub use simulation::table::Table;
pub use simulation::{chance, event, id, rng, timeline};
pub use watch::{check, decision, violation, waiting};
