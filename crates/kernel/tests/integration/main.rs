// SPDX-License-Identifier: GPL-2.0-only
//! The simulated kernel on small machines, and test policies under it.
#![allow(clippy::disallowed_methods)] // tests read and write files

mod attack;
mod calls;
mod cgroups;
mod channels;
mod costs;
mod disturb;
mod ext_cid;
mod ext_core;
mod ext_faults;
mod ext_last;
mod ext_local;
mod hostile;
mod hotplug;
mod local_time;
mod maps;
mod policies;
mod programs;
mod references;
mod release;
mod rules;
mod support;
mod surface;
mod user_space;
mod verdicts;
