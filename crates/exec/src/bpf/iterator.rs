// SPDX-License-Identifier: GPL-2.0-only
//! BPF iterators: programs that write a text or data about each task, when a file is read.

use kernel::Machine;

use crate::answer::{Reply, error};
use crate::files::{FILE_BYTES, FileKind};
use crate::program::Program;
use ::bpf::object::ProgramKind;

impl Program {
    /// Creates the file of an iterator (BPF_ITER_CREATE), whose program a link has attached.
    pub(super) fn create_iterator(&mut self, link: i32) -> Reply {
        let Some(&FileKind::Link(link)) = self.files.get(link).map(|open| &open.kind) else {
            return error(libc::EBADF);
        };
        match self.bpf.links[link].prog {
            Some(prog) => Reply::Result(self.files.add(FileKind::Iterator(prog))),
            None => error(libc::EINVAL),
        }
    }

    /// Runs an iterator at the first read of its file, which then has its output. Returns a reply if
    /// that fails, and `None` for all other files.
    pub(crate) fn run_iterator(&mut self, m: &mut Machine, fd: i32) -> Option<Reply> {
        let &FileKind::Iterator(prog) = &self.files.get(fd)?.kind else {
            return None;
        };
        if let Err(errno) = self.link(m) {
            return Some(error(errno));
        }
        let program = self.bpf.program(prog);
        let Some(program) = program.filter(|program| program.kind == ProgramKind::Iter).cloned() else {
            return Some(error(libc::EINVAL));
        };
        let bytes = match kernel::iterator::read(m, &program) {
            Ok(bytes) => bytes,
            Err(error) => return Some(Reply::Fail(error.to_string())),
        };
        if bytes.len() > FILE_BYTES {
            return Some(error(libc::EFBIG));
        }
        if let Some(open) = self.files.get_mut(fd) {
            open.kind = FileKind::Bytes {
                bytes,
                pos: 0,
                sets: None,
            };
        }
        None
    }
}
