// SPDX-License-Identifier: GPL-2.0-only
//! The state of the simulated machine as plain data. [`machine::Machine`] owns all of it. A type in
//! this module has a constructor and functions that read or change one value. The code that changes
//! the machine over time is in `cost`, `hardware`, `sched`, `programs`, `policy` and `watch`.

pub mod cgroup;
pub mod class;
pub mod dl_server;
pub mod ext;
pub mod fair;
pub mod hardware;
pub mod hook;
pub mod machine;
pub mod nohz_full;
pub mod observed;
pub mod programs;
pub mod rq;
pub mod rt;
pub mod schedutil;
pub mod task;
pub mod watch;
