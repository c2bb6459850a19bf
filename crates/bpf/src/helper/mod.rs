// SPDX-License-Identifier: GPL-2.0-only
//! Helpers and kfuncs that need no scheduling: maps, memory, strings, time, locks, timers,
//! allocated objects, iterators, cpumasks.
//!
//! `state` holds their data about a program, outside the region, where no policy can corrupt it.
//! They access the program's memory only through the region's checked functions, so this module
//! contains no unsafe code. docs/surface.md lists the functions that are not modelled, with
//! reasons.
#![forbid(unsafe_code)]

mod collection;
pub mod cpumask;
mod dynptr;
mod iter;
mod lock;
mod maps;
pub(crate) mod names;
mod object;
pub mod print;
mod read;
mod seq;
pub(crate) mod state;
mod storage;
mod string;
mod task;
mod timer;

use crate::engine::func::Func;
use crate::engine::world::World;

/// Returns all helpers and kfuncs of this crate.
pub fn table<W: World>() -> Vec<Func<W>> {
    let parts = [
        maps::table(),
        read::table(),
        string::table(),
        seq::table(),
        print::table(),
        task::table(),
        lock::table(),
        timer::table(),
        dynptr::table(),
        object::table(),
        collection::table(),
        iter::table(),
        cpumask::table(),
    ];
    parts.into_iter().flatten().collect()
}
