// SPDX-License-Identifier: GPL-2.0-only
//! Links the object, runs programs of type syscall, and attaches the scheduler.

use input::Error;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use kernel::Machine;
use kernel::ext::{Callback, OpsTable};
use kernel::load::{self, LoadError};
use profile::Profile;

use super::maps::STRUCT_OPS;
use super::{Attributes, Bpf, MOST, Member, NAME_LEN};
use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::program::{Deferred, Program};
use crate::wait::Wait;
use ::bpf::map::kind;
use ::bpf::memory::SharedFile;
use ::bpf::object::{Object, Program as BpfProgram, ProgramKind};

/// Offset of the callbacks in the value of a map of type STRUCT_OPS.
const CALLBACKS: usize = 64;
/// Largest context of a program of type syscall, bytes (U16_MAX).
const CONTEXT: u32 = 65_535;

/// A link, which keeps a program or the scheduler attached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The map of type STRUCT_OPS that the link attaches.
    pub map: Option<usize>,
    /// The program that it attaches.
    pub prog: Option<usize>,
}

/// Returns whether a name that libbpf has shortened stands for the whole name.
pub(crate) fn is_name(short: &str, whole: &str) -> bool {
    match short.len() < NAME_LEN - 1 {
        true => short == whole,
        false => whole.starts_with(short),
    }
}

impl Bpf {
    /// Returns the object that has all maps and programs that the program has created.
    pub(crate) fn object(&self) -> Option<&Object> {
        self.objects.get(self.object_index()?)
    }

    pub(super) fn object_index(&self) -> Option<usize> {
        let fits = |object: &&Object| {
            let has_map = |map: &super::Map| {
                map.is_section() || map.kind == STRUCT_OPS || object.maps().any(|def| is_name(&map.name, &def.name))
            };
            let callbacks = self.own_maps().iter().filter(|map| map.kind == STRUCT_OPS);
            let maps = self
                .own_maps()
                .iter()
                .filter(|map| !map.name.is_empty() && !map.name.starts_with("libbpf"));
            callbacks.count() > 0 && maps.clone().count() > 0 && maps.clone().all(has_map)
        };
        let found = self.objects.iter().position(|object| fits(&object));
        found.or((!self.objects.is_empty()).then_some(0))
    }

    /// Returns a member of the table of callbacks in a map of type STRUCT_OPS, as the program has set
    /// it: a number, or 0 for a missing callback. `None` means that the program has not set the table.
    pub(crate) fn callback(&self, map: usize, member: &str) -> Option<u64> {
        let members = if self.cid { &self.cid_members } else { &self.members };
        let member = members.iter().find(|known| known.name == member)?;
        let bytes = self.maps[map].callbacks.get(CALLBACKS..)?;
        let word = bytes.get(member.offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*word))
    }

    /// Returns the section of globals that a map holds. libbpf shortens the object's name, and not
    /// that of the section, unless the section's name alone is too long.
    fn section<'o>(&self, object: &'o Object, map: &super::Map) -> Option<&'o str> {
        let at = map.name.find('.')?;
        let suffix = &map.name[at..];
        let long = map.name.len() >= NAME_LEN - 1;
        let names = || object.data_sections().map(|(name, _)| name);
        let exact = names().find(|&name| name == suffix);
        exact.or_else(|| names().find(|name| long && name.starts_with(suffix)))
    }

    /// Returns the program of the object that was loaded as `at`.
    pub(super) fn program(&self, at: usize) -> Option<&BpfProgram> {
        let loaded = &self.progs[at];
        let named = self.image()?.programs.iter();
        named
            .filter(|program| is_name(&loaded.name, &program.name))
            .nth(loaded.nth)
    }
}

impl Program {
    /// Links the object, if that has not happened yet. Afterwards its maps and programs exist in the
    /// machine.
    pub(super) fn link(&mut self, m: &mut Machine) -> Result<(), i32> {
        if self.bpf.image.is_some() {
            return Ok(());
        }
        match self.try_link(m) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.fail(m, error);
                Err(libc::EINVAL)
            }
        }
    }

    fn try_link(&mut self, m: &mut Machine) -> Result<(), Error> {
        let mut object = self.bpf.object().cloned().ok_or("the program has no object")?;
        let mut sections = Vec::new();
        let first = self.bpf.first_map;
        for map in &mut self.bpf.maps[first..] {
            let name = object
                .maps()
                .map(|def| &def.name)
                .find(|name| is_name(&map.name, name))
                .cloned();
            map.linked = name;
        }
        for (at, map) in self.bpf.maps.iter().enumerate().skip(first) {
            if let Some(name) = &map.linked {
                object.set_max_entries(name, map.max_entries).map_err(Error::new)?;
                object.set_value_size(name, map.value_size).map_err(Error::new)?;
            } else if let (true, Some(offset)) = (map.is_section(), map.shared)
                && let Some(section) = self.bpf.section(&object, map).map(str::to_owned)
            {
                let mut bytes = vec![0; map.value_size as usize];
                let read = self.shared_file.read_exact_at(&mut bytes, offset);
                read.map_err(|error| format!("the shared memory: {error}"))?;
                object.set_section(&section, &bytes);
                sections.push((section, at));
            }
        }
        let profile = self.profile(&object);
        let engine = self.settings.engine;
        let (image, cid) = match load::install(m, &object, &profile, engine) {
            Ok(installed) => installed,
            Err(LoadError::Refused(exit)) => return Err(self.refused(exit).into()),
            Err(LoadError::Input(error)) => return Err(Error::new(error)),
        };
        let recorded = sections.clone();
        for (section, at) in sections {
            let found = image.sections.iter().find(|known| known.name == section);
            if let (Some(found), Some(file)) = (found, self.shared_part(at)) {
                // SAFETY: the file keeps its size. The program shares its pages as it does with a
                // kernel, and does not run while the simulation uses them.
                unsafe { m.region().share(found.addr, found.size, file) }.map_err(Error::new)?;
            }
        }
        let mut report = self.report.borrow_mut();
        if !self.bpf.is_again() {
            report.warnings.extend(image.warnings.iter().cloned());
        }
        report.image = Some(image.clone());
        drop(report);
        self.bpf.image = Some(image);
        self.bpf.cid = cid;
        if !self.bpf.is_again() {
            self.record_start(&recorded);
        }
        for at in first..self.bpf.maps.len() {
            let map = &self.bpf.maps[at];
            let linked = map.linked.as_deref().and_then(|name| m.ext().vm().map_by_name(name));
            if let (Some(linked), Some(file)) = (linked, self.shared_part(at)) {
                // SAFETY: as above.
                unsafe { linked.share(m.region(), file) }.map_err(Error::new)?;
            }
            for (key, value, flags) in std::mem::take(&mut self.bpf.maps[at].pending) {
                self.update_linked(m, at, &key, &value, flags);
            }
        }
        Ok(())
    }

    /// Returns the part of the shared memory that belongs to a map.
    fn shared_part(&self, at: usize) -> Option<SharedFile> {
        let offset = self.bpf.maps[at].shared?;
        Some(SharedFile {
            fd: self.shared_file.as_raw_fd(),
            offset,
        })
    }

    /// Returns what the program has chosen before it loaded the object: the table of callbacks, and
    /// the programs that it has not loaded.
    fn profile(&self, object: &Object) -> Profile {
        let callbacks = self.bpf.own_maps().iter().find(|map| map.kind == STRUCT_OPS);
        let loaded = |name: &str| self.bpf.own_progs().iter().any(|prog| is_name(&prog.name, name));
        let detach = object.program_names().filter(|name| !loaded(name));
        Profile {
            struct_ops: callbacks.map(|map| map.name.clone()).unwrap_or_default(),
            detach: detach.map(str::to_owned).collect(),
            inner_maps: object
                .maps()
                .filter(|map| matches!(map.kind, kind::ARRAY_OF_MAPS | kind::HASH_OF_MAPS))
                .map(|map| map.name.clone())
                .collect(),
            ..Profile::default()
        }
    }

    /// Records the kernel's reason to refuse the policy, and returns it.
    fn refused(&mut self, exit: Box<kernel::ext::Exit>) -> String {
        let message = exit.to_string();
        self.report.borrow_mut().refused_policy = Some(exit);
        message
    }

    /// Runs a program of type syscall (BPF_PROG_TEST_RUN).
    pub(super) fn run_program(&mut self, m: &mut Machine, a: &Attributes) -> Reply {
        let Some(&FileKind::Prog(at)) = self.files.get(a.fd(0)).map(|open| &open.kind) else {
            return error(libc::EBADF);
        };
        // Before the object exists, libbpf tests with such calls what the kernel can do.
        if self.bpf.progs[at].name.starts_with("libbpf") {
            return error(libc::EOPNOTSUPP);
        }
        if let Err(errno) = self.link(m) {
            return error(errno);
        }
        let (size, addr) = (a.u32(40), a.u64(48));
        if size > CONTEXT {
            return error(libc::EINVAL);
        }
        let Some(program) = self
            .bpf
            .program(at)
            .filter(|program| program.kind == ProgramKind::Syscall)
        else {
            return error(libc::EOPNOTSUPP);
        };
        let Some(mut context) = self.host.memory.read(addr, size as usize) else {
            return error(libc::EFAULT);
        };
        // A program without a context gets a word, which it does not read.
        let given = context.len();
        context.resize(given.max(8), 0);
        let program = program.clone();
        self.record_stores();
        let given_context = context[..given].to_vec();
        match kernel::tracepoint::run_syscall_program(m, &program, &mut context) {
            Ok(value) => {
                self.record_run(&program.name, &given_context, value);
                let written = self.host.memory.write(addr, &context[..given]);
                match written {
                    true => self.put(a.addr + 4, &value.to_le_bytes(), 0),
                    false => error(libc::EFAULT),
                }
            }
            Err(error) => Reply::Fail(error.to_string()),
        }
    }

    /// Creates a link (BPF_LINK_CREATE). If it attaches the scheduler, the thread waits until the
    /// scheduler is enabled.
    pub(super) fn create_link(&mut self, m: &mut Machine, t: usize, a: &Attributes) -> Reply {
        let pid = self.threads[t].pid;
        let map = match self.files.get(a.fd(0)).map(|open| &open.kind) {
            Some(&FileKind::Map(map)) => map,
            Some(FileKind::Prog(_)) => return self.attach_tracing(a.fd(0)),
            _ => return error(libc::EBADF),
        };
        if self.threads[t].wait == Some(Wait::Deferred) {
            return match self.results.remove(&pid) {
                None => Reply::Wait(None),
                Some(0) => Reply::Result(self.files.add(FileKind::Link(self.bpf.links.len() - 1))),
                Some(errno) => Reply::Result(errno),
            };
        }
        if self.bpf.maps[map].kind != STRUCT_OPS {
            return error(libc::EINVAL);
        }
        if let Err(errno) = self.link(m) {
            return error(errno);
        }
        if self.bpf.links.len() >= MOST {
            return error(libc::ENOMEM);
        }
        self.bpf.links.push(Link {
            map: Some(map),
            prog: None,
        });
        let link = self.bpf.links.len() - 1;
        self.threads[t].wait = Some(Wait::Deferred);
        self.defer(m, Deferred::Attach { link, pid });
        Reply::Wait(None)
    }

    /// Attaches a tracing program, which is attached since the object was linked, or an iterator.
    pub(super) fn attach_tracing(&mut self, prog: i32) -> Reply {
        let Some(&FileKind::Prog(prog)) = self.files.get(prog).map(|open| &open.kind) else {
            return error(libc::EBADF);
        };
        if self.bpf.links.len() >= MOST {
            return error(libc::ENOMEM);
        }
        self.bpf.links.push(Link {
            map: None,
            prog: Some(prog),
        });
        Reply::Result(self.files.add(FileKind::Link(self.bpf.links.len() - 1)))
    }

    /// Enables the scheduler of a link for the thread `pid`. Returns 0 or a negative error number.
    pub fn attach(&mut self, m: &mut Machine, link: usize, pid: u32) -> i64 {
        let Some(map) = self.bpf.links[link].map else {
            return -i64::from(libc::EINVAL);
        };
        self.record_attach(map, pid);
        let Some(image) = self.bpf.image.take() else {
            return -i64::from(libc::EINVAL);
        };
        let (cid, bpf) = (self.bpf.cid, &self.bpf);
        let members = if cid { &bpf.cid_members } else { &bpf.members };
        let callbacks = &bpf.maps[map].callbacks;
        let enabled = load::enable(m, &image, cid, |ops| change_ops(ops, members, callbacks, cid));
        self.bpf.image = Some(image);
        (self.bpf.attached, self.bpf.own_attached) = (true, true);
        match enabled {
            Ok(()) => 0,
            Err(LoadError::Refused(exit)) => {
                let message = self.refused(exit);
                self.fail(m, message);
                -i64::from(libc::EINVAL)
            }
            Err(LoadError::Input(error)) => {
                self.fail(m, error);
                -i64::from(libc::EINVAL)
            }
        }
    }

    /// Detaches a link (BPF_LINK_DETACH). The thread waits until the scheduler is disabled.
    pub(super) fn detach_link(&mut self, m: &mut Machine, t: usize, fd: i32) -> Reply {
        let Some(&FileKind::Link(at)) = self.files.get(fd).map(|open| &open.kind) else {
            return error(libc::EBADF);
        };
        let pid = self.threads[t].pid;
        if self.threads[t].wait == Some(Wait::Deferred) {
            return self.results.remove(&pid).map_or(Reply::Wait(None), Reply::Result);
        }
        if self.bpf.links[at].map.take().is_none() {
            return Reply::Result(0);
        }
        self.threads[t].wait = Some(Wait::Deferred);
        self.defer(m, Deferred::Detach { pid });
        Reply::Wait(None)
    }

    /// Called when the last descriptor of a link is closed.
    pub(super) fn close_link(&mut self, m: &mut Machine, at: usize) {
        if self.bpf.links[at].map.take().is_some() {
            self.defer(m, Deferred::Detach { pid: 0 });
        }
    }
}

/// Applies to a table of callbacks what the program has changed in its own copy of the table.
fn change_ops(ops: &mut OpsTable, members: &[Member], value: &[u8], cid: bool) {
    let Some(bytes) = value.get(CALLBACKS..) else {
        // The program has not passed its copy, so the table is that of the object.
        return;
    };
    let word = |at: usize| {
        bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |word| u64::from_le_bytes(*word))
    };
    let short = |at: usize| word(at) as u32;
    for Member { name, offset } in members {
        let offset = *offset;
        match name.as_str() {
            "flags" => ops.flags = word(offset),
            "timeout_ms" => ops.timeout_ms = short(offset),
            "exit_dump_len" => ops.exit_dump_len = short(offset),
            "dispatch_max_batch" => ops.dispatch_max_batch = short(offset),
            "hotplug_seq" => ops.hotplug_seq = word(offset),
            "cid_shard_size" => ops.cid_shard_size = short(offset),
            "rescue_bandwidth_ppt" => ops.rescue_bandwidth_ppt = short(offset),
            "rescue_quantum_us" => ops.rescue_quantum_us = short(offset),
            "sub_cgroup_id" => ops.sub_cgroup_id = word(offset),
            "name" => {
                let text = bytes.get(offset..offset + 128).unwrap_or_default();
                let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
                ops.set_name(&String::from_utf8_lossy(text));
            }
            name => {
                let op = if cid {
                    Callback::by_cid_name(name)
                } else {
                    Callback::by_name(name)
                };
                if let Some(op) = op.filter(|_| word(offset) == 0) {
                    ops.remove(op);
                }
            }
        }
    }
}
