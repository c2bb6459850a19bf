// SPDX-License-Identifier: GPL-2.0-only
//! TASK_STORAGE and CGRP_STORAGE maps, which can store one value for each kernel object. A value
//! exists as long as both the object and the map exist. The map finds a value in constant time by
//! the object's index in its slab (an array of kernel objects).

use crate::errno::long::*;
use crate::image::MapDef;
use crate::memory::{RECORD, Region, Use};

pub(super) struct Storage {
    value_size: u64,
    /// Address that stands for the map in code.
    handle: u64,
    /// For each object, the address of its value, or 0. The first index is the number of the slab,
    /// the second is the object's index in the slab.
    values: Vec<Vec<u64>>,
}

impl Storage {
    pub fn create(def: &MapDef) -> Storage {
        Storage {
            value_size: u64::from(def.value_size),
            handle: def.handle,
            values: Vec::new(),
        }
    }

    #[inline]
    pub fn get(&self, region: &Region, owner: u64) -> u64 {
        let Some((slab, index)) = region.object(owner) else {
            return 0;
        };
        self.values
            .get(slab)
            .and_then(|values| values.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// Creates a value, filled with zeros, for an object that has none. Returns 0 if `owner` is not
    /// the address of an object, or if memory is exhausted.
    pub fn create_value(&mut self, region: &Region, owner: u64) -> u64 {
        let Some((slab, index)) = region.object(owner) else {
            return 0;
        };
        if region.memory().charge(Use::Records, RECORD).is_err() {
            return 0;
        }
        let Some(value) = region.alloc(self.value_size) else {
            region.memory().uncharge_records(Use::Records, 1);
            return 0;
        };
        let lines = region.lines();
        lines.register_values(value, self.value_size, self.value_size, self.handle);
        if self.values.len() <= slab {
            self.values.resize(slab + 1, Vec::new());
        }
        let values = &mut self.values[slab];
        if values.len() <= index {
            values.resize((index + 1).next_power_of_two(), 0);
        }
        values[index] = value;
        value
    }

    pub fn delete(&mut self, region: &Region, owner: u64) -> i64 {
        let value = self.get(region, owner);
        if value == 0 {
            return -ENOENT;
        }
        let Some((slab, index)) = region.object(owner) else {
            return -ENOENT;
        };
        self.values[slab][index] = 0;
        region.free(value);
        region.memory().uncharge_records(Use::Records, 1);
        0
    }

    pub fn release(&mut self, region: &Region) {
        for value in std::mem::take(&mut self.values).into_iter().flatten() {
            if value != 0 {
                region.free(value);
                region.memory().uncharge_records(Use::Records, 1);
            }
        }
    }
}
