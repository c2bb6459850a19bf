// SPDX-License-Identifier: GPL-2.0-only
//! System calls that use files.

use kernel::Machine;

use crate::answer::{Reply, error};
use crate::files::epoll::{IN, OUT};
use crate::files::paths::At;
use crate::files::stat::{Mode, stat, statx};
use crate::files::{FILE_BYTES, FileKind, PIPE_BYTES, Pipe, socket};
use crate::host::Call;
use crate::program::Program;
use std::os::unix::ffi::OsStrExt;

/// Largest number of bytes that one call reads or writes.
const CHUNK: u64 = 1 << 20;

impl Program {
    /// Answers a call about files. Returns `None` if the call is none of these.
    pub fn file_call(&mut self, m: &mut Machine, t: usize, call: Call) -> Option<Reply> {
        let args = call.args;
        let fd = args[0] as i32;
        Some(match call.nr {
            libc::SYS_open => self.open(m, t, libc::AT_FDCWD, args[0], args[1]),
            libc::SYS_openat => self.open(m, t, fd, args[1], args[2]),
            libc::SYS_close => self.close(m, t, call),
            libc::SYS_read => self.read(m, t, call, &[(args[1], args[2])], None),
            libc::SYS_pread64 => self.read(m, t, call, &[(args[1], args[2])], Some(args[3])),
            libc::SYS_recvfrom => self.read(m, t, call, &[(args[1], args[2])], None),
            libc::SYS_write | libc::SYS_sendto => self.write(m, t, fd, &[(args[1], args[2])]),
            libc::SYS_readv | libc::SYS_writev => match self.vectors(args[1], args[2]) {
                None => error(libc::EFAULT),
                Some(parts) if call.nr == libc::SYS_readv => self.read(m, t, call, &parts, None),
                Some(parts) => self.write(m, t, fd, &parts),
            },
            libc::SYS_lseek => self.seek(t, call),
            libc::SYS_getdents64 => self.entries(fd, args[1], args[2]),
            libc::SYS_fstat => match self.mode_of(fd) {
                None if self.files.is_host(fd) => self.pass(t, call),
                None => error(libc::EBADF),
                Some((mode, size)) => self.put(args[1], &stat(mode, size), 0),
            },
            libc::SYS_newfstatat => self.stat_at(m, t, call, fd, args[1], args[2], args[3] as i32, false),
            libc::SYS_statx => self.stat_at(m, t, call, fd, args[1], args[4], args[2] as i32, true),
            libc::SYS_stat | libc::SYS_lstat => self.stat_at(m, t, call, libc::AT_FDCWD, args[0], args[1], 0, false),
            libc::SYS_access => self.access(m, libc::AT_FDCWD, args[0]),
            libc::SYS_faccessat | libc::SYS_faccessat2 => self.access(m, fd, args[1]),
            libc::SYS_readlink => self.read_link(libc::AT_FDCWD, args[0], args[1], args[2]),
            libc::SYS_readlinkat => self.read_link(fd, args[1], args[2], args[3]),
            libc::SYS_getcwd => {
                let mut path = std::env::current_dir()
                    .unwrap_or_default()
                    .into_os_string()
                    .into_encoded_bytes();
                path.push(0);
                match path.len() as u64 <= args[1] {
                    true => self.put(args[0], &path, path.len() as i64),
                    false => error(libc::ERANGE),
                }
            }
            libc::SYS_fcntl => self.fcntl(fd, args[1] as i32, args[2]),
            libc::SYS_dup => self.duplicate(m, fd, None),
            libc::SYS_dup2 | libc::SYS_dup3 => self.duplicate(m, fd, Some(args[1] as i32)),
            libc::SYS_ioctl => match self.files.get(fd) {
                None => error(libc::EBADF),
                Some(_) => error(libc::ENOTTY),
            },
            libc::SYS_eventfd => self.eventfd(args[0], 0),
            libc::SYS_eventfd2 => self.eventfd(args[0], args[1] as i32),
            libc::SYS_pipe => self.pipe(args[0], 0, false),
            libc::SYS_pipe2 => self.pipe(args[0], args[1] as i32, false),
            libc::SYS_socketpair => self.pipe(args[3], args[1] as i32, true),
            libc::SYS_timerfd_create => self.add(FileKind::Timer { next: None, period: 0 }, args[1] as i32),
            libc::SYS_timerfd_settime => self.set_timer(m, args),
            libc::SYS_timerfd_gettime => self.put(args[1], &[0; 32], 0),
            libc::SYS_signalfd4 | libc::SYS_inotify_init1 => self.add(FileKind::Silent, 0),
            libc::SYS_inotify_add_watch => Reply::Result(1),
            libc::SYS_memfd_create => {
                let bytes = Vec::new();
                self.add(FileKind::Bytes { bytes, pos: 0 }, 0)
            }
            libc::SYS_socket => {
                socket::create(fd).map_or(error(libc::EAFNOSUPPORT), |kind| self.add(kind, args[1] as i32))
            }
            libc::SYS_bind => self.bind(fd, args[1], args[2]),
            libc::SYS_setsockopt => Reply::Result(0),
            libc::SYS_listen => self.listen(fd),
            libc::SYS_connect => self.connect(m, fd, args[1], args[2]),
            libc::SYS_accept => self.accept(t, args, 0),
            libc::SYS_accept4 => self.accept(t, args, args[3] as i32),
            libc::SYS_shutdown => self.shutdown(m, fd, args[1] as i32),
            libc::SYS_getsockname => self.socket_name(fd, args[1], args[2]),
            libc::SYS_mkdir
            | libc::SYS_mkdirat
            | libc::SYS_chmod
            | libc::SYS_fchmod
            | libc::SYS_fchmodat
            | libc::SYS_chown
            | libc::SYS_fchown
            | libc::SYS_fchownat
            | libc::SYS_fsync
            | libc::SYS_flock
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fadvise64 => Reply::Result(0),
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => error(libc::ENOENT),
            libc::SYS_statfs | libc::SYS_fstatfs => {
                let mut bytes = [0u8; 120];
                // cgroup2, the file system that programs ask for.
                bytes[..8].copy_from_slice(&0x6367_7270u64.to_le_bytes());
                self.put(args[1], &bytes, 0)
            }
            _ => return None,
        })
    }

    /// Opens a file that the host does not know. `flags` may contain O_NONBLOCK, which has the same
    /// value for all kinds of files.
    pub fn add(&mut self, kind: FileKind, flags: i32) -> Reply {
        let fd = self.files.add(kind);
        if let Some(open) = self.files.get_mut(fd as i32) {
            open.nonblocking = flags & libc::O_NONBLOCK != 0;
        }
        Reply::Result(fd)
    }

    fn open(&mut self, m: &Machine, t: usize, dirfd: i32, addr: u64, flags: u64) -> Reply {
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

    fn close(&mut self, m: &mut Machine, t: usize, call: Call) -> Reply {
        let fd = call.args[0] as i32;
        let host = self.files.is_host(fd);
        match self.files.close(fd) {
            None => return error(libc::EBADF),
            Some(None) => {}
            Some(Some(kind)) => self.closed(m, &kind),
        }
        match host {
            true => self.pass(t, call),
            false => Reply::Result(0),
        }
    }

    fn read(&mut self, m: &mut Machine, t: usize, call: Call, parts: &[(u64, u64)], at: Option<u64>) -> Reply {
        let (fd, now) = (call.args[0] as i32, self.now(m));
        if self.files.is_host(fd) {
            return self.pass(t, call);
        }
        let most = parts.iter().map(|part| part.1).sum::<u64>().min(CHUNK) as usize;
        let Some(open) = self.files.get_mut(fd) else {
            return error(libc::EBADF);
        };
        let nonblocking = open.nonblocking;
        let bytes = match &mut open.kind {
            FileKind::Null => Vec::new(),
            FileKind::Bytes { bytes, pos, .. } => {
                let from = at.map_or(*pos, |at| at as usize).min(bytes.len());
                let end = bytes.len().min(from + most);
                if at.is_none() {
                    *pos = end;
                }
                bytes[from..end].to_vec()
            }
            FileKind::Event { count, semaphore } if *count > 0 => {
                let value = if *semaphore { 1 } else { *count };
                *count -= value;
                value.to_le_bytes().to_vec()
            }
            FileKind::Timer {
                next: Some(next),
                period,
            } if *next <= now => {
                let missed = (now - *next).checked_div(*period).unwrap_or(0);
                let after = *next + (missed + 1) * *period;
                let next_time = (*period > 0).then_some(after);
                if let FileKind::Timer { next, .. } = &mut open.kind {
                    *next = next_time;
                }
                (missed + 1).to_le_bytes().to_vec()
            }
            &mut FileKind::Pipe { read: Some(pipe), .. } => {
                let pipe = &mut self.files.pipes[pipe].bytes;
                let len = most.min(pipe.len());
                pipe.drain(..len).collect()
            }
            FileKind::Event { .. } | FileKind::Timer { .. } | FileKind::Silent => Vec::new(),
            FileKind::Dir { .. } => return error(libc::EISDIR),
            _ => return error(libc::EINVAL),
        };
        let waits = matches!(
            self.files.get(fd).map(|open| &open.kind),
            Some(FileKind::Event { .. } | FileKind::Timer { .. } | FileKind::Pipe { .. } | FileKind::Silent)
        );
        let ended = match self.files.get(fd).map(|open| &open.kind) {
            Some(&FileKind::Pipe { read: Some(pipe), .. }) => self.files.pipes[pipe].no_writer,
            _ => false,
        };
        if bytes.is_empty() && waits && most > 0 && !ended {
            return match nonblocking {
                true => error(libc::EAGAIN),
                false => self.wait_for_files(t, vec![(fd, IN)], None),
            };
        }
        let mut left = bytes.as_slice();
        for &(addr, len) in parts {
            let (part, rest) = left.split_at(left.len().min(len as usize));
            if !self.host.memory.write(addr, part) {
                return error(libc::EFAULT);
            }
            left = rest;
        }
        if waits {
            self.wake_ready(m);
        }
        Reply::Result(bytes.len() as i64)
    }

    fn write(&mut self, m: &mut Machine, t: usize, fd: i32, parts: &[(u64, u64)]) -> Reply {
        let mut bytes = Vec::new();
        for &(addr, len) in parts {
            let len = len.min(CHUNK - bytes.len() as u64) as usize;
            match self.host.memory.read(addr, len) {
                Some(part) => bytes.extend_from_slice(&part),
                None => return error(libc::EFAULT),
            }
        }
        let Some(open) = self.files.get_mut(fd) else {
            return error(libc::EBADF);
        };
        let nonblocking = open.nonblocking;
        match &mut open.kind {
            FileKind::Output => self.report.borrow_mut().print(&bytes),
            FileKind::Null => {}
            FileKind::Bytes {
                bytes: contents, pos, ..
            } => {
                let end = *pos + bytes.len();
                if end > FILE_BYTES {
                    return error(libc::EFBIG);
                }
                if contents.len() < end {
                    contents.resize(end, 0);
                }
                contents[*pos..end].copy_from_slice(&bytes);
                *pos = end;
            }
            FileKind::Event { count, .. } => {
                let Some(value) = bytes.first_chunk().map(|word| u64::from_le_bytes(*word)) else {
                    return error(libc::EINVAL);
                };
                *count = count.saturating_add(value).min(u64::MAX - 1);
                open.events += 1;
                self.wake_ready(m);
                return Reply::Result(8);
            }
            &mut FileKind::Pipe { write: Some(pipe), .. } => {
                let pipe_state = &mut self.files.pipes[pipe];
                if pipe_state.no_reader {
                    return error(libc::EPIPE);
                }
                let contents = &mut pipe_state.bytes;
                let room = PIPE_BYTES.saturating_sub(contents.len());
                if room == 0 {
                    return match nonblocking {
                        true => error(libc::EAGAIN),
                        false => self.wait_for_files(t, vec![(fd, OUT)], None),
                    };
                }
                bytes.truncate(room);
                contents.extend(&bytes);
                let readers = self.files.all_mut();
                for open in
                    readers.filter(|open| matches!(open.kind, FileKind::Pipe { read: Some(read), .. } if read == pipe))
                {
                    open.events += 1;
                }
                self.wake_ready(m);
            }
            _ => return error(libc::EINVAL),
        }
        Reply::Result(bytes.len() as i64)
    }

    /// Reads the parts of a struct iovec array.
    fn vectors(&self, addr: u64, count: u64) -> Option<Vec<(u64, u64)>> {
        let words = self.host.memory.read(addr, 16 * count.min(1024) as usize)?;
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Some(
            words
                .chunks_exact(16)
                .map(|part| (word(part), word(&part[8..])))
                .collect(),
        )
    }

    fn seek(&mut self, t: usize, call: Call) -> Reply {
        let [fd, offset, whence, ..] = call.args;
        let offset = offset.cast_signed();
        let (pos, len) = match self.files.get_mut(fd as i32).map(|open| &mut open.kind) {
            Some(FileKind::Host) => return self.pass(t, call),
            Some(FileKind::Bytes { bytes, pos, .. }) => (pos, bytes.len()),
            Some(FileKind::Dir { entries, pos, .. }) => (pos, entries.len()),
            Some(_) => return error(libc::ESPIPE),
            None => return error(libc::EBADF),
        };
        let base = match whence as i32 {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => *pos as i64,
            libc::SEEK_END => len as i64,
            _ => return error(libc::EINVAL),
        };
        match usize::try_from(base.saturating_add(offset)) {
            Ok(to) if to <= FILE_BYTES => {
                *pos = to;
                Reply::Result(to as i64)
            }
            _ => error(libc::EINVAL),
        }
    }

    /// Answers getdents64(2).
    fn entries(&mut self, fd: i32, addr: u64, most: u64) -> Reply {
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
    fn mode_of(&self, fd: i32) -> Option<(Mode, u64)> {
        Some(match &self.files.get(fd)?.kind {
            FileKind::Host => return None,
            FileKind::Bytes { bytes, .. } => (Mode::File, bytes.len() as u64),
            FileKind::Dir { .. } => (Mode::Dir, 0),
            FileKind::Null => (Mode::Device, 0),
            _ => (Mode::Pipe, 0),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of two system calls")]
    fn stat_at(
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

    fn access(&self, m: &Machine, dirfd: i32, path: u64) -> Reply {
        match self.path_at(dirfd, path) {
            None => error(libc::EFAULT),
            Some(path) => match self.find(m, &path) {
                At::Missing => error(libc::ENOENT),
                _ => Reply::Result(0),
            },
        }
    }

    fn read_link(&self, dirfd: i32, path: u64, to: u64, most: u64) -> Reply {
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

    fn fcntl(&mut self, fd: i32, command: i32, value: u64) -> Reply {
        let Some(open) = self.files.get_mut(fd) else {
            return error(libc::EBADF);
        };
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC if matches!(open.kind, FileKind::Host) => error(libc::EINVAL),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Reply::Result(self.files.duplicate(fd, value as i32, None).0),
            libc::F_GETFD => Reply::Result(libc::FD_CLOEXEC.into()),
            libc::F_GETFL => {
                let flags = if open.nonblocking { libc::O_NONBLOCK } else { 0 };
                Reply::Result(i64::from(libc::O_RDWR | flags))
            }
            libc::F_SETFL => {
                open.nonblocking = value as i32 & libc::O_NONBLOCK != 0;
                Reply::Result(0)
            }
            libc::F_SETFD | libc::F_SETLK | libc::F_SETLKW | libc::F_ADD_SEALS | libc::F_SETPIPE_SZ => Reply::Result(0),
            _ => error(libc::EINVAL),
        }
    }

    fn duplicate(&mut self, m: &mut Machine, fd: i32, exactly: Option<i32>) -> Reply {
        if self.files.is_host(fd) || exactly.is_some_and(|to| self.files.is_host(to)) {
            return error(libc::EINVAL);
        }
        let (to, closed) = self.files.duplicate(fd, 0, exactly);
        if let Some(kind) = closed {
            self.closed(m, &kind);
        }
        Reply::Result(to)
    }

    fn eventfd(&mut self, count: u64, flags: i32) -> Reply {
        let semaphore = flags & libc::EFD_SEMAPHORE != 0;
        let count = count & 0xffff_ffff;
        self.add(FileKind::Event { count, semaphore }, flags)
    }

    /// Creates a pipe, or a pair of sockets, of which each end can be read and written.
    fn pipe(&mut self, addr: u64, flags: i32, pair: bool) -> Reply {
        let ends = if pair {
            self.files.connection()
        } else {
            let pipe = Some(self.files.pipes.len());
            self.files.pipes.push(Pipe::default());
            let (reader, writer) = ((pipe, None), (None, pipe));
            [reader, writer].map(|(read, write)| FileKind::Pipe { read, write })
        };
        let mut bytes = Vec::new();
        for end in ends {
            match self.add(end, flags) {
                Reply::Result(fd @ 0..) => bytes.extend_from_slice(&(fd as i32).to_le_bytes()),
                other => return other,
            }
        }
        self.put(addr, &bytes, 0)
    }

    fn set_timer(&mut self, m: &mut Machine, args: [u64; 6]) -> Reply {
        let [fd, flags, new, old, ..] = args;
        let now = self.now(m);
        let (period, first) = match (self.read_time(new), self.read_time(new + 16)) {
            (Some(Ok(period)), Some(Ok(first))) => (period, first),
            (Some(Err(reply)), _) | (_, Some(Err(reply))) => return reply,
            _ => return error(libc::EFAULT),
        };
        if old != 0 {
            self.host.memory.write(old, &[0; 32]);
        }
        let absolute = flags as i32 & libc::TFD_TIMER_ABSTIME != 0;
        let Some(open) = self.files.get_mut(fd as i32) else {
            return error(libc::EBADF);
        };
        let FileKind::Timer {
            next,
            period: old_period,
        } = &mut open.kind
        else {
            return error(libc::EINVAL);
        };
        *old_period = period;
        *next = (first > 0).then(|| if absolute { first } else { now + first });
        open.events += 1;
        self.wake_for_timers(m);
        Reply::Result(0)
    }
}
