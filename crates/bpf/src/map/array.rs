// SPDX-License-Identifier: GPL-2.0-only
//! ARRAY, PERCPU_ARRAY and ARRAY_OF_MAPS. The values lie one after the other in memory. A per-CPU
//! array has one block of values for each CPU.

use super::BPF_NOEXIST;
use crate::errno::long::*;
use crate::error::Error;
use crate::image::MapDef;
use crate::memory::{Region, SharedFile};

pub(super) struct Array {
    base: u64,
    /// Distance between two values in bytes.
    stride: u64,
    max: u32,
    cpus: u32,
}

impl Array {
    pub fn create(def: &MapDef, region: &Region, cpus: u32) -> Result<Array, Error> {
        if def.key_size != 4 || def.value_size == 0 || def.max_entries == 0 {
            let MapDef {
                key_size,
                value_size,
                max_entries,
                ..
            } = def;
            return Err(Error::new(format!(
                "an array cannot have key size {key_size}, value size {value_size} and {max_entries} entries"
            )));
        }
        let stride = u64::from(def.value_size).next_multiple_of(8);
        let size = stride
            .checked_mul(u64::from(def.max_entries))
            .and_then(|size| size.checked_mul(u64::from(cpus)));
        let base = size
            .and_then(|size| region.pages(size))
            .ok_or_else(|| region.memory().message())?;
        let lines = region.lines();
        lines.register_values(base, size.unwrap_or(0), stride, def.handle);
        Ok(Array {
            base,
            stride,
            max: def.max_entries,
            cpus,
        })
    }

    #[inline]
    pub fn lookup(&self, key: &[u8], cpu: u32) -> u64 {
        let Some(index) = key.first_chunk().map(|key| u32::from_le_bytes(*key)) else {
            return 0;
        };
        let cpu = if self.cpus == 1 { 0 } else { cpu };
        if index >= self.max || cpu >= self.cpus {
            return 0;
        }
        self.base + (u64::from(cpu) * u64::from(self.max) + u64::from(index)) * self.stride
    }

    pub fn find_for_update(&self, key: &[u8], flags: u64, cpu: u32) -> Result<u64, i64> {
        match self.lookup(key, cpu) {
            0 => Err(E2BIG),
            _ if flags & BPF_NOEXIST != 0 => Err(EEXIST),
            addr => Ok(addr),
        }
    }

    pub fn layout(&self) -> (u64, u64, u32) {
        (self.base, self.stride, self.max)
    }

    /// Returns the number of values on all CPUs together.
    pub fn elements(&self) -> u64 {
        u64::from(self.max) * u64::from(self.cpus)
    }

    /// # Safety
    /// See [`SharedFile`].
    pub unsafe fn share(&self, region: &Region, file: SharedFile) -> Result<(), Error> {
        // SAFETY: as the caller promises.
        unsafe { region.share(self.base, self.stride * self.elements(), file) }
    }

    pub fn release(&self, region: &Region) {
        region.release_pages(self.base, self.stride * u64::from(self.max) * u64::from(self.cpus));
    }
}
