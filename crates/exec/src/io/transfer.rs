// SPDX-License-Identifier: GPL-2.0-only
//! System calls that transfer the bytes of files.

use kernel::Machine;

use crate::answer::{Reply, error};
use crate::files::epoll::{IN, OUT};
use crate::files::{FILE_BYTES, FileKind, PIPE_BYTES};
use crate::host::Call;
use crate::program::Program;

/// Largest number of bytes that one call reads or writes.
const CHUNK: u64 = 1 << 20;

impl Program {
    pub(super) fn read(
        &mut self,
        m: &mut Machine,
        t: usize,
        call: Call,
        parts: &[(u64, u64)],
        at: Option<u64>,
    ) -> Reply {
        let (fd, now) = (call.args[0] as i32, self.now(m));
        if self.files.is_host(fd) {
            return self.pass(t, call);
        }
        if let Some(reply) = self.run_iterator(m, fd) {
            return reply;
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

    pub(super) fn write(&mut self, m: &mut Machine, t: usize, fd: i32, parts: &[(u64, u64)]) -> Reply {
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
            &mut FileKind::Bytes { sets: Some(sets), .. } => {
                if !sets.write(m, &bytes) {
                    return error(libc::EINVAL);
                }
            }
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
    pub(super) fn vectors(&self, addr: u64, count: u64) -> Option<Vec<(u64, u64)>> {
        let words = self.host.memory.read(addr, 16 * count.min(1024) as usize)?;
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Some(
            words
                .chunks_exact(16)
                .map(|part| (word(part), word(&part[8..])))
                .collect(),
        )
    }

    pub(super) fn seek(&mut self, t: usize, call: Call) -> Reply {
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
}
