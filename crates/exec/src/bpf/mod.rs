// SPDX-License-Identifier: GPL-2.0-only
//! The system call bpf(2).
//!
//! The program's loader (libbpf) creates maps, and loads programs whose code it has changed for the
//! kernel. This code is not used. Instead, the object is found in the program's file, and linked by
//! the simulator's own loader when the program first needs it: when it runs a program, attaches the
//! scheduler, or uses a map whose memory it cannot map. Until then, maps that the program can map
//! have only their shared memory, which is the map's memory afterwards.

mod iterator;
mod link;
mod maps;
mod objects;
mod values;

use input::Error;
use kernel::Machine;
use kernel::ext::EnableState;
use std::path::{Path, PathBuf};

use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::program::Program;
use ::bpf::btf;
use ::bpf::link::Image;
use ::bpf::object::Object;

pub(crate) use link::{Link, is_name};
pub(crate) use maps::Map;

// Commands (enum bpf_cmd).
const MAP_CREATE: u64 = 0;
const MAP_LOOKUP_ELEM: u64 = 1;
const MAP_UPDATE_ELEM: u64 = 2;
const MAP_DELETE_ELEM: u64 = 3;
const MAP_GET_NEXT_KEY: u64 = 4;
const PROG_LOAD: u64 = 5;
const OBJ_PIN: u64 = 6;
const OBJ_GET: u64 = 7;
const PROG_TEST_RUN: u64 = 10;
const PROG_GET_NEXT_ID: u64 = 11;
const MAP_GET_NEXT_ID: u64 = 12;
const OBJ_GET_INFO_BY_FD: u64 = 15;
const RAW_TRACEPOINT_OPEN: u64 = 17;
const BTF_LOAD: u64 = 18;
const MAP_LOOKUP_AND_DELETE_ELEM: u64 = 21;
const MAP_FREEZE: u64 = 22;
const BTF_GET_NEXT_ID: u64 = 23;
const MAP_LOOKUP_BATCH: u64 = 24;
const MAP_UPDATE_BATCH: u64 = 26;
const MAP_DELETE_BATCH: u64 = 27;
const LINK_CREATE: u64 = 28;
const LINK_GET_NEXT_ID: u64 = 31;
const ENABLE_STATS: u64 = 32;
const ITER_CREATE: u64 = 33;
const LINK_DETACH: u64 = 34;
const PROG_BIND_MAP: u64 = 35;

/// Largest size of union bpf_attr.
const ATTRIBUTES: usize = 256;
/// Largest number of maps, of programs and of links.
const MOST: usize = 4096;
/// Length of a name, including the terminating zero (BPF_OBJ_NAME_LEN).
const NAME_LEN: usize = 16;

/// Arguments of a command.
pub(crate) struct Attributes {
    bytes: [u8; ATTRIBUTES],
    /// Address in the program, for results.
    addr: u64,
}

impl Attributes {
    pub fn u32(&self, at: usize) -> u32 {
        self.bytes[at..]
            .first_chunk()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    pub fn u64(&self, at: usize) -> u64 {
        self.bytes[at..]
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn fd(&self, at: usize) -> i32 {
        self.u32(at).cast_signed()
    }

    fn name(&self, at: usize) -> String {
        let bytes = &self.bytes[at..at + NAME_LEN];
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_LEN);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// A program that was loaded.
#[derive(Clone, Debug)]
pub(crate) struct Prog {
    /// Name, of which libbpf passes only the first 15 bytes.
    pub name: String,
    pub kind: u32,
    /// How many programs with the same name were loaded before.
    pub nth: usize,
}

/// A member of struct sched_ext_ops.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub name: String,
    pub offset: usize,
}

/// The maps, programs and links that the program has created with bpf(2).
pub(crate) struct Bpf {
    /// The objects in the program's files, and where they lie.
    objects: Vec<Object>,
    places: Vec<objects::Place>,
    pub maps: Vec<Map>,
    pub progs: Vec<Prog>,
    pub links: Vec<Link>,
    /// For each map, the offset of its ring buffer in the shared memory, and whether user space
    /// writes to it.
    pub rings: Vec<Option<(u64, bool)>>,
    /// The linked object, once it is needed.
    image: Option<Image>,
    cid: bool,
    /// Whether the scheduler was attached.
    pub attached: bool,
    /// The first map and the first program of the present load. A program loads its object again
    /// after it has closed the link of an earlier load, for example because a CPU went offline.
    first_map: usize,
    first_prog: usize,
    /// Whether the scheduler of the present load was attached.
    own_attached: bool,
    /// Members of struct sched_ext_ops and struct sched_ext_ops_cid in /sys/kernel/btf/vmlinux.
    members: Vec<Member>,
    cid_members: Vec<Member>,
}

impl Bpf {
    /// Reads the objects in the program's file and in the files that its command line names.
    ///
    /// # Errors
    /// The files have no object.
    pub fn new(path: &Path, named_files: &[PathBuf]) -> Result<Bpf, Error> {
        let (objects, places) = objects::find(path, named_files)?.into_iter().unzip();
        Ok(Bpf {
            objects,
            places,
            maps: Vec::new(),
            progs: Vec::new(),
            links: Vec::new(),
            rings: Vec::new(),
            image: None,
            cid: false,
            attached: false,
            first_map: 0,
            first_prog: 0,
            own_attached: false,
            members: Vec::new(),
            cid_members: Vec::new(),
        })
    }

    /// Returns the contents of /sys/kernel/btf/vmlinux and /proc/kallsyms.
    pub fn kernel_types(&mut self, m: &Machine) -> (Vec<u8>, String) {
        let attached: Vec<_> = self.objects.iter().flat_map(Object::attach_points).collect();
        let types = kernel::target::vmlinux(m.spec(), m.options().release, &attached);
        let members = |name: &str| -> Vec<Member> {
            let found = types.find_struct(name).and_then(|id| types.composite(id));
            let members = found.map_or(&[][..], |composite| composite.members.as_slice());
            let member = |member: &btf::Member| Member {
                name: member.name.to_string(),
                offset: (member.bit_offset / 8) as usize,
            };
            members.iter().map(member).collect()
        };
        self.members = members("sched_ext_ops");
        self.cid_members = members("sched_ext_ops_cid");
        let mut symbols = String::new();
        for (_, ty) in types.iter() {
            let letter = match ty.kind {
                btf::TypeKind::Func { .. } => 'T',
                btf::TypeKind::Var { .. } => 'D',
                _ => continue,
            };
            symbols += &format!("ffffffff81000000 {letter} {}\n", ty.name);
        }
        (types.encode(), symbols)
    }

    pub fn image(&self) -> Option<&Image> {
        self.image.as_ref()
    }

    /// Returns the maps of the present load.
    pub fn own_maps(&self) -> &[Map] {
        &self.maps[self.first_map..]
    }

    /// Returns the programs of the present load.
    fn own_progs(&self) -> &[Prog] {
        &self.progs[self.first_prog..]
    }

    /// Returns whether the scheduler of the present load is gone, and the program has closed its link.
    fn is_over(&self, m: &Machine) -> bool {
        let gone = m.ext().state == EnableState::Disabled;
        self.own_attached && gone && self.links.iter().all(|link| link.map.is_none())
    }

    /// Begins the next load. The maps of earlier loads keep only the memory that the program has
    /// mapped.
    fn begin_again(&mut self) {
        (self.first_map, self.first_prog) = (self.maps.len(), self.progs.len());
        (self.image, self.own_attached) = (None, false);
        for map in &mut self.maps {
            map.linked = None;
        }
    }

    /// Returns whether a map belongs to an earlier load.
    fn is_old(&self, map: usize) -> bool {
        map < self.first_map
    }

    /// Returns whether the program has loaded its object again.
    pub fn is_again(&self) -> bool {
        self.first_map > 0
    }

    /// Returns the bytes of the linked object.
    ///
    /// # Errors
    /// The object's file cannot be read, or it has changed.
    pub fn object_bytes(&self) -> Result<Vec<u8>, Error> {
        let place = self.object_index().and_then(|index| self.places.get(index));
        let place = place.ok_or("the program has no object")?;
        let bytes = std::fs::read(&place.file).map_err(|error| Error::io(&place.file, &error))?;
        let object = bytes.get(place.bytes.clone());
        let object = object.ok_or_else(|| format!("{} has changed since the start", place.file.display()))?;
        Ok(object.to_vec())
    }
}

impl Program {
    /// Answers bpf(2).
    pub fn bpf_call(&mut self, m: &mut Machine, t: usize, args: [u64; 6]) -> Reply {
        let [command, addr, size, ..] = args;
        let mut attributes = Attributes {
            bytes: [0; ATTRIBUTES],
            addr,
        };
        let size = (size as usize).min(ATTRIBUTES);
        if !self.host.memory.read_into(addr, &mut attributes.bytes[..size]) {
            return error(libc::EFAULT);
        }
        let a = &attributes;
        match command {
            MAP_CREATE => self.create_map(m, a),
            MAP_UPDATE_ELEM | MAP_LOOKUP_ELEM | MAP_DELETE_ELEM | MAP_GET_NEXT_KEY | MAP_LOOKUP_AND_DELETE_ELEM => {
                self.element(m, command, a)
            }
            MAP_LOOKUP_BATCH | MAP_UPDATE_BATCH | MAP_DELETE_BATCH => self.batch(m, command, a),
            MAP_FREEZE | PROG_BIND_MAP => Reply::Result(0),
            PROG_LOAD => self.load_program(a),
            PROG_TEST_RUN => self.run_program(m, a),
            BTF_LOAD => Reply::Result(self.files.add(FileKind::Btf)),
            LINK_CREATE => self.create_link(m, t, a),
            RAW_TRACEPOINT_OPEN => self.attach_tracing(a.fd(8)),
            LINK_DETACH => self.detach_link(m, t, a.fd(0)),
            ITER_CREATE => self.create_iterator(a.fd(0)),
            OBJ_GET_INFO_BY_FD => self.info(a),
            ENABLE_STATS => Reply::Result(self.files.add(FileKind::Silent)),
            // There are no other objects, and nothing is pinned.
            PROG_GET_NEXT_ID | MAP_GET_NEXT_ID | BTF_GET_NEXT_ID | LINK_GET_NEXT_ID | OBJ_GET => error(libc::ENOENT),
            OBJ_PIN => error(libc::EPERM),
            _ => error(libc::EINVAL),
        }
    }

    fn load_program(&mut self, a: &Attributes) -> Reply {
        if self.bpf.progs.len() >= MOST {
            return error(libc::ENOMEM);
        }
        let name = a.name(48);
        let nth = self.bpf.own_progs().iter().filter(|known| known.name == name).count();
        self.bpf.progs.push(Prog {
            name,
            kind: a.u32(0),
            nth,
        });
        // The log of the verifier stays empty.
        let (log, size) = (a.u64(32), a.u32(28));
        if log != 0 && size > 0 {
            self.host.memory.write(log, &[0]);
        }
        Reply::Result(self.files.add(FileKind::Prog(self.bpf.progs.len() - 1)))
    }

    /// Answers BPF_OBJ_GET_INFO_BY_FD with the first fields of the info.
    fn info(&mut self, a: &Attributes) -> Reply {
        let (fd, len, addr) = (a.fd(0), a.u32(4) as usize, a.u64(8));
        let mut info = Vec::new();
        let mut put = |value: u32| info.extend_from_slice(&value.to_le_bytes());
        let name = match self.files.get(fd).map(|open| &open.kind) {
            Some(&FileKind::Map(at)) => {
                let map = &self.bpf.maps[at];
                for value in [
                    map.kind,
                    at as u32 + 1,
                    map.key_size,
                    map.value_size,
                    map.max_entries,
                    map.flags,
                ] {
                    put(value);
                }
                map.name.clone()
            }
            Some(&FileKind::Prog(at)) => {
                let prog = &self.bpf.progs[at];
                for value in [prog.kind, at as u32 + 1] {
                    put(value);
                }
                // tag, jited_prog_len, xlated_prog_len, jited_prog_insns, xlated_prog_insns, load_time,
                // created_by_uid, nr_map_ids, map_ids
                (0..14).for_each(|_| put(0));
                prog.name.clone()
            }
            Some(&FileKind::Link(at)) => {
                for value in [9, at as u32 + 1, 0] {
                    put(value);
                }
                String::new()
            }
            Some(FileKind::Btf) => {
                for value in [0, 0, 0, fd.cast_unsigned()] {
                    put(value);
                }
                String::new()
            }
            _ => return error(libc::EBADF),
        };
        info.extend_from_slice(name.as_bytes());
        info.resize(len.min(512), 0);
        if !self.host.memory.write(addr, &info) {
            return error(libc::EFAULT);
        }
        self.put(a.addr + 4, &(info.len() as u32).to_le_bytes(), 0)
    }

    /// Notes for edge-triggered waits that ring buffers may have new records.
    pub fn note_rings(&mut self) {
        let rings = &self.bpf.rings;
        for open in self.files.all_mut() {
            if let FileKind::Map(map) = open.kind
                && rings.get(map).is_some_and(Option::is_some)
            {
                open.events += 1;
            }
        }
    }

    /// Called when the last descriptor of a file is closed.
    pub fn closed(&mut self, m: &mut Machine, kind: &FileKind) {
        match *kind {
            FileKind::Link(at) => self.close_link(m, at),
            FileKind::Pipe { .. } => {
                self.files.close_ends(kind, true, true);
                self.wake_ready(m);
            }
            _ => {}
        }
    }
}
