// SPDX-License-Identifier: GPL-2.0-only
//! System calls that use files. `transfer` has those that read and write, and `path` those that find
//! and describe files.

mod path;
mod transfer;

use kernel::Machine;

use crate::answer::{Reply, error};
use crate::files::stat::stat;
use crate::files::{FileKind, Pipe, socket};
use crate::host::Call;
use crate::program::Program;

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
                self.add(
                    FileKind::Bytes {
                        bytes,
                        pos: 0,
                        sets: None,
                    },
                    0,
                )
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
