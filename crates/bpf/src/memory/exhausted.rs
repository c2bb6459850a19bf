// SPDX-License-Identifier: GPL-2.0-only
//! Reasons why a request for memory fails.

use super::host_maps::OutOfMaps;
use super::limit::OutOfMemory;
use super::region::Region;
use crate::fault::Fault;

/// The resource that was exhausted when a request for memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The run's memory limit ([`Region::memory`]).
    Memory,
    /// The number of memory mappings that the host allows.
    Maps,
}

impl Exhausted {
    /// Returns the fault that ends the policy.
    pub(crate) fn fault(self, region: &Region) -> Fault {
        match self {
            Exhausted::Memory => region.memory.fault(),
            Exhausted::Maps => OutOfMaps.into(),
        }
    }
}

impl From<OutOfMemory> for Exhausted {
    fn from(_: OutOfMemory) -> Exhausted {
        Exhausted::Memory
    }
}

impl From<OutOfMaps> for Exhausted {
    fn from(_: OutOfMaps) -> Exhausted {
        Exhausted::Maps
    }
}
