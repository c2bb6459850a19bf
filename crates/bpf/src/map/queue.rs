// SPDX-License-Identifier: GPL-2.0-only
//! QUEUE and STACK maps. Elements are copied in and out, because programs never get a pointer to an
//! element.

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
    pub fn create(def: &MapDef) -> Result<Queue, String> {
        if def.key_size != 0 || def.value_size == 0 || def.max_entries == 0 {
            let MapDef {
                key_size,
                value_size,
                max_entries,
                ..
            } = def;
            return Err(format!(
                "a queue cannot have key size {key_size}, value size {value_size} and {max_entries} entries"
            ));
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

    pub fn pop(&mut self, region: &Region, value: &mut [u8], peek: bool) -> i64 {
        if self.bytes.is_empty() {
            value.fill(0);
            return -ENOENT;
        }
        let start = if self.stack { self.bytes.len() - self.size } else { 0 };
        for (to, from) in value.iter_mut().zip(self.bytes.range(start..start + self.size)) {
            *to = *from;
        }
        if !peek {
            self.bytes.drain(start..start + self.size);
            region.memory().uncharge(Use::Objects, self.size as u64);
        }
        0
    }
}
