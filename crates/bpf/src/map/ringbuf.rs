// SPDX-License-Identifier: GPL-2.0-only
//! RINGBUF (from the program to user space) and USER_RINGBUF (from user space to the program).
//!
//! The data of records lies in program memory, and their headers lie elsewhere. A record may cross
//! the end of the ring. The kernel maps the ring's pages twice, so that such a record is
//! contiguous. Here the ring has twice as many pages instead. The callers of [`Ringbuf::consume`]
//! and [`Ringbuf::produce`] act for user space.
//!
//! A ring can be shared with a process ([`Ringbuf::share`]). The pages are then mapped twice, the
//! headers lie in the ring, and the positions lie in pages that the process maps, all as in the
//! kernel. The process can write anything there, so positions and lengths that it writes are
//! checked.

use crate::error::Error;
use std::collections::VecDeque;

use crate::fault::Fault;
use crate::image::MapDef;
use crate::memory::{PAGE, Region, SharedFile, Use, Window};

/// Size in bytes of the header that the kernel puts before each record.
const HEADER: u64 = 8;
/// Flags of the functions that commit a record (BPF_RB_NO_WAKEUP, BPF_RB_FORCE_WAKEUP). Without
/// them, the reader is woken if it has read all earlier records.
const NO_WAKEUP: u64 = 1;
const FORCE_WAKEUP: u64 = 2;
/// Flags in the length of a record's header: the record is reserved, or it was discarded
/// (BPF_RINGBUF_BUSY_BIT, BPF_RINGBUF_DISCARD_BIT).
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

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
    /// The positions that a process sees, if the ring is shared.
    window: Option<Window>,
    /// Whether the last commit must wake a process that waits for records.
    wakes: bool,
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
    pub(super) fn create(def: &MapDef, region: &Region) -> Result<Ringbuf, Error> {
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
            window: None,
            wakes: false,
        })
    }

    /// Returns a shared ring of one page.
    #[cfg(test)]
    pub(crate) fn for_test(region: &Region, file: SharedFile) -> Ringbuf {
        let def = MapDef {
            max_entries: PAGE as u32,
            ..MapDef::default()
        };
        let mut ring = Ringbuf::create(&def, region).expect("memory");
        // SAFETY: the tests use a file of 16 pages, and write to it only between calls of the ring.
        unsafe { ring.share(region, file) }.expect("the file can be mapped");
        ring
    }

    /// Returns the size of the file of a shared ring: two pages of positions, and the data.
    pub fn shared_bytes(entries: u32) -> u64 {
        2 * PAGE + u64::from(entries).max(PAGE).next_power_of_two()
    }

    /// Shares the ring with a process. The file has the pages that the kernel lets a process map:
    /// the position of the consumer, the position of the producer, and the data. The ring must be
    /// empty.
    ///
    /// # Errors
    /// The host cannot map the file.
    ///
    /// # Safety
    /// See [`SharedFile`].
    pub(super) unsafe fn share(&mut self, region: &Region, file: SharedFile) -> Result<(), Error> {
        let data = SharedFile {
            offset: file.offset + 2 * PAGE,
            ..file
        };
        // SAFETY: as the caller promises.
        unsafe {
            region.share(self.base, self.size, data)?;
            region.share(self.base + self.size, self.size, data)?;
            self.window = Some(Window::new(file)?);
        }
        Ok(())
    }

    /// Returns whether the last commit must wake a process that waits for records, and forgets it.
    pub fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.wakes)
    }

    /// Drops the records that the process has consumed. Ignores a position that no correct process
    /// writes.
    fn follow_consumer(&mut self, region: &Region) {
        let Some(window) = &self.window else { return };
        let consumer = window.consumer();
        if consumer < self.consumer || consumer > self.producer {
            return;
        }
        while let Some(record) = self.records.front()
            && record.start + record.span <= consumer
            && record.state != State::Reserved
        {
            self.consumer = record.start + record.span;
            self.records.pop_front();
            region.memory().uncharge_records(Use::Records, 1);
        }
    }

    /// Writes the header of a record, if the ring is shared.
    fn write_header(&self, region: &Region, start: u64, len: u32) {
        if self.window.is_some() {
            let header = self.base + start % self.size;
            let page = (header + HEADER - self.base) / PAGE;
            // The pages of the ring are accessible as long as it exists.
            let _ = region.store::<u32>(header, len);
            let _ = region.store::<u32>(header + 4, page as u32);
        }
    }

    /// Takes the oldest record that the process has produced.
    fn consume_shared(&mut self, region: &Region) -> Option<(u64, u64)> {
        let window = self.window.as_ref()?;
        let producer = window.producer();
        loop {
            let left = producer.checked_sub(self.consumer).filter(|&left| left <= self.size)?;
            if left < HEADER {
                return None;
            }
            let header = self.base + self.consumer % self.size;
            let word = region.load::<u32>(header).ok()?;
            let len = u64::from(word & !(BUSY | DISCARDED));
            let span = (len + HEADER).next_multiple_of(8);
            if word & BUSY != 0 || span > left {
                return None;
            }
            self.consumer += span;
            window.set_consumer(self.consumer);
            if word & DISCARDED == 0 {
                return Some((header + HEADER, len));
            }
        }
    }

    /// Reserves a record. Returns its address, or 0 if it does not fit into the ring.
    ///
    /// # Errors
    /// The run's memory limit leaves no room to track the record.
    pub fn reserve(&mut self, region: &Region, len: u64) -> Result<u64, Fault> {
        if len > self.size {
            return Ok(0);
        }
        self.follow_consumer(region);
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
        self.write_header(region, start, len as u32 | BUSY);
        if let Some(window) = &self.window {
            window.set_producer(self.producer);
        }
        Ok(addr)
    }

    /// Submits or discards a reserved record. Returns `false` if no reserved record has address
    /// `addr`. `flags` are those of `bpf_ringbuf_submit`.
    pub fn commit(&mut self, region: &Region, addr: u64, discard: bool, flags: u64) -> bool {
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
        let len = record.len as u32;
        if let Some(window) = &self.window {
            let caught_up = window.consumer() == start && flags & NO_WAKEUP == 0;
            self.wakes = caught_up || flags & FORCE_WAKEUP != 0;
            self.write_header(region, start, if discard { len | DISCARDED } else { len });
        }
        true
    }

    /// Consumes the oldest record for user space. Returns the address and length of the record's
    /// data, which are valid until the next `reserve`. Returns `None` if there is no record, or if
    /// the oldest one is not submitted yet.
    pub fn consume(&mut self, region: &Region) -> Option<(u64, u64)> {
        if self.window.is_some() {
            return self.consume_shared(region);
        }
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
    pub fn produce(&mut self, region: &Region, data: &[u8], flags: u64) -> bool {
        let Ok(addr @ 1..) = self.reserve(region, data.len() as u64) else {
            return false;
        };
        region.write(addr, data).is_ok() && self.commit(region, addr, false, flags)
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
        let (consumer, producer) = match &self.window {
            Some(window) => (window.consumer(), window.producer()),
            None => (self.consumer, self.producer),
        };
        match property {
            0 => producer.wrapping_sub(consumer),
            1 => self.size,
            2 => consumer,
            3 => producer,
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
