// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes the memory of the program.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Longest text that a system call takes as an argument (PATH_MAX).
const LONGEST_TEXT: usize = 4096;

/// The memory of a stopped process.
pub(crate) struct Memory {
    pid: i32,
    /// /proc/PID/mem, for stores to pages that the program itself cannot write.
    file: Option<File>,
}

impl Memory {
    pub fn new(pid: i32) -> Memory {
        let path = format!("/proc/{pid}/mem");
        let file = File::options().read(true).write(true).open(path).ok();
        Memory { pid, file }
    }

    /// Fills `bytes` from an address. Returns false if a part of the memory cannot be read.
    pub fn read_into(&self, addr: u64, bytes: &mut [u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let remote = libc::iovec {
            iov_base: addr as *mut libc::c_void,
            iov_len: bytes.len(),
        };
        // SAFETY: the local memory is valid for writing, and the kernel checks the remote one.
        let got = unsafe { libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0) };
        usize::try_from(got) == Ok(bytes.len())
    }

    /// Returns `len` bytes from an address, or `None` if they cannot be read.
    pub fn read(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_into(addr, &mut bytes).then_some(bytes)
    }

    pub fn read_u32(&self, addr: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read_into(addr, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    pub fn read_u64(&self, addr: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read_into(addr, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Returns the text at an address, up to a zero byte.
    pub fn text(&self, addr: u64) -> Option<String> {
        let mut text = Vec::new();
        while text.len() < LONGEST_TEXT {
            let at = addr.checked_add(text.len() as u64)?;
            // A read must not reach into the next page, which may be missing.
            let len = 256.min(4096 - (at % 4096) as usize);
            let part = self.read(at, len)?;
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&part[..end]);
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            text.extend_from_slice(&part);
        }
        None
    }

    /// Writes bytes to an address. Returns false if a part of the memory does not exist.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let file = self.file.as_ref();
        file.is_some_and(|file| file.write_all_at(bytes, addr).is_ok())
    }
}
