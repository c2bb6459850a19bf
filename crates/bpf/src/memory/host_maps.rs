// SPDX-License-Identifier: GPL-2.0-only
//! Limits the number of memory mappings on the host that a policy's pages use.
//!
//! The host needs one memory mapping for each range of adjacent pages with the same access rights.
//! Linux limits the number of mappings per process (vm.max_map_count). A process that has reached
//! this limit cannot even report an error, because its allocations fail, too. The simulator
//! therefore ends a policy long before the policy's pages, in too many separate ranges, have used
//! up the limit. The kernel's own objects lie in few ranges and are not counted.

use std::cell::Cell;

use crate::fault::{Fault, FaultKind};

/// Limit on hosts without the setting vm.max_map_count (DEFAULT_MAX_MAP_COUNT,
/// include/linux/mm.h).
const DEFAULT_MAX_MAP_COUNT: u64 = 65_530;

/// Error: the policy's pages are in so many ranges that the host's memory mappings do not suffice,
/// or the host has no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMaps;

impl From<OutOfMaps> for Fault {
    fn from(_: OutOfMaps) -> Fault {
        let message = "pages in too many separate ranges for this host, or its memory is used up: raise vm.max_map_count, or allocate \
            fewer and neighbouring pages";
        Fault::new(FaultKind::Func, message.to_string())
    }
}

/// Number of splits of ranges that are still allowed. When the number reaches 0, the memory
/// mappings of the process are counted again.
#[derive(Default)]
pub(super) struct Maps {
    left: Cell<u64>,
}

impl Maps {
    /// Counts a change of access rights inside a range. The change splits the range into two or
    /// three ranges.
    pub fn split(&self) -> Result<(), OutOfMaps> {
        if self.left.get() == 0 {
            self.left.set(count_left());
        }
        self.left.set(self.left.get().checked_sub(1).ok_or(OutOfMaps)?);
        Ok(())
    }
}

/// Returns how many splits of ranges each thread may still make. All threads together then use at
/// most half of the memory mappings that the process may have. Each split adds at most two
/// mappings.
fn count_left() -> u64 {
    if cfg!(miri) {
        return u64::MAX; // Miri changes no access rights.
    }
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let most = most.ok().and_then(|text| text.trim().parse().ok());
    let used = std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count() as u64);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    (most.unwrap_or(DEFAULT_MAX_MAP_COUNT) / 2).saturating_sub(used) / 2 / threads
}
