// SPDX-License-Identifier: GPL-2.0-only
//! The helpers and kfuncs that have nothing to do with scheduling: maps, memory, strings, time,
//! locks, timers, allocated objects, iterators, cpumasks.
//!
//! `state` is the data that these functions keep for a program. It lies outside of program memory,
//! so no policy can corrupt it. This module contains no unsafe code, because it accesses the memory
//! of programs only through functions that check the address. docs/surface.md lists the helpers and
//! kfuncs that the simulator does not have, with reasons.
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
