// SPDX-License-Identifier: GPL-2.0-only
//! QUEUE and STACK. Elements are copied in and out; no program ever points at one.

use std::collections::VecDeque;

use super::errno::*;
use super::{BPF_EXIST, BPF_NOEXIST, kind};
use crate::image::MapDef;

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
                "a queue with key size {key_size}, value size {value_size}, {max_entries} entries"
            ));
        }
        Ok(Queue {
            bytes: VecDeque::new(),
            size: def.value_size as usize,
            max: def.max_entries as usize,
            stack: def.kind == kind::STACK,
        })
    }

    pub fn push(&mut self, value: &[u8], flags: u64) -> i64 {
        if flags & BPF_NOEXIST != 0 || flags > BPF_EXIST {
            return -EINVAL;
        }
        if self.bytes.len() / self.size >= self.max {
            if flags & BPF_EXIST == 0 {
                return -E2BIG;
            }
            self.bytes.drain(..self.size);
        }
        self.bytes.extend(value);
        0
    }

    pub fn pop(&mut self, value: &mut [u8], peek: bool) -> i64 {
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
        }
        0
    }
}
