// SPDX-License-Identifier: GPL-2.0-only
//! Creates maps.

use super::{Attributes, MOST};
use kernel::Machine;

use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::program::Program;
use ::bpf::map::kind;
use ::bpf::memory::PAGE;

/// Type of maps that hold the callbacks of a scheduler.
pub(super) const STRUCT_OPS: u32 = 26;
/// BPF_F_MMAPABLE: the program can map the array.
const MMAPABLE: u32 = 1 << 10;

/// A map that the program has created.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// Name, of which libbpf passes only the first 15 bytes.
    pub name: String,
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
    /// Offset in the shared memory, if the program can map the map, and its size there.
    pub shared: Option<u64>,
    pub shared_bytes: u64,
    /// Address of an arena, the same in the program and in BPF programs.
    pub arena_address: Option<u64>,
    /// Updates before the object was linked: keys, values and flags.
    pub pending: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// Value of a map of type STRUCT_OPS.
    pub callbacks: Vec<u8>,
    /// Name of the map in the linked object.
    pub linked: Option<String>,
}

impl Map {
    pub fn is_per_cpu(&self) -> bool {
        matches!(
            self.kind,
            kind::PERCPU_ARRAY | kind::PERCPU_HASH | kind::LRU_PERCPU_HASH
        )
    }

    /// Returns the distance of the values of an array.
    pub fn stride(&self) -> u64 {
        u64::from(self.value_size).next_multiple_of(8)
    }

    /// Returns whether the map holds a section of globals, for example `x_bpf.rodata` or `.data.foo`.
    pub fn is_section(&self) -> bool {
        self.kind == kind::ARRAY && self.max_entries == 1 && self.name.contains('.')
    }
}

impl Program {
    pub(super) fn create_map(&mut self, m: &Machine, a: &Attributes) -> Reply {
        if self.bpf.maps.len() >= MOST {
            return error(libc::ENOMEM);
        }
        if self.bpf.is_over(m) {
            self.bpf.begin_again();
            self.recording = None;
        }
        let mut map = Map {
            kind: a.u32(0),
            key_size: a.u32(4),
            value_size: a.u32(8),
            max_entries: a.u32(12),
            flags: a.u32(16),
            name: a.name(28),
            shared: None,
            shared_bytes: 0,
            arena_address: None,
            pending: Vec::new(),
            callbacks: Vec::new(),
            linked: None,
        };
        let entries = u64::from(map.max_entries);
        let bytes = match map.kind {
            kind::ARRAY if map.flags & MMAPABLE != 0 => Some(map.stride() * entries),
            kind::RINGBUF | kind::USER_RINGBUF => Some(::bpf::map::Ringbuf::shared_bytes(map.max_entries)),
            kind::ARENA => Some(entries * PAGE),
            _ => None,
        };
        if let Some(bytes) = bytes {
            let Some(at) = self.shared.allocate(bytes) else {
                return error(libc::ENOMEM);
            };
            (map.shared, map.shared_bytes) = (Some(at), bytes);
        }
        if map.kind == kind::ARENA {
            // The address must be the one that the linked object uses. Only a probe of the kernel's
            // features creates an arena without a name, and that arena is not in the object.
            let is_in_object = |map: &&Map| map.kind == kind::ARENA && !map.name.is_empty();
            let before = self.bpf.own_maps().iter().filter(is_in_object).count();
            map.arena_address = m.region().next_arena(before as u64, a.u64(64));
        }
        let ring = match map.kind {
            kind::RINGBUF => map.shared.map(|at| (at, false)),
            kind::USER_RINGBUF => map.shared.map(|at| (at, true)),
            _ => None,
        };
        self.bpf.rings.push(ring);
        self.bpf.maps.push(map);
        Reply::Result(self.files.add(FileKind::Map(self.bpf.maps.len() - 1)))
    }
}
