// SPDX-License-Identifier: GPL-2.0-only
//! Maps. A kind a file; values lie in the region at addresses that do not change while the entry exists.
use crate::func::Fault;
use crate::image::MapDef;
use crate::region::Region;

/// A map.
pub struct Map {
    def: MapDef,
}

impl Map {
    /// Creates a map.
    pub fn create(def: &MapDef, _region: &Region, _nr_cpus: u32) -> Result<Map, String> {
        Ok(Map { def: def.clone() })
    }
    /// Address.
    pub fn addr(&self) -> u64 {
        self.def.handle
    }
    /// Name.
    pub fn name(&self) -> &str {
        &self.def.name
    }
    pub(crate) fn arena_bases(&self) -> Option<(u64, u64)> {
        None
    }
    pub(crate) fn free_owner(&self, _: &Region, _: u64) {}
    pub(crate) fn release(&self, _: &Region) {}
    /// x
    pub fn lookup(&self, _: &Region, _: u64) -> Result<u64, Fault> {
        Ok(0)
    }
}
