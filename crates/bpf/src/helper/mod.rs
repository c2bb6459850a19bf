// SPDX-License-Identifier: GPL-2.0-only
//! The helpers and kfuncs that need no scheduling: maps, memory, strings, time, locks, timers, allocated objects, iterators,
//! cpumasks. What they keep of a program is in `state`, outside the region, so that no policy can spoil it.
//!
//! What is left out, and why: docs/surface.md.
//!
//! Memory that a program points to is accessed through the region's checked functions alone: there is no unsafe code here.
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

/// All helpers and kfuncs of this crate.
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
