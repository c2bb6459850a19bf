// SPDX-License-Identifier: GPL-2.0-only
//! QUEUE and STACK maps. Elements are copied in and out, because programs never get a pointer to an
//! element.

use crate::error::Error;
use std::collections::VecDeque;

use super::{BPF_EXIST, BPF_NOEXIST, kind};
use crate::errno::long::*;
use crate::fault::Fault;
use crate::image::MapDef;
use crate::memory::{OutOfMemory, Region, Use};

pub(super) struct Queue {
    bytes: VecDeque<u8>,
    size: usize,
    max: usize,
    stack: bool,
}

impl Queue {
    pub fn create(def: &MapDef) -> Result<Queue, Error> {
        if def.key_size != 0 || def.value_size == 0 || def.max_entries == 0 {
            let MapDef {
                key_size,
                value_size,
                max_entries,
                ..
            } = def;
            return Err(Error::new(format!(
                "a queue cannot have key size {key_size}, value size {value_size} and {max_entries} entries"
            )));
        }
        Ok(Queue {
            bytes: VecDeque::new(),
            size: def.value_size as usize,
            max: def.max_entries as usize,
            stack: def.kind == kind::STACK,
        })
    }

    pub fn push(&mut self, region: &Region, value: &[u8], flags: u64) -> Result<i64, Fault> {
        if flags & BPF_NOEXIST != 0 || flags > BPF_EXIST {
            return Ok(-EINVAL);
        }
        if self.bytes.len() / self.size >= self.max {
            if flags & BPF_EXIST == 0 {
                return Ok(-E2BIG);
            }
            self.bytes.drain(..self.size);
            region.memory().uncharge(Use::Objects, self.size as u64);
        }
        let memory = region.memory();
        memory
            .charge(Use::Objects, self.size as u64)
            .map_err(|OutOfMemory| memory.fault())?;
        self.bytes.extend(value);
        Ok(0)
    }

    pub fn release(&self, region: &Region) {
        region.memory().uncharge(Use::Objects, self.bytes.len() as u64);
    }

    /// Copies a value to the address `value`, or fills this memory with zeros if the map is empty.
    pub fn pop(&mut self, region: &Region, value: u64, peek: bool) -> Result<i64, Fault> {
        if self.bytes.is_empty() {
            region.fill(value, self.size as u64, 0)?;
            return Ok(-ENOENT);
        }
        let start = if self.stack { self.bytes.len() - self.size } else { 0 };
        let bytes: Vec<u8> = self.bytes.range(start..start + self.size).copied().collect();
        region.write(value, &bytes)?;
        if !peek {
            self.bytes.drain(start..start + self.size);
            region.memory().uncharge(Use::Objects, self.size as u64);
        }
        Ok(0)
    }
}
