// SPDX-License-Identifier: GPL-2.0-only
//! HASH, PERCPU_HASH, LRU_HASH, LRU_PERCPU_HASH and HASH_OF_MAPS. An entry is an object in program
//! memory that contains the key and each CPU's value.
//!
//! A slot refers to one entry. Iteration follows the order of slots. A new entry reuses the slot
//! that was freed last. In Linux 7.3, it can get the kptrs of an entry that was deleted. An LRU map
//! evicts exactly the least recently used entry. The kernel only approximates this, and does so on
//! each CPU separately.

use super::{BPF_EXIST, BPF_NOEXIST, Work, kind};
use crate::errno::long::*;
use crate::error::Error;
use crate::image::MapDef;
use crate::memory::layout::LARGEST_CLASS;
use crate::memory::{OutOfMemory, RECORD, Region, Use};
use std::collections::BTreeMap;

/// End of a chain of slots.
const NONE: u32 = u32::MAX;
/// Length of a hash chain up to which a search is free. A longer search is charged to the program:
/// it reduces the number of instructions that the program may still execute. Chains are longer only
/// if a program chooses keys that collide.
const SHORT: usize = 16;
/// Number of instructions that are charged for each step of a search beyond `SHORT`.
const LONG_STEP: usize = 8;
/// Number of slots that the host examines in the time that it needs for one BPF instruction.
const SLOTS: usize = 4;

pub(super) struct Hash {
    /// [`Region::id`] of the region that contains the elements.
    region: u64,
    key_size: usize,
    value_size: u64,
    max: u32,
    cpus: u32,
    lru: bool,
    /// Whether an element is so large that it has its own pages. They become inaccessible if
    /// something frees the element while the map still refers to it.
    own_pages: bool,
    /// Address that stands for the map in code.
    handle: u64,
    /// First slot of each chain. The number of chains is a power of two.
    buckets: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Kptrs in the elements that were freed on each CPU, in this order, if they keep their kptrs.
    freed: BTreeMap<u32, Vec<Kptrs>>,
    /// Number of accesses so far. The LRU maps use it to order the accesses.
    clock: u64,
    pub(super) work: Work,
}

/// Offsets and values of the kptrs in an element's value.
pub(crate) type Kptrs = Vec<(u32, u64)>;

#[derive(Clone, Copy)]
struct Slot {
    /// Address of the entry, or 0 if the slot is free.
    addr: u64,
    hash: u32,
    /// Next slot of the chain, or `NONE`.
    next: u32,
    /// Value of `Hash::clock` at the last access.
    used: u64,
}

impl Hash {
    pub fn create(def: &MapDef, region: &Region, cpus: u32) -> Result<Hash, Error> {
        if def.key_size == 0 || def.value_size == 0 || def.max_entries == 0 {
            let MapDef {
                key_size,
                value_size,
                max_entries,
                ..
            } = def;
            return Err(Error::new(format!(
                "a hash map cannot have key size {key_size}, value size {value_size} and {max_entries} entries"
            )));
        }
        let key_bytes = u64::from(def.key_size).next_multiple_of(8);
        let value_bytes = u64::from(def.value_size).next_multiple_of(8) * u64::from(cpus);
        Ok(Hash {
            region: region.id(),
            own_pages: key_bytes + value_bytes > LARGEST_CLASS,
            key_size: def.key_size as usize,
            value_size: u64::from(def.value_size).next_multiple_of(8),
            max: def.max_entries,
            cpus,
            handle: def.handle,
            lru: matches!(def.kind, kind::LRU_HASH | kind::LRU_PERCPU_HASH),
            buckets: vec![NONE; 16],
            slots: Vec::new(),
            free: Vec::new(),
            freed: BTreeMap::new(),
            clock: 0,
            work: Work::default(),
        })
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether the element of a slot that is in use has this key.
    fn has_key(&self, region: &Region, slot: &Slot, key: &[u8]) -> bool {
        debug_assert!(region.contains(slot.addr) && slot.addr != 0);
        if self.own_pages && region.check(slot.addr, self.key_size as u64, false).is_err() {
            return false;
        }
        // SAFETY: the map has allocated the element in this region, which `find` has checked, and
        // `key_size` bytes are its key. The reference ends before other code can change these
        // bytes.
        equal(
            unsafe { std::slice::from_raw_parts(region.host(slot.addr), self.key_size) },
            key,
        )
    }

    fn value_address(&self, addr: u64, cpu: u32) -> u64 {
        let cpu = if self.cpus == 1 { 0 } else { cpu };
        if cpu >= self.cpus {
            return 0;
        }
        addr + (self.key_size as u64).next_multiple_of(8) + u64::from(cpu) * self.value_size
    }

    fn find(&self, region: &Region, key: &[u8], hash: u32) -> Option<u32> {
        assert!(self.region == region.id(), "a map is used with its own region");
        let mut n = self.buckets[hash as usize & (self.buckets.len() - 1)];
        let mut steps = 0;
        while n != NONE {
            steps += 1;
            if steps > SHORT {
                self.work.add(LONG_STEP);
            }
            let slot = &self.slots[n as usize];
            if slot.hash == hash && self.has_key(region, slot, key) {
                return Some(n);
            }
            n = slot.next;
        }
        None
    }

    pub fn lookup(&mut self, region: &Region, key: &[u8], cpu: u32) -> u64 {
        let Some(n) = self.find(region, key, hash(key)) else {
            return 0;
        };
        self.clock += 1;
        self.slots[n as usize].used = self.clock;
        self.value_address(self.slots[n as usize].addr, cpu)
    }

    /// Returns the least recently used slot.
    fn oldest(&self) -> u32 {
        self.work.add(self.slots.len() / SLOTS);
        let live = (0..self.slots.len()).filter(|&n| self.slots[n].addr != 0);
        live.min_by_key(|&n| self.slots[n].used)
            .expect("create() rejects maps with max_entries 0") as u32
    }

    /// Returns the address of the value that an insertion of this key would evict. In a per-CPU
    /// map, this is the value of CPU 0. Returns 0 if the insertion would evict nothing.
    pub fn victim(&self, region: &Region, key: &[u8]) -> u64 {
        if !self.lru || self.len() < self.max as usize || self.find(region, key, hash(key)).is_some() {
            return 0;
        }
        self.value_address(self.slots[self.oldest() as usize].addr, 0)
    }

    /// Returns the address of this key's value. Inserts the key if the map does not contain it.
    pub fn find_or_insert(&mut self, region: &Region, key: &[u8], flags: u64, cpu: u32) -> Result<u64, i64> {
        let hash = hash(key);
        self.clock += 1;
        if let Some(n) = self.find(region, key, hash) {
            if flags & BPF_NOEXIST != 0 {
                return Err(EEXIST);
            }
            self.slots[n as usize].used = self.clock;
            return Ok(self.value_address(self.slots[n as usize].addr, cpu));
        }
        if flags & BPF_EXIST != 0 {
            return Err(ENOENT);
        }
        if self.len() >= self.max as usize {
            if !self.lru {
                return Err(E2BIG);
            }
            self.remove(region, self.oldest());
        }
        let size = (self.key_size as u64).next_multiple_of(8) + self.value_size * u64::from(self.cpus);
        region
            .memory()
            .charge(Use::Records, RECORD)
            .map_err(|OutOfMemory| ENOMEM)?;
        let Some(addr) = region.alloc(size) else {
            region.memory().uncharge_records(Use::Records, 1);
            return Err(ENOMEM);
        };
        region.write(addr, key).expect("the entry has just been allocated");
        let values = self.value_size * u64::from(self.cpus);
        let lines = region.lines();
        lines.register_values(self.value_address(addr, 0), values, self.value_size, self.handle);
        // The element that the CPU has freed last (pcpu_freelist_pop).
        for (offset, kptr) in self.freed.get_mut(&cpu).and_then(Vec::pop).unwrap_or_default() {
            let at = self.value_address(addr, 0) + u64::from(offset);
            region.store(at, kptr).expect("the entry has just been allocated");
        }
        if self.len() >= self.buckets.len() {
            self.grow();
        }
        let bucket = hash as usize & (self.buckets.len() - 1);
        let slot = Slot {
            addr,
            hash,
            next: self.buckets[bucket],
            used: self.clock,
        };
        self.buckets[bucket] = match self.free.pop() {
            Some(n) => {
                self.slots[n as usize] = slot;
                n
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        Ok(self.value_address(addr, cpu))
    }

    fn grow(&mut self) {
        self.work.add(self.slots.len());
        let mask = self.buckets.len() * 4 - 1;
        self.buckets = vec![NONE; mask + 1];
        for n in 0..self.slots.len() {
            if self.slots[n].addr != 0 {
                let bucket = self.slots[n].hash as usize & mask;
                self.slots[n].next = self.buckets[bucket];
                self.buckets[bucket] = n as u32;
            }
        }
    }

    fn remove(&mut self, region: &Region, n: u32) {
        let Slot { addr, hash, next, .. } = self.slots[n as usize];
        let bucket = hash as usize & (self.buckets.len() - 1);
        if self.buckets[bucket] == n {
            self.buckets[bucket] = next;
        } else {
            let mut before = self.buckets[bucket] as usize;
            while self.slots[before].next != n {
                before = self.slots[before].next as usize;
            }
            self.slots[before].next = next;
        }
        region.free(addr);
        region.memory().uncharge_records(Use::Records, 1);
        self.slots[n as usize].addr = 0;
        self.free.push(n);
    }

    pub fn delete(&mut self, region: &Region, key: &[u8]) -> i64 {
        match self.find(region, key, hash(key)) {
            Some(n) => {
                self.remove(region, n);
                0
            }
            None => -ENOENT,
        }
    }

    /// Removes a key on `cpu`. The element keeps its kptrs until it is used again.
    pub fn delete_with_kptrs(&mut self, region: &Region, key: &[u8], cpu: u32, kptrs: Kptrs) -> i64 {
        let done = self.delete(region, key);
        let freed = self.freed.entry(cpu).or_default();
        // The map has no more elements than this.
        if done == 0 && freed.len() < self.max as usize {
            freed.push(kptrs);
        }
        done
    }

    pub fn next(&self, region: &Region, cursor: usize, cpu: u32) -> Option<(usize, Vec<u8>, u64)> {
        let found = (cursor..self.slots.len()).find(|&n| self.slots[n].addr != 0);
        self.work
            .add((found.unwrap_or(self.slots.len()) - cursor.min(self.slots.len())) / SLOTS);
        let n = found?;
        let addr = self.slots[n].addr;
        let key = region.bytes(addr, self.key_size as u64);
        let key = key.expect("the map has allocated the element").into_vec();
        Some((n + 1, key, self.value_address(addr, cpu)))
    }

    pub fn release(&mut self, region: &Region) {
        region.memory().uncharge_records(Use::Records, self.len());
        self.free.clear();
        for slot in std::mem::take(&mut self.slots) {
            if slot.addr != 0 {
                region.free(slot.addr);
            }
        }
    }
}

/// Compares two keys. The comparison of keys of 4 or 8 bytes needs no function call.
fn equal(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<4>(), b.first_chunk::<4>(), a.len()) {
        (Some(a), Some(b), 4) => a == b,
        _ => match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.len()) {
            (Some(a), Some(b), 8) => a == b,
            _ => a == b,
        },
    }
}

/// Hashes a key. The hash only decides to which chain a slot belongs, which programs cannot see.
fn hash(key: &[u8]) -> u32 {
    let mut state = key.len() as u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (state >> 32) as u32
}
