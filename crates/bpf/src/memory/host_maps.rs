// SPDX-License-Identifier: GPL-2.0-only
//! How many pieces memory may be in.
//!
//! A host has a memory map for each piece of a process that is accessible in another way than its neighbours, and gives a process so
//! many (vm.max_map_count). A process that has none left cannot even say so: allocating memory fails, too. So a policy
//! whose pages are in too many pieces is stopped long before; the kernel's own objects, which are in few, are not counted.

use std::cell::Cell;

use crate::fault::{Fault, FaultKind};

/// What hosts without the setting have (DEFAULT_MAX_MAP_COUNT, include/linux/mm.h).
const DEFAULT_MAX_MAP_COUNT: u64 = 65_530;

/// Memory in more pieces than the host has memory maps for, or nearly; or more of it than the host gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMaps;

impl From<OutOfMaps> for Fault {
    fn from(_: OutOfMaps) -> Fault {
        let message = "pages in too many pieces for this host, or more than it gives: raise vm.max_map_count, or allocate \
            fewer and neighbouring pages";
        Fault::new(FaultKind::Func, message.to_string())
    }
}

/// How often a piece may still be split before the process' memory maps are counted again.
#[derive(Default)]
pub(super) struct Maps {
    left: Cell<u64>,
}

impl Maps {
    /// Accessibility changes within a piece, which becomes three at most.
    pub fn split(&self) -> Result<(), OutOfMaps> {
        if self.left.get() == 0 {
            self.left.set(count_left());
        }
        self.left.set(self.left.get().checked_sub(1).ok_or(OutOfMaps)?);
        Ok(())
    }
}

/// How often a piece may be split in each thread at once without using more than half of the memory maps.
fn count_left() -> u64 {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let most = most.ok().and_then(|text| text.trim().parse().ok());
    let used = std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count() as u64);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    (most.unwrap_or(DEFAULT_MAX_MAP_COUNT) / 2).saturating_sub(used) / 2 / threads
}
