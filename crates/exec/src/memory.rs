// SPDX-License-Identifier: GPL-2.0-only
//! System calls about memory. The host executes them, unless they map a file that the host does not
//! know. Memory that the program shares with BPF programs lies in one file.

use crate::answer::{Reply, error};
use crate::files::FileKind;
use crate::host::{Call, SHARED_FD};
use crate::program::Program;
use ::bpf::map::kind;
use ::bpf::memory::PAGE;

/// Largest number of bytes of shared memory, 200 GiB. Only the pages that are used take memory.
const MOST: u64 = 200 << 30;
const PROTECTIONS: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;

/// Distributes the file with the shared memory among maps.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory {
    next: u64,
}

impl SharedMemory {
    /// Returns the offset of `bytes` new bytes, which are zeros.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let at = self.next;
        let next = at.checked_add(bytes.max(1).checked_next_multiple_of(PAGE)?)?;
        (next <= MOST).then(|| {
            self.next = next;
            at
        })
    }
}

impl Program {
    /// Answers mmap(2).
    pub fn mmap(&mut self, t: usize, call: Call) -> Reply {
        let [_, len, prot, flags, fd, offset] = call.args;
        let fd = fd as i32;
        if flags as i32 & libc::MAP_ANONYMOUS != 0 {
            // Memory without a file is private, because only private memory is limited.
            let mut call = call;
            call.args[3] = flags & !(libc::MAP_TYPE as u64) | libc::MAP_PRIVATE as u64;
            return self.pass(t, call);
        }
        match self.files.get(fd).map(|open| &open.kind) {
            Some(FileKind::Host) if flags as i32 & libc::MAP_TYPE == libc::MAP_PRIVATE => self.pass(t, call),
            Some(FileKind::Bytes { bytes, .. }) => {
                let from = (offset as usize).min(bytes.len());
                let bytes = bytes[from..bytes.len().min(from + len as usize)].to_vec();
                self.map_copy(t, call, &bytes)
            }
            Some(&FileKind::Map(map)) => self.map_map(t, call, map, prot & PROTECTIONS),
            Some(FileKind::Silent | FileKind::Socket(_) | FileKind::Output) => error(libc::ENODEV),
            Some(_) => error(libc::EACCES),
            None => error(libc::EBADF),
        }
    }

    /// Maps a copy of the contents of a file.
    fn map_copy(&mut self, t: usize, call: Call, bytes: &[u8]) -> Reply {
        let tid = self.threads[t].tid;
        let [addr, len, _, flags, ..] = call.args;
        let flags = (flags as i32 & libc::MAP_FIXED) | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let args = [addr, len, PROTECTIONS, flags as u64, u64::MAX, 0];
        match self.host.execute(tid, Call { args, ..call }) {
            Err(error) => error.into(),
            Ok(result @ ..0) => Reply::Result(result),
            Ok(addr) => {
                self.host.memory.write(addr.cast_unsigned(), bytes);
                Reply::Result(addr)
            }
        }
    }

    /// Maps the memory of a map.
    fn map_map(&mut self, t: usize, call: Call, map: usize, prot: u64) -> Reply {
        let [addr, len, _, flags, _, offset] = call.args;
        let known = &self.bpf.maps[map];
        let Some(at) = known.shared else {
            return error(libc::ENODEV);
        };
        let len = len.next_multiple_of(PAGE);
        let fixed = flags as i32 & libc::MAP_FIXED;
        match known.kind {
            kind::ARENA => {
                let Some(addr) = known.arena_address.filter(|_| offset == 0) else {
                    return error(libc::EINVAL);
                };
                // The program gets the addresses that BPF programs use.
                self.map_shared(t, addr, len, prot, libc::MAP_FIXED, at)
            }
            kind::RINGBUF | kind::USER_RINGBUF => {
                let data = known.shared_bytes - 2 * PAGE;
                if offset > PAGE || offset + len > 2 * PAGE + 2 * data {
                    return error(libc::EINVAL);
                }
                let once = (2 * PAGE + data - offset).min(len);
                if once == len {
                    return self.map_shared(t, addr, len, prot, fixed, at + offset);
                }
                // The data is mapped twice, the second time behind the first.
                self.map_ring(t, len, once, prot, at + offset)
            }
            _ if offset + len <= known.shared_bytes.next_multiple_of(PAGE) => {
                self.map_shared(t, addr, len, prot, fixed, at + offset)
            }
            _ => error(libc::EINVAL),
        }
    }

    /// Maps a part of a ring buffer and, behind it, the data once more. `at` is the offset of the
    /// position of the producer in the file, which has `once` bytes from there.
    fn map_ring(&mut self, t: usize, len: u64, once: u64, prot: u64, at: u64) -> Reply {
        let tid = self.threads[t].tid;
        let reserve = Call {
            nr: libc::SYS_mmap,
            args: [
                0,
                len,
                0,
                (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as u64,
                u64::MAX,
                0,
            ],
        };
        let start = match self.host.execute(tid, reserve) {
            Err(error) => return error.into(),
            Ok(result @ ..0) => return Reply::Result(result),
            Ok(start) => start.cast_unsigned(),
        };
        let first = self.map_shared(t, start, once, prot, libc::MAP_FIXED, at);
        if !matches!(first, Reply::Result(0..)) {
            return first;
        }
        let second = self.map_shared(t, start + once, len - once, prot, libc::MAP_FIXED, at + PAGE);
        match second {
            Reply::Result(0..) => Reply::Result(start.cast_signed()),
            other => other,
        }
    }

    fn map_shared(&mut self, t: usize, addr: u64, len: u64, prot: u64, flags: i32, offset: u64) -> Reply {
        let flags = (flags | libc::MAP_SHARED) as u64;
        let call = Call {
            nr: libc::SYS_mmap,
            args: [addr, len, prot, flags, SHARED_FD as u64, offset],
        };
        self.pass(t, call)
    }

    /// Answers mprotect(2) and the like: the host executes the call.
    pub fn pass(&mut self, t: usize, call: Call) -> Reply {
        match self.host.execute(self.threads[t].tid, call) {
            Ok(result) => Reply::Result(result),
            Err(error) => error.into(),
        }
    }
}
