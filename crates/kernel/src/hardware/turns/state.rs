// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU has its turn, see `hardware::turns`.

use crate::simulation::event::Event;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;
use std::collections::VecDeque;

/// The turns of CPUs that one thread of a host executes.
pub(crate) struct Turns {
    /// Longest turn, ns.
    pub(crate) longest: u64,
    /// The CPU that runs, or `None` if all CPUs are halted.
    pub(crate) holder: Option<CpuId>,
    /// Time at which the turn of the holder began.
    pub(crate) began: u64,
    /// Length of each turn of the present pass, ns.
    pub(crate) budget: u64,
    /// Time of the event that ends the turn, if it is pending.
    pub(crate) ends: Option<u64>,
    /// Number of the event that ends the turn. All earlier ones are obsolete.
    pub(crate) generation: u32,
    /// Events of each CPU that wait for its turn.
    pub(crate) waiting: Table<CpuId, VecDeque<Event>>,
    /// Events of the holder that have waited for its turn and are handled next.
    pub(crate) ready: VecDeque<Event>,
    /// Number of all events in `waiting` and `ready`.
    pub(crate) nr_waiting: usize,
}

impl Turns {
    /// Returns `None` if the CPUs run at the same time.
    pub(crate) fn new(longest: u64, cpus: impl Iterator<Item = CpuId>) -> Option<Box<Turns>> {
        (longest > 0).then(|| {
            Box::new(Turns {
                longest,
                holder: None,
                began: 0,
                budget: longest,
                ends: None,
                generation: 0,
                waiting: cpus.map(|_| VecDeque::new()).collect(),
                ready: VecDeque::new(),
                nr_waiting: 0,
            })
        })
    }
}
