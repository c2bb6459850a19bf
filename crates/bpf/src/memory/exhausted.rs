// SPDX-License-Identifier: GPL-2.0-only
//! Why a request for memory failed.

use super::host_maps::OutOfMaps;
use super::limit::OutOfMemory;
use super::region::Region;
use crate::fault::Fault;

/// Why there is no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// The run has as much as it may ([`Region::memory`]).
    Memory,
    /// The host has no memory map left.
    Maps,
}

impl Exhausted {
    /// The policy's fault that it leads to.
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
