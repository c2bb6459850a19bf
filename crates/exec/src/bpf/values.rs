// SPDX-License-Identifier: GPL-2.0-only
//! Reads and changes the elements of maps.

use std::os::unix::fs::FileExt;

use kernel::Machine;

use super::maps::STRUCT_OPS;
use super::{
    Attributes, MAP_DELETE_BATCH, MAP_DELETE_ELEM, MAP_GET_NEXT_KEY, MAP_LOOKUP_AND_DELETE_ELEM, MAP_LOOKUP_BATCH,
    MAP_LOOKUP_ELEM, MAP_UPDATE_BATCH, MAP_UPDATE_ELEM,
};
use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::program::Program;
use ::bpf::map::{Map, kind};
use ::bpf::memory::PAGE;

/// Largest number of bytes of a value or of a batch.
const LARGEST: u64 = 64 << 20;
/// Number of bytes that are copied to the shared memory at once.
const COPIED: usize = 1 << 20;

impl Program {
    fn map_of(&self, fd: i32) -> Option<usize> {
        match self.files.get(fd)?.kind {
            FileKind::Map(at) => Some(at),
            _ => None,
        }
    }

    /// Returns the map of the linked object that belongs to a map of the program.
    fn linked<'m>(&self, m: &'m Machine, at: usize) -> Result<&'m Map, i32> {
        let name = self.bpf.maps[at].linked.as_deref();
        name.and_then(|name| m.ext().last_vm()?.map_by_name(name))
            .ok_or(libc::EINVAL)
    }

    /// Returns the number of bytes of a value as the program passes it: for a map with a value for
    /// each CPU, all of them.
    fn passed_bytes(&self, m: &Machine, at: usize) -> u64 {
        let map = &self.bpf.maps[at];
        match map.is_per_cpu() {
            true => map.stride() * u64::from(m.nr_cpus()),
            false => map.value_size.into(),
        }
    }

    /// Answers a command about one element.
    pub(super) fn element(&mut self, m: &mut Machine, command: u64, a: &Attributes) -> Reply {
        let Some(at) = self.map_of(a.fd(0)) else {
            return error(libc::EBADF);
        };
        let (key_addr, value_addr, flags) = (a.u64(8), a.u64(16), a.u64(24));
        let bytes = self.passed_bytes(m, at);
        let key_size = self.bpf.maps[at].key_size as usize;
        let first = command == MAP_GET_NEXT_KEY && key_addr == 0;
        let key = if first {
            Some(Vec::new())
        } else {
            self.host.memory.read(key_addr, key_size)
        };
        let Some(key) = key else {
            return error(libc::EFAULT);
        };
        if command == MAP_UPDATE_ELEM
            && let Some(shared) = self.shared_value(at, &key)
        {
            return match shared {
                Ok(offset) => self.copy_to_shared(value_addr, offset, bytes),
                Err(errno) => error(errno),
            };
        }
        if bytes > LARGEST {
            return error(libc::E2BIG);
        }
        match command {
            MAP_UPDATE_ELEM => match self.host.memory.read(value_addr, bytes as usize) {
                Some(value) => Reply::Result(self.update(m, at, &key, &value, flags)),
                None => error(libc::EFAULT),
            },
            MAP_LOOKUP_ELEM => match self.lookup(m, at, &key) {
                Ok(value) => self.put(value_addr, &value, 0),
                Err(errno) => error(errno),
            },
            MAP_LOOKUP_AND_DELETE_ELEM => match self.take(m, at, &key) {
                Ok(value) => self.put(value_addr, &value, 0),
                Err(errno) => error(errno),
            },
            MAP_DELETE_ELEM => Reply::Result(self.delete(m, at, &key)),
            _ => match self.next_key(m, at, &key) {
                Ok(next) => self.put(value_addr, &next, 0),
                Err(errno) => error(errno),
            },
        }
    }

    /// Returns the offset in the shared memory of the value of an array that the program can map.
    fn shared_value(&self, at: usize, key: &[u8]) -> Option<Result<u64, i32>> {
        let map = &self.bpf.maps[at];
        let start = map.shared.filter(|_| map.kind == kind::ARRAY)?;
        let index = u64::from(u32::from_le_bytes(*key.first_chunk()?));
        Some(match index < map.max_entries.into() {
            true => Ok(start + index * map.stride()),
            false => Err(libc::E2BIG),
        })
    }

    /// Copies a value of the program to the shared memory. Pages that stay equal are not written, so
    /// that zeros take no memory: the globals of scx_layered have 165 MB.
    fn copy_to_shared(&self, addr: u64, offset: u64, len: u64) -> Reply {
        let (mut new, mut old) = (vec![0; COPIED], vec![0; COPIED]);
        for start in (0..len).step_by(COPIED) {
            let part = COPIED.min((len - start) as usize);
            let (new, old) = (&mut new[..part], &mut old[..part]);
            if !self.host.memory.read_into(addr + start, new) {
                return error(libc::EFAULT);
            }
            let at = offset + start;
            let mut copied = self.shared_file.read_exact_at(old, at).is_ok();
            let pages = new.chunks(PAGE as usize).zip(old.chunks(PAGE as usize));
            for (at, (new, old)) in (at..).step_by(PAGE as usize).zip(pages) {
                copied &= new == old || self.shared_file.write_all_at(new, at).is_ok();
            }
            if !copied {
                return error(libc::ENOMEM);
            }
        }
        Reply::Result(0)
    }

    fn update(&mut self, m: &mut Machine, at: usize, key: &[u8], value: &[u8], flags: u64) -> i64 {
        match self.shared_value(at, key) {
            Some(Ok(offset)) => {
                return match self.shared_file.write_all_at(value, offset) {
                    Ok(()) => 0,
                    Err(_) => -i64::from(libc::ENOMEM),
                };
            }
            Some(Err(errno)) => return -i64::from(errno),
            None => {}
        }
        if self.bpf.is_old(at) {
            return -i64::from(libc::EINVAL);
        }
        let linked = self.bpf.image().is_some();
        let map = &mut self.bpf.maps[at];
        if map.kind == STRUCT_OPS {
            map.callbacks = value.to_vec();
            return 0;
        }
        let is_outer = matches!(map.kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS);
        if linked && map.linked.is_none() && is_outer {
            // The map is not in the object, so no BPF program reads it. scx_arena updates such a map
            // to wait until running BPF programs have ended, and here none is running.
            return 0;
        }
        if !linked {
            map.pending.push((key.to_vec(), value.to_vec(), flags));
            return 0;
        }
        self.update_linked(m, at, key, value, flags)
    }

    /// Updates an element of a map of the linked object.
    pub(super) fn update_linked(&mut self, m: &Machine, at: usize, key: &[u8], value: &[u8], flags: u64) -> i64 {
        let map = &self.bpf.maps[at];
        let Ok(linked) = self.linked(m, at) else {
            return -i64::from(libc::EINVAL);
        };
        let size = map.value_size as usize;
        if matches!(map.kind, kind::QUEUE | kind::STACK) {
            return linked
                .push(m.region(), value, flags)
                .unwrap_or(-i64::from(libc::EINVAL));
        }
        let parts: Vec<&[u8]> = match map.is_per_cpu() {
            true => value.chunks(map.stride() as usize).map(|part| &part[..size]).collect(),
            false => vec![value],
        };
        for (cpu, part) in (0..).zip(parts) {
            match linked.update(m.region(), key, part, flags, cpu) {
                Ok(0) => self.record_element(at, key, cpu, part),
                Ok(errno) => return errno,
                Err(_) => return -i64::from(libc::EOPNOTSUPP),
            }
        }
        0
    }

    fn lookup(&mut self, m: &mut Machine, at: usize, key: &[u8]) -> Result<Vec<u8>, i32> {
        let size = self.bpf.maps[at].value_size as usize;
        match self.shared_value(at, key) {
            Some(Ok(offset)) => {
                let mut value = vec![0; size];
                let read = self.shared_file.read_exact_at(&mut value, offset);
                return read.map(|()| value).map_err(|_| libc::ENOMEM);
            }
            Some(Err(_)) => return Err(libc::ENOENT),
            None => {}
        }
        if self.bpf.maps[at].kind == STRUCT_OPS {
            return Err(libc::ENOENT);
        }
        self.link(m)?;
        let map = &self.bpf.maps[at];
        let linked = self.linked(m, at)?;
        let cpus = if map.is_per_cpu() { m.nr_cpus() } else { 1 };
        let mut value = Vec::new();
        for cpu in 0..cpus {
            let addr = linked.lookup(m.region(), key, cpu).map_err(|_| libc::EOPNOTSUPP)?;
            if addr == 0 {
                return Err(libc::ENOENT);
            }
            value.extend_from_slice(&m.region().bytes(addr, size as u64).map_err(|_| libc::EFAULT)?);
            if map.is_per_cpu() {
                value.resize(value.len().next_multiple_of(8), 0);
            }
        }
        Ok(value)
    }

    /// Removes an element of a queue, a stack or a hash table and returns its value.
    fn take(&mut self, m: &mut Machine, at: usize, key: &[u8]) -> Result<Vec<u8>, i32> {
        if !matches!(self.bpf.maps[at].kind, kind::QUEUE | kind::STACK) {
            let value = self.lookup(m, at, key)?;
            self.delete(m, at, key);
            return Ok(value);
        }
        self.link(m)?;
        let linked = self.linked(m, at)?;
        let size = u64::from(self.bpf.maps[at].value_size);
        let addr = m.region().alloc(size).ok_or(libc::ENOMEM)?;
        let popped = linked.pop(m.region(), addr, false);
        let value = m.region().bytes(addr, size).map(|bytes| bytes.to_vec());
        m.region().free(addr);
        match popped {
            Ok(0) => value.map_err(|_| libc::EFAULT),
            Ok(errno) => Err(-errno as i32),
            Err(_) => Err(libc::EOPNOTSUPP),
        }
    }

    fn delete(&mut self, m: &mut Machine, at: usize, key: &[u8]) -> i64 {
        if let Err(errno) = self.link(m) {
            return -i64::from(errno);
        }
        self.record_delete(at, key);
        match self.linked(m, at) {
            Ok(linked) => linked.delete(m.region(), key).unwrap_or(-i64::from(libc::EOPNOTSUPP)),
            Err(errno) => -i64::from(errno),
        }
    }

    /// Returns the key that follows `key`, or the first key if `key` is empty or does not exist.
    fn next_key(&mut self, m: &mut Machine, at: usize, key: &[u8]) -> Result<Vec<u8>, i32> {
        self.link(m)?;
        let map = &self.bpf.maps[at];
        let array = matches!(map.kind, kind::ARRAY | kind::PERCPU_ARRAY);
        if array {
            let index = key.first_chunk().map(|key| u32::from_le_bytes(*key));
            let next = index.map_or(0, |index| if index < map.max_entries { index + 1 } else { 0 });
            return match next < map.max_entries {
                true => Ok(next.to_le_bytes().to_vec()),
                false => Err(libc::ENOENT),
            };
        }
        let linked = self.linked(m, at)?;
        let next = |cursor: usize| linked.next(m.region(), cursor, 0).map_err(|_| libc::EOPNOTSUPP);
        let mut cursor = 0;
        while let Some((after, known, _)) = next(cursor)? {
            if known == key {
                return next(after)?.map(|(_, key, _)| key).ok_or(libc::ENOENT);
            }
            cursor = after;
        }
        next(0)?.map(|(_, key, _)| key).ok_or(libc::ENOENT)
    }

    /// Answers a command about several elements.
    pub(super) fn batch(&mut self, m: &mut Machine, command: u64, a: &Attributes) -> Reply {
        let Some(at) = self.map_of(a.fd(36)) else {
            return error(libc::EBADF);
        };
        let (count, flags) = (u64::from(a.u32(32)), a.u64(40));
        let (key_size, bytes) = (u64::from(self.bpf.maps[at].key_size), self.passed_bytes(m, at));
        if count * (bytes + key_size) > LARGEST {
            return error(libc::E2BIG);
        }
        if command == MAP_LOOKUP_BATCH {
            return self.lookup_batch(m, at, a, count);
        }
        let (keys, values) = (a.u64(16), a.u64(24));
        let (mut done, mut result) = (0u32, 0);
        for index in 0..count {
            let Some(key) = self.host.memory.read(keys + index * key_size, key_size as usize) else {
                return error(libc::EFAULT);
            };
            result = match command {
                MAP_UPDATE_BATCH => match self.host.memory.read(values + index * bytes, bytes as usize) {
                    Some(value) => self.update(m, at, &key, &value, flags),
                    None => -i64::from(libc::EFAULT),
                },
                MAP_DELETE_BATCH => self.delete(m, at, &key),
                _ => -i64::from(libc::EINVAL),
            };
            if result != 0 {
                break;
            }
            done += 1;
        }
        self.put(a.addr + 32, &done.to_le_bytes(), result)
    }

    /// Answers BPF_MAP_LOOKUP_BATCH. The token of a batch is the position after its last element.
    fn lookup_batch(&mut self, m: &mut Machine, at: usize, a: &Attributes, count: u64) -> Reply {
        if let Err(errno) = self.link(m) {
            return error(errno);
        }
        let (start, end, keys_addr, values_addr) = (a.u64(0), a.u64(8), a.u64(16), a.u64(24));
        let mut cursor = if start == 0 {
            0
        } else {
            self.host.memory.read_u32(start).unwrap_or(0)
        };
        let (mut keys, mut values, mut done) = (Vec::new(), Vec::new(), 0u32);
        let mut over = false;
        while u64::from(done) < count {
            let next = match self.entry(m, at, cursor as usize) {
                Ok(next) => next,
                Err(errno) => return error(errno),
            };
            let Some((after, key)) = next else {
                over = true;
                break;
            };
            match self.lookup(m, at, &key) {
                Ok(value) => values.extend_from_slice(&value),
                Err(errno) => return error(errno),
            }
            keys.extend_from_slice(&key);
            (cursor, done) = (after as u32, done + 1);
        }
        let written = self.host.memory.write(keys_addr, &keys)
            && self.host.memory.write(values_addr, &values)
            && self.host.memory.write(end, &cursor.to_le_bytes());
        if !written {
            return error(libc::EFAULT);
        }
        let result = if over { -i64::from(libc::ENOENT) } else { 0 };
        self.put(a.addr + 32, &done.to_le_bytes(), result)
    }

    /// Returns the key at a position of a map, and the position after it.
    fn entry(&self, m: &Machine, at: usize, cursor: usize) -> Result<Option<(usize, Vec<u8>)>, i32> {
        let map = &self.bpf.maps[at];
        if matches!(map.kind, kind::ARRAY | kind::PERCPU_ARRAY) {
            let exists = (cursor as u64) < u64::from(map.max_entries);
            return Ok(exists.then(|| (cursor + 1, (cursor as u32).to_le_bytes().to_vec())));
        }
        let linked = self.linked(m, at)?;
        let next = linked.next(m.region(), cursor, 0).map_err(|_| libc::EOPNOTSUPP)?;
        Ok(next.map(|(after, key, _)| (after, key)))
    }
}
