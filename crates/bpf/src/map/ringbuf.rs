// SPDX-License-Identifier: GPL-2.0-only
//! RINGBUF (from the program to user space) and USER_RINGBUF (from user space to the program).
//!
//! The data of records lies in program memory, and their headers lie elsewhere. A record may cross
//! the end of the ring. The kernel maps the ring's pages twice, so that such a record is
//! contiguous. Here the ring has twice as many pages instead. The callers of [`Ringbuf::consume`]
//! and [`Ringbuf::produce`] act for user space.

use std::collections::VecDeque;

use crate::fault::Fault;
use crate::image::MapDef;
use crate::memory::{Region, Use};

/// Size in bytes of the header that the kernel puts before each record.
const HEADER: u64 = 8;

/// A ring buffer.
pub struct Ringbuf {
    base: u64,
    /// Size in bytes, a power of two.
    size: u64,
    /// Number of bytes written so far.
    producer: u64,
    /// Number of bytes read so far.
    consumer: u64,
    records: VecDeque<Record>,
    /// Whether a program is reading samples in `bpf_user_ringbuf_drain`.
    busy: bool,
}

struct Record {
    /// Position of the record's header.
    start: u64,
    addr: u64,
    len: u64,
    /// Number of bytes that the record occupies in the ring, including its header.
    span: u64,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Reserved,
    Submitted,
    Discarded,
}

impl Ringbuf {
    pub(super) fn create(def: &MapDef, region: &Region) -> Result<Ringbuf, String> {
        let size = u64::from(def.max_entries);
        if size == 0 {
            return Err("a ring buffer cannot have 0 bytes".into());
        }
        // libbpf rounds up sizes that the kernel would reject (adjust_ringbuf_sz).
        let size = size.max(4096).next_power_of_two();
        let base = region.pages(2 * size).ok_or_else(|| region.memory().message())?;
        Ok(Ringbuf {
            base,
            size,
            producer: 0,
            consumer: 0,
            records: VecDeque::new(),
            busy: false,
        })
    }

    /// Reserves a record. Returns its address, or 0 if it does not fit into the ring.
    ///
    /// # Errors
    /// The run's memory limit leaves no room to track the record.
    pub fn reserve(&mut self, region: &Region, len: u64) -> Result<u64, Fault> {
        if len > self.size {
            return Ok(0);
        }
        let need = (len + HEADER).next_multiple_of(8);
        // One byte must always stay free (bpf_ringbuf_has_space).
        if need > self.size || self.producer + need - self.consumer > self.size - 1 {
            return Ok(0);
        }
        region.memory().charge_record(Use::Records)?;
        let start = self.producer;
        let addr = self.base + start % self.size + HEADER;
        self.producer += need;
        self.records.push_back(Record {
            start,
            addr,
            len,
            span: need,
            state: State::Reserved,
        });
        Ok(addr)
    }

    /// Submits or discards a reserved record. Returns `false` if no reserved record has address
    /// `addr`.
    pub fn commit(&mut self, addr: u64, discard: bool) -> bool {
        // The address of a record says at which offset of the ring the record lies, but not in
        // which round. The record lies less than one ring size after the read position `consumer`,
        // so only one round is possible.
        let offset = addr.wrapping_sub(self.base + HEADER).wrapping_sub(self.consumer) % self.size;
        let start = self.consumer + offset;
        let found = self.records.binary_search_by_key(&start, |record| record.start);
        let Some(record) = found.ok().and_then(|found| self.records.get_mut(found)) else {
            return false;
        };
        if record.addr != addr || record.state != State::Reserved {
            return false;
        }
        record.state = if discard { State::Discarded } else { State::Submitted };
        true
    }

    /// Consumes the oldest record for user space. Returns the address and length of the record's
    /// data, which are valid until the next `reserve`. Returns `None` if there is no record, or if
    /// the oldest one is not submitted yet.
    pub fn consume(&mut self, region: &Region) -> Option<(u64, u64)> {
        loop {
            if self.records.front()?.state == State::Reserved {
                return None;
            }
            let record = self.records.pop_front()?;
            region.memory().uncharge_records(Use::Records, 1);
            self.consumer += record.span;
            if record.state == State::Submitted {
                return Some((record.addr, record.len));
            }
        }
    }

    /// Writes a record for user space. Returns `false` if the record does not fit into the ring.
    pub fn produce(&mut self, region: &Region, data: &[u8]) -> bool {
        let Ok(addr @ 1..) = self.reserve(region, data.len() as u64) else {
            return false;
        };
        region.write(addr, data).is_ok() && self.commit(addr, false)
    }

    /// Starts to drain samples. Returns `false` if a program is already draining samples.
    pub(crate) fn begin_drain(&mut self) -> bool {
        !std::mem::replace(&mut self.busy, true)
    }

    /// Ends draining.
    pub(crate) fn end_drain(&mut self) {
        self.busy = false;
    }

    /// Implements `bpf_ringbuf_query`. Properties 0 to 3 are the number of unread bytes, the size,
    /// the consumer position and the producer position. For any other property, returns 0.
    pub fn query(&self, property: u64) -> u64 {
        match property {
            0 => self.producer - self.consumer,
            1 => self.size,
            2 => self.consumer,
            3 => self.producer,
            _ => 0,
        }
    }

    /// Returns whether this address lies in the ring.
    pub fn contains(&self, addr: u64) -> bool {
        addr.wrapping_sub(self.base) < 2 * self.size
    }

    pub(super) fn release(&mut self, region: &Region) {
        region.memory().uncharge_records(Use::Records, self.records.len());
        self.records.clear();
        region.release_pages(self.base, 2 * self.size);
    }
}
