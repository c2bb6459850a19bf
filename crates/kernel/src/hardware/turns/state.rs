// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU has its turn, see `hardware::turns`.

pub(crate) mod rotation;

use crate::simulation::event::Event;
use crate::simulation::id::CpuId;
use crate::simulation::table::Table;
use rotation::Rotation;
use std::collections::VecDeque;

/// The turns of CPUs that one thread of a host executes.
pub(crate) struct Turns {
    /// The CPU that runs, or `None` if all CPUs are halted.
    pub(crate) holder: Option<CpuId>,
    pub(crate) rotation: Rotation,
    /// Time of the event that ends the turn, if it is pending.
    pub(crate) ends: Option<u64>,
    /// Number of the event that ends the turn. All earlier ones are obsolete.
    pub(crate) generation: u32,
    /// Events of each CPU that wait for its turn.
    pub(crate) waiting: Table<CpuId, VecDeque<Event>>,
    /// Events of the holder that have waited for its turn and are handled next.
    pub(crate) ready: VecDeque<Event>,
    /// Whether the event that is handled next has waited for the turn.
    pub(crate) delayed: bool,
    /// Number of all events in `waiting` and `ready`.
    pub(crate) nr_waiting: usize,
}

impl Turns {
    /// Returns `None` if the CPUs run at the same time.
    pub(crate) fn new(longest: u64, nr_cpus: u32) -> Option<Box<Turns>> {
        (longest > 0).then(|| {
            Box::new(Turns {
                holder: None,
                rotation: Rotation::new(nr_cpus as usize, longest),
                ends: None,
                generation: 0,
                waiting: (0..nr_cpus).map(|_| VecDeque::new()).collect(),
                delayed: false,
                ready: VecDeque::new(),
                nr_waiting: 0,
            })
        })
    }
}
