// SPDX-License-Identifier: GPL-2.0-only
//! System calls that find files by their paths, and describe files and directories.

use kernel::Machine;

use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::files::paths::At;
use crate::files::stat::{Mode, stat, statx};
use crate::host::Call;
use crate::program::Program;
use std::os::unix::ffi::OsStrExt;

impl Program {
    pub(super) fn open(&mut self, m: &Machine, t: usize, dirfd: i32, addr: u64, flags: u64) -> Reply {
        let Some(path) = self.path_at(dirfd, addr) else {
            return error(libc::EFAULT);
        };
        let flags = flags as i32;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        match self.find(m, &path) {
            At::Own(FileKind::Dir { .. }) if writes => error(libc::EISDIR),
            // The program may open its own files for writing, but what it writes has no effect.
            At::Own(kind) => self.add(kind, flags),
            At::Host(_) if writes => error(libc::EACCES),
            At::Host(path) => self.open_host(t, path.as_os_str().as_bytes()),
            At::Missing if flags & libc::O_CREAT != 0 => error(libc::EACCES),
            At::Missing => error(libc::ENOENT),
        }
    }

    /// Opens a file of the host for reading. The path is written below the stack of the thread,
    /// where it does no harm.
    fn open_host(&mut self, t: usize, path: &[u8]) -> Reply {
        let tid = self.threads[t].tid;
        let at = match self.host.scratch(tid) {
            Ok(at) => at,
            Err(error) => return error.into(),
        };
        if !self.host.memory.write(at, &[path, &[0]].concat()) {
            return error(libc::EFAULT);
        }
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
        let call = Call {
            nr: libc::SYS_openat,
            args: [libc::AT_FDCWD as u64, at, flags, 0, 0, 0],
        };
        match self.host.execute(tid, call) {
            Err(error) => error.into(),
            Ok(fd) => {
                if let Ok(fd @ 0..) = i32::try_from(fd) {
                    self.files.add_host(fd);
                }
                Reply::Result(fd)
            }
        }
    }

    /// Answers getdents64(2).
    pub(super) fn entries(&mut self, fd: i32, addr: u64, most: u64) -> Reply {
        let Some(FileKind::Dir { entries, pos, .. }) = self.files.get_mut(fd).map(|open| &mut open.kind) else {
            return error(libc::ENOTDIR);
        };
        let mut bytes: Vec<u8> = Vec::new();
        while let Some((name, is_dir)) = entries.get(*pos) {
            let len = (19 + name.len() + 1).next_multiple_of(8);
            if bytes.len() + len > most as usize {
                break;
            }
            *pos += 1;
            let start = bytes.len();
            bytes.extend_from_slice(&(*pos as u64).to_le_bytes());
            bytes.extend_from_slice(&(*pos as u64).to_le_bytes());
            bytes.extend_from_slice(&(len as u16).to_le_bytes());
            bytes.push(if *is_dir { libc::DT_DIR } else { libc::DT_REG });
            bytes.extend_from_slice(name.as_bytes());
            bytes.resize(start + len, 0);
        }
        let len = bytes.len() as i64;
        self.put(addr, &bytes, len)
    }

    /// Returns the kind and the size of an open file that the host does not know.
    pub(super) fn mode_of(&self, fd: i32) -> Option<(Mode, u64)> {
        Some(match &self.files.get(fd)?.kind {
            FileKind::Host => return None,
            FileKind::Bytes { bytes, .. } => (Mode::File, bytes.len() as u64),
            FileKind::Dir { .. } => (Mode::Dir, 0),
            FileKind::Null => (Mode::Device, 0),
            _ => (Mode::Pipe, 0),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of two system calls")]
    pub(super) fn stat_at(
        &mut self,
        m: &Machine,
        t: usize,
        call: Call,
        dirfd: i32,
        path: u64,
        to: u64,
        flags: i32,
        x: bool,
    ) -> Reply {
        let put = |program: &Program, mode: Mode, size: u64| match x {
            true => program.put(to, &statx(mode, size), 0),
            false => program.put(to, &stat(mode, size), 0),
        };
        let empty = path == 0 || self.host.memory.text(path).is_some_and(|path| path.is_empty());
        if empty && flags & libc::AT_EMPTY_PATH != 0 {
            return match self.mode_of(dirfd) {
                None if self.files.is_host(dirfd) => self.pass(t, call),
                None => error(libc::EBADF),
                Some((mode, size)) => put(self, mode, size),
            };
        }
        let Some(path) = self.path_at(dirfd, path) else {
            return error(libc::EFAULT);
        };
        match self.find(m, &path) {
            At::Own(FileKind::Dir { .. }) => put(self, Mode::Dir, 0),
            At::Own(FileKind::Bytes { bytes, .. }) => put(self, Mode::File, bytes.len() as u64),
            At::Own(_) => put(self, Mode::Device, 0),
            At::Host(real) => put(self, Mode::File, real.metadata().map_or(0, |data| data.len())),
            At::Missing => error(libc::ENOENT),
        }
    }

    pub(super) fn access(&self, m: &Machine, dirfd: i32, path: u64) -> Reply {
        match self.path_at(dirfd, path) {
            None => error(libc::EFAULT),
            Some(path) => match self.find(m, &path) {
                At::Missing => error(libc::ENOENT),
                _ => Reply::Result(0),
            },
        }
    }

    pub(super) fn read_link(&self, dirfd: i32, path: u64, to: u64, most: u64) -> Reply {
        let pid = self.threads[0].pid;
        match self.path_at(dirfd, path) {
            None => error(libc::EFAULT),
            Some(path) if path == "/proc/self/exe" || path == format!("/proc/{pid}/exe") => {
                let target = self.path.as_os_str().as_bytes();
                let target = &target[..target.len().min(most as usize)];
                self.put(to, target, target.len() as i64)
            }
            Some(_) => error(libc::EINVAL),
        }
    }
}
