// SPDX-License-Identifier: GPL-2.0-only
//! Integration tests. They run small simulated machines, with and without test policies.
#![allow(clippy::disallowed_methods)] // Tests read and write files.

mod attack;
mod attributes;
mod begin;
mod calls;
mod caps;
mod cgroups;
mod channels;
mod costs;
mod disturb;
mod ext_cid;
mod ext_core;
mod ext_faults;
mod ext_last;
mod ext_local;
mod futexes;
mod hostile;
mod hotplug;
mod kernel_time;
mod layers;
mod local_time;
mod maps;
mod nohz_full;
mod noise;
mod overlap;
mod partial;
mod policies;
mod programs;
mod queued_wakeups;
mod references;
mod release;
mod rules;
mod sub;
mod support;
mod surface;
mod user_space;
mod verdicts;
mod whole;
