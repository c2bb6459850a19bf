// SPDX-License-Identifier: GPL-2.0-only
//! BPF maps. Map types with the same data structure share a file.
//!
//! Values lie in the region. The address of a value does not change while its entry exists. The
//! data structures with which a map finds its values lie outside of the region, where no policy can
//! corrupt them. Errors are the kernel's error numbers, negated.

mod arena;
mod array;
pub mod fields;
mod handles;
mod hash;
pub mod numbers;
mod queue;
mod ringbuf;
mod storage;

use crate::error::Error;
use std::cell::{Cell, RefCell};

use crate::errno::long::{EINVAL, ENOMEM};
use crate::fault::{Fault, FaultKind};
use crate::image::{FieldKind, MapDef};
use crate::memory::{ARENA_SIZE, Bytes, Region, SharedFile};

use arena::Arena;
use array::Array;
pub use handles::Handles;
use hash::Hash;
pub(crate) use hash::Kptrs;
use queue::Queue;
pub use ringbuf::Ringbuf;
use storage::Storage;

/// Numbers of the map types, BPF_MAP_TYPE_* in include/uapi/linux/bpf.h.
#[allow(missing_docs)]
pub mod kind {
    pub const HASH: u32 = 1;
    pub const ARRAY: u32 = 2;
    pub const PERF_EVENT_ARRAY: u32 = 4;
    pub const PERCPU_HASH: u32 = 5;
    pub const PERCPU_ARRAY: u32 = 6;
    pub const LRU_HASH: u32 = 9;
    pub const LRU_PERCPU_HASH: u32 = 10;
    pub const ARRAY_OF_MAPS: u32 = 12;
    pub const HASH_OF_MAPS: u32 = 13;
    pub const QUEUE: u32 = 22;
    pub const STACK: u32 = 23;
    pub const RINGBUF: u32 = 27;
    pub const TASK_STORAGE: u32 = 29;
    pub const USER_RINGBUF: u32 = 31;
    pub const CGRP_STORAGE: u32 = 32;
    pub const ARENA: u32 = 33;
}

/// Update flag: create or update the entry.
pub const BPF_ANY: u64 = 0;
/// Update flag: fail if the key exists.
pub const BPF_NOEXIST: u64 = 1;
/// Update flag: fail unless the key exists. For a queue: drop the oldest element if the queue is
/// full.
pub const BPF_EXIST: u64 = 2;
/// Update flag: hold the value's spin lock while the value is copied. The simulator needs no lock
/// for the copy, because no other code runs during it.
pub const BPF_F_LOCK: u64 = 4;

/// Map flag: elements are allocated when they are inserted.
const BPF_F_NO_PREALLOC: u32 = 1;

pub struct Map {
    def: MapDef,
    /// [`Region::id`] of the region in which the map was created.
    region: u64,
    data: Data,
}

/// Work of the recent operations of a map, as the number of BPF instructions that take as long.
/// Only operations whose time depends on the contents of the map are counted, for example long
/// searches. The caller of an operation subtracts the number from the instructions that the program
/// may still execute.
#[derive(Default)]
struct Work(Cell<u64>);

impl Work {
    fn add(&self, instructions: usize) {
        self.0.set(self.0.get().saturating_add(instructions as u64));
    }
}

enum Data {
    Array(Array),
    Hash(RefCell<Hash>),
    Queue(RefCell<Queue>),
    Storage(RefCell<Storage>),
    Ringbuf(RefCell<Ringbuf>),
    Arena(RefCell<Arena>),
    /// The map accepts any data and drops it, because there is no reader.
    PerfEvents,
    /// The simulator does not have this map type. The map can be created, but each use of it is a
    /// fault.
    NotModelled,
}

impl Map {
    /// Creates a map in the region, for a machine whose CPU ids are below `nr_cpus`. Fails if the
    /// sizes in the definition are invalid.
    pub fn create(def: &MapDef, region: &Region, nr_cpus: u32) -> Result<Map, Error> {
        let data = match def.kind {
            kind::ARRAY | kind::ARRAY_OF_MAPS => Array::create(def, region, 1).map(Data::Array),
            kind::PERCPU_ARRAY => Array::create(def, region, nr_cpus).map(Data::Array),
            kind::HASH | kind::LRU_HASH | kind::HASH_OF_MAPS => {
                Hash::create(def, region, 1).map(|hash| Data::Hash(RefCell::new(hash)))
            }
            kind::PERCPU_HASH | kind::LRU_PERCPU_HASH => {
                Hash::create(def, region, nr_cpus).map(|hash| Data::Hash(RefCell::new(hash)))
            }
            kind::QUEUE | kind::STACK => Queue::create(def).map(|queue| Data::Queue(RefCell::new(queue))),
            kind::TASK_STORAGE | kind::CGRP_STORAGE => Ok(Data::Storage(RefCell::new(Storage::create(def)))),
            kind::RINGBUF | kind::USER_RINGBUF => {
                Ringbuf::create(def, region).map(|ring| Data::Ringbuf(RefCell::new(ring)))
            }
            kind::ARENA => Arena::create(def, region).map(|arena| Data::Arena(RefCell::new(arena))),
            kind::PERF_EVENT_ARRAY => Ok(Data::PerfEvents),
            _ => Ok(Data::NotModelled),
        };
        let data = data.map_err(|error| format!("map {}: {error}", def.name))?;
        Ok(Map {
            def: def.clone(),
            region: region.id(),
            data,
        })
    }

    /// Returns whether the map was created in this region.
    pub(crate) fn is_in(&self, region: &Region) -> bool {
        self.region == region.id()
    }

    /// Returns the definition from which the map was created.
    pub fn def(&self) -> &MapDef {
        &self.def
    }

    /// Returns the C name.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Returns the address that stands for the map in code.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.def.handle
    }

    fn unsupported(&self, operation: &str) -> Fault {
        let reason = match self.data {
            Data::NotModelled => "is not modelled",
            _ => "does not support this operation",
        };
        let text = format!(
            "map {}: {operation}: its type ({}) {reason}",
            self.def.name, self.def.kind
        );
        Fault::new(FaultKind::Trap, text)
    }

    /// Returns the address of the value for a key, or 0 if there is none. In a per-CPU map, this is
    /// the value of `cpu`. `key` must have the map's key size. Panics if the map is a hash map of a
    /// different region.
    #[inline]
    pub fn lookup(&self, region: &Region, key: &[u8], cpu: u32) -> Result<u64, Fault> {
        let value = match &self.data {
            Data::Array(array) => array.lookup(key, cpu),
            Data::Hash(hash) => hash.borrow_mut().lookup(region, key, cpu),
            _ => return Err(self.unsupported("lookup")),
        };
        match self.def.kind {
            kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS if value != 0 => region.load(value),
            _ => Ok(value),
        }
    }

    /// Returns the address of the value that an update of this key would evict from an LRU map, or
    /// 0 if the update would evict nothing.
    pub(crate) fn victim(&self, region: &Region, key: &[u8], flags: u64) -> u64 {
        match &self.data {
            // An LRU map refuses BPF_F_LOCK, so such an update evicts nothing.
            Data::Hash(hash) if flags < BPF_EXIST => hash.borrow().victim(region, key),
            _ => 0,
        }
    }

    /// Sets the value of a key. In a per-CPU map, sets the value of `cpu`. Returns 0 or a negative
    /// error number.
    pub fn update(&self, region: &Region, key: &[u8], value: &[u8], flags: u64, cpu: u32) -> Result<i64, Fault> {
        let has_lock = || self.def.fields.iter().any(|field| field.kind == FieldKind::SpinLock);
        let no_lock = flags & BPF_F_LOCK != 0 && !has_lock();
        let known = match self.def.kind {
            kind::LRU_HASH | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH => flags,
            _ => flags & !BPF_F_LOCK,
        };
        // For an array, the kernel reports a missing element before a missing lock.
        if known > BPF_EXIST || no_lock && !matches!(self.data, Data::Array(_)) {
            return Ok(-EINVAL);
        }
        let found = match &self.data {
            Data::Array(array) => array.find_for_update(key, flags, cpu),
            Data::Hash(hash) => hash.borrow_mut().find_or_insert(region, key, flags, cpu),
            _ => return Err(self.unsupported("update")),
        };
        match found {
            Ok(_) if no_lock => Ok(-EINVAL),
            Ok(addr) => {
                self.copy_value(region, addr, value)?;
                Ok(0)
            }
            Err(ENOMEM) => region.memory().refused(-ENOMEM),
            Err(error) => Ok(-error),
        }
    }

    /// Copies a value, except for the fields that the kernel manages: locks, timers, kptrs.
    fn copy_value(&self, region: &Region, addr: u64, value: &[u8]) -> Result<(), Fault> {
        region.check(addr, value.len() as u64, true)?;
        let copy = |start: usize, end: usize| {
            // SAFETY: both ranges are checked. They may overlap, because the program may pass a
            // value of this same map.
            unsafe {
                std::ptr::copy(
                    value[start..end].as_ptr(),
                    region.host::<u8>(addr + start as u64),
                    end - start,
                )
            }
        };
        let mut done = 0;
        for field in &self.def.fields {
            let (start, end) = (field.offset as usize, (field.offset + field.size) as usize);
            if field.kind != FieldKind::Uptr && start >= done && end <= value.len() {
                copy(done, start);
                done = end;
            }
        }
        copy(done, value.len());
        Ok(())
    }

    /// Returns the key of the entry whose value is at this address, or zeros if the map has no
    /// keys.
    pub(crate) fn key_for_value(&self, region: &Region, value: u64) -> Vec<u8> {
        match &self.data {
            Data::Array(array) => {
                let (base, stride, _) = array.layout();
                ((value.wrapping_sub(base) / stride) as u32).to_le_bytes().to_vec()
            }
            Data::Hash(_) => {
                let size = u64::from(self.def.key_size);
                let key = region.bytes(value.wrapping_sub(size.next_multiple_of(8)), size);
                key.map_or(vec![0; size as usize], Bytes::into_vec)
            }
            _ => vec![0; self.def.key_size as usize],
        }
    }

    /// Removes a key. Returns 0 or a negative error number.
    pub fn delete(&self, region: &Region, key: &[u8]) -> Result<i64, Fault> {
        match &self.data {
            Data::Array(_) => Ok(-EINVAL),
            Data::Hash(hash) => Ok(hash.borrow_mut().delete(region, key)),
            _ => Err(self.unsupported("delete")),
        }
    }

    /// Returns whether the elements of a map are allocated when it is created, and are used again
    /// (htab_is_prealloc).
    pub(crate) fn is_preallocated(&self) -> bool {
        self.def.kind == kind::HASH && self.def.flags & BPF_F_NO_PREALLOC == 0
    }

    /// Removes a key of a preallocated hash map on `cpu`. The element keeps its kptrs until it is used
    /// again. Returns 0 or a negative error number.
    pub(crate) fn delete_with_kptrs(&self, region: &Region, key: &[u8], cpu: u32, kptrs: Kptrs) -> Result<i64, Fault> {
        match &self.data {
            Data::Hash(hash) => Ok(hash.borrow_mut().delete_with_kptrs(region, key, cpu, kptrs)),
            _ => Err(self.unsupported("delete")),
        }
    }

    /// Returns an entry for an iteration over the map, or `None` after the last entry. `cursor` is
    /// 0 for the first entry. The result is the cursor for the next entry, the key, and the address
    /// of the value on `cpu`.
    pub fn next(&self, region: &Region, cursor: usize, cpu: u32) -> Result<Option<(usize, Vec<u8>, u64)>, Fault> {
        match &self.data {
            Data::Array(array) => {
                let key = (cursor as u32).to_le_bytes().to_vec();
                let value = array.lookup(&key, cpu);
                Ok((value != 0).then_some((cursor + 1, key, value)))
            }
            Data::Hash(hash) => Ok(hash.borrow().next(region, cursor, cpu)),
            _ => Err(self.unsupported("iteration")),
        }
    }

    /// Returns the work of all operations since the last call of this function, as a number of BPF
    /// instructions; see [`Work`].
    #[inline]
    pub(crate) fn take_work(&self) -> u64 {
        match &self.data {
            Data::Hash(hash) => hash.borrow().work.0.take(),
            Data::Arena(arena) => arena.borrow().work.0.take(),
            _ => 0,
        }
    }

    /// Appends an element to a queue or stack. Returns 0 or a negative error number.
    pub fn push(&self, region: &Region, value: &[u8], flags: u64) -> Result<i64, Fault> {
        match &self.data {
            Data::Queue(queue) => queue.borrow_mut().push(region, value, flags),
            _ => Err(self.unsupported("push")),
        }
    }

    /// Copies the next element of a queue or stack to `value`, and removes the element unless
    /// `peek` is set. If the map is empty, returns a negative error number and sets `value` to
    /// zeros.
    pub fn pop(&self, region: &Region, value: u64, peek: bool) -> Result<i64, Fault> {
        match &self.data {
            Data::Queue(queue) => queue.borrow_mut().pop(region, value, peek),
            _ => Err(self.unsupported("pop")),
        }
    }

    /// Returns the address of the value that is stored for the kernel object `owner`. If there is
    /// no value and `create` is set, creates one, as a copy of `init` or filled with zeros. Returns
    /// 0 if there is no value, if memory is exhausted, or if `owner` is not the address of a kernel
    /// object.
    #[inline]
    pub fn storage_get(&self, region: &Region, owner: u64, init: Option<&[u8]>, create: bool) -> Result<u64, Fault> {
        let Data::Storage(storage) = &self.data else {
            return Err(self.unsupported("local storage"));
        };
        let mut storage = storage.borrow_mut();
        let value = storage.get(region, owner);
        if value != 0 || !create {
            return Ok(value);
        }
        let value = storage.create_value(region, owner);
        if value == 0 {
            return region.memory().refused(0);
        }
        if let Some(init) = init {
            self.copy_value(region, value, init)?;
        }
        Ok(value)
    }

    /// Deletes the value that is stored for an object. Returns 0 or a negative error number.
    pub fn storage_delete(&self, region: &Region, owner: u64) -> Result<i64, Fault> {
        match &self.data {
            Data::Storage(storage) => Ok(storage.borrow_mut().delete(region, owner)),
            _ => Err(self.unsupported("local storage")),
        }
    }

    /// Returns the ring of a RINGBUF or USER_RINGBUF.
    pub fn ringbuf(&self) -> Result<&RefCell<Ringbuf>, Fault> {
        match &self.data {
            Data::Ringbuf(ring) => Ok(ring),
            _ => Err(self.unsupported("ring buffer")),
        }
    }

    /// Shares the memory of the map with a process, which maps the same part of the file. The
    /// map's contents are then those of the file.
    ///
    /// # Errors
    /// The map has no memory that a process could map, or the host cannot map the file.
    ///
    /// # Safety
    /// See [`SharedFile`].
    pub unsafe fn share(&self, region: &Region, file: SharedFile) -> Result<(), Error> {
        match &self.data {
            // SAFETY: as the caller promises.
            Data::Array(array) => unsafe { array.share(region, file) },
            // SAFETY: as the caller promises.
            Data::Ringbuf(ring) => unsafe { ring.borrow_mut().share(region, file) },
            // SAFETY: as the caller promises.
            Data::Arena(arena) => unsafe { arena.borrow_mut().share(region, file) },
            _ => Err(Error::new(format!(
                "map {} has no memory that a process can map",
                self.def.name
            ))),
        }
    }

    /// Returns the start of an arena: its address in the region, and the address that programs see.
    pub(crate) fn arena_bases(&self) -> Option<(u64, u64)> {
        match &self.data {
            Data::Arena(arena) => Some(arena.borrow().bases()),
            _ => None,
        }
    }

    /// Returns the addresses of an arena in the region, or `None` if the map is not an arena.
    pub(crate) fn arena_range(&self) -> Option<std::ops::Range<u64>> {
        self.arena_bases().map(|(base, _)| base..base + ARENA_SIZE)
    }

    /// Returns the address in the region of a pointer that points into the arena. Returns `None` if
    /// the map is not an arena.
    pub fn arena_addr(&self, pointer: u64) -> Option<u64> {
        self.arena_bases().map(|(base, _)| base | u64::from(pointer as u32))
    }

    /// Allocates adjacent pages of an arena, at the pointer `at` unless `at` is 0. Returns the
    /// pointer that the program uses, or 0 if not enough adjacent pages are free.
    pub fn alloc_pages(&self, region: &Region, at: u64, pages: u32) -> Result<u64, Fault> {
        match &self.data {
            Data::Arena(arena) => {
                let pages = arena.borrow_mut().alloc(region, at, pages);
                pages.map_err(|exhausted| exhausted.fault(region))
            }
            _ => Err(self.unsupported("page allocation")),
        }
    }

    /// Frees pages of an arena.
    pub fn free_pages(&self, region: &Region, at: u64, pages: u32) -> Result<(), Fault> {
        match &self.data {
            Data::Arena(arena) => {
                let freed = arena.borrow_mut().free(region, at, pages);
                freed.map_err(|exhausted| exhausted.fault(region))
            }
            _ => Err(self.unsupported("page allocation")),
        }
    }

    /// Returns the layout of an ARRAY: the address of value 0, the distance between values, and the
    /// number of values.
    pub fn values(&self) -> Option<(u64, u64, u32)> {
        match &self.data {
            Data::Array(array) if self.def.kind == kind::ARRAY => Some(array.layout()),
            _ => None,
        }
    }

    /// Returns the layout of any array: its definition, the address of value 0, the distance
    /// between values, and the number of values on all CPUs together.
    pub(crate) fn array_layout(&self) -> Option<(&MapDef, u64, u64, u64)> {
        match &self.data {
            Data::Array(array) => {
                let (base, stride, _) = array.layout();
                Some((&self.def, base, stride, array.elements()))
            }
            _ => None,
        }
    }

    /// Returns the layout of an ARRAY or PERCPU_ARRAY: the address of value 0 on CPU 0, the
    /// distance between values, the number of values, and whether each CPU has its own block of
    /// values.
    pub(crate) fn blocks(&self) -> Option<(u64, u64, u32, bool)> {
        match (&self.data, self.def.kind) {
            (Data::Array(array), kind::ARRAY | kind::PERCPU_ARRAY) => {
                let (base, stride, max) = array.layout();
                Some((base, stride, max, self.def.kind == kind::PERCPU_ARRAY))
            }
            _ => None,
        }
    }

    /// Reads a value as user space does. For a per-CPU map, returns the values of all CPUs, one
    /// after the other.
    pub fn read(&self, region: &Region, key: &[u8], nr_cpus: u32) -> Option<Vec<u8>> {
        let percpu = matches!(
            self.def.kind,
            kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH
        );
        let mut all = Vec::new();
        for cpu in 0..if percpu { nr_cpus } else { 1 } {
            let addr = self.lookup(region, key, cpu).ok().filter(|&addr| addr != 0)?;
            all.extend_from_slice(&region.bytes(addr, u64::from(self.def.value_size)).ok()?);
        }
        Some(all)
    }

    /// Releases the map's memory. The map must not be used afterwards.
    pub(crate) fn release(&self, region: &Region) {
        match &self.data {
            Data::Array(array) => array.release(region),
            Data::Hash(hash) => hash.borrow_mut().release(region),
            Data::Storage(storage) => storage.borrow_mut().release(region),
            Data::Ringbuf(ring) => ring.borrow_mut().release(region),
            Data::Arena(arena) => arena.borrow().release(region),
            Data::Queue(queue) => queue.borrow().release(region),
            Data::PerfEvents | Data::NotModelled => {}
        }
    }
}
