// SPDX-License-Identifier: GPL-2.0-only
//! Limits the number of memory mappings on the host that a policy's pages use.
//!
//! The host needs a memory mapping for each range of pages, if its access rights differ from those
//! of the neighbouring ranges. Linux limits the number of mappings per process (vm.max_map_count).
//! A process that has reached the limit cannot even report an error, because allocations fail too.
//! A policy whose pages are in too many separate ranges is therefore ended long before. The
//! kernel's own objects are in few ranges and are not counted.

use std::cell::Cell;

use crate::fault::{Fault, FaultKind};

/// Limit on hosts that do not have the setting (DEFAULT_MAX_MAP_COUNT, include/linux/mm.h).
const DEFAULT_MAX_MAP_COUNT: u64 = 65_530;

/// The policy's pages are in too many ranges for the host's memory mappings, or the host has no
/// more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMaps;

impl From<OutOfMaps> for Fault {
    fn from(_: OutOfMaps) -> Fault {
        let message = "pages in too many separate ranges for this host, or its memory is used up: raise vm.max_map_count, or allocate \
            fewer and neighbouring pages";
        Fault::new(FaultKind::Func, message.to_string())
    }
}

/// Number of ranges that may still be split. When the number reaches 0, the memory mappings of the
/// process are counted again.
#[derive(Default)]
pub(super) struct Maps {
    left: Cell<u64>,
}

impl Maps {
    /// Counts a change of access rights inside a range. The change splits the range into at most
    /// three ranges.
    pub fn split(&self) -> Result<(), OutOfMaps> {
        if self.left.get() == 0 {
            self.left.set(count_left());
        }
        self.left.set(self.left.get().checked_sub(1).ok_or(OutOfMaps)?);
        Ok(())
    }
}

/// Returns how many ranges each thread may still split so that all threads together use at most
/// half of the memory mappings. Each split adds at most two mappings.
fn count_left() -> u64 {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count");
    let most = most.ok().and_then(|text| text.trim().parse().ok());
    let used = std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count() as u64);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    (most.unwrap_or(DEFAULT_MAX_MAP_COUNT) / 2).saturating_sub(used) / 2 / threads
}
