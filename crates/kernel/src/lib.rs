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
//! | `simulation` | the event queue, the order of events, random numbers, numbers and sets of CPUs |
//! | `layout` | the kernel types that a policy sees, and the differences between Linux releases |
//! | `machine` | [`Machine`], which owns all state; the state of each subject is in a file or directory `state` beside its functions |
//! | `cost` | charges CPUs for the time of kernel and policy work |
//! | `hardware` | CPU frequencies, idle states, hardware threads, memory |
//! | `sched` | the scheduler (kernel/sched): the core and the classes `rt`, `ext`, `fair`, `idle` |
//! | `programs` | executes the programs of tasks |
//! | `policy` | loading of a policy, and the kernel functions that it can call |
//! | `watch` | checks, invariants and records of decisions; they never affect a run |
//! | `run` | the event loop |
//!
//! Other crates use the modules through the re-exports below, without the names of the directories.
#![deny(clippy::float_arithmetic)]

mod cost;
mod hardware;
pub mod layout;
pub mod machine;
mod policy;
mod programs;
mod run;
mod sched;
mod simulation;
pub mod stepping;
#[cfg(test)]
mod testbed;
mod watch;

pub use cost::lock::LockPair;
pub use layout::release;
pub use machine::{Ended, Machine, Options};
pub use policy::{iterator, kfuncs, load, target, user_space};
pub use programs::native;
pub use sched::class::state as class;
pub use sched::overlap::detector::state::{Race, RaceKind, Seen};
pub use sched::overlap::state::{Hold, Overlap, Plan, Priorities, Step};
pub use sched::state::{rq, task};
pub use sched::tracepoint;
pub use simulation::id::CpuId;
pub use simulation::{chance, cpuset, rng, timeline};
pub use watch::state::{check, decision, violation, waiting};

/// sched_ext: its state and its functions.
pub mod ext {
    pub use crate::layout::callbacks::Callback;
    pub use crate::sched::ext::state::core::{EnableState, KickCounts, KicksBy};
    pub use crate::sched::ext::state::exit_info::{Exit, ExitKind};
    pub use crate::sched::ext::state::ops_table::{Called, OpsTable, PreparedPolicy};
    pub use crate::sched::ext::state::sub_costs::SubCosts;
    pub use crate::sched::ext::{enable, ops, sysrq_reset, unload};
}
