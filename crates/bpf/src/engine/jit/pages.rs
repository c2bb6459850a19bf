// SPDX-License-Identifier: GPL-2.0-only
//! Memory for the machine code of one program.
//!
//! All code lies in one contiguous mapping, so that relative calls reach every function and the
//! program uses one memory mapping of the host.

use std::io;

use cranelift_jit::{BranchProtection, JITMemoryKind, JITMemoryProvider};
use cranelift_module::{ModuleError, ModuleResult};

use crate::memory::PAGE;

/// Pages that are writable until the code is complete, and executable afterwards.
pub(super) struct Pages {
    start: *mut u8,
    /// Number of reserved bytes.
    size: usize,
    used: usize,
}

// SAFETY: only this value owns the pages.
unsafe impl Send for Pages {}

impl Pages {
    /// Reserves address space. The host allocates memory only when the pages are written.
    pub fn reserve(bytes: usize) -> io::Result<Pages> {
        let size = bytes.max(1).next_multiple_of(PAGE as usize);
        // SAFETY: this is a new mapping, at an address that the host chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match start {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Pages {
                start: start.cast(),
                size,
                used: 0,
            }),
        }
    }

    /// Unmaps the pages after the first `size` bytes. `size` is a multiple of the page size.
    fn shrink(&mut self, size: usize) {
        if size < self.size {
            // SAFETY: this part of the mapping is unused.
            unsafe { libc::munmap(self.start.add(size).cast(), self.size - size) };
            self.size = size;
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

impl JITMemoryProvider for Pages {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        if !matches!(kind, JITMemoryKind::Executable) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "compiled code has no data"));
        }
        let at = self.used.next_multiple_of(align.max(1) as usize);
        let end = at.checked_add(size).filter(|&end| end <= self.size);
        self.used = end.ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "more code than was reserved"))?;
        // SAFETY: the address lies inside the mapping.
        Ok(unsafe { self.start.add(at) })
    }

    unsafe fn free_memory(&mut self) {
        self.shrink(0);
    }

    fn finalize(&mut self, _: BranchProtection) -> ModuleResult<()> {
        self.shrink(self.used.max(1).next_multiple_of(PAGE as usize));
        // SAFETY: this value owns the mapping, and the code in it is complete.
        let done = unsafe { libc::mprotect(self.start.cast(), self.size, libc::PROT_READ | libc::PROT_EXEC) };
        match done {
            0 => Ok(()),
            _ => Err(ModuleError::Allocation {
                err: io::Error::last_os_error(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_contiguous_and_within_the_reservation() {
        let mut pages = Pages::reserve(5000).expect("the host has memory");
        let first = pages
            .allocate(100, 16, JITMemoryKind::Executable)
            .expect("enough space");
        let second = pages
            .allocate(7000, 64, JITMemoryKind::Executable)
            .expect("enough space");
        assert_eq!(second as usize - first as usize, 128);
        let refused = pages
            .allocate(2000, 16, JITMemoryKind::Executable)
            .expect_err("two pages are full");
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        assert!(pages.allocate(8, 8, JITMemoryKind::Writable).is_err());
        // SAFETY: the pages are alive and hold 8192 bytes.
        unsafe { second.add(6999).write(0xc3) };
        pages
            .finalize(BranchProtection::None)
            .expect("the pages become executable");
        assert_eq!(unsafe { second.add(6999).read() }, 0xc3);
    }

    #[test]
    fn a_lack_of_address_space_is_an_error() {
        assert!(Pages::reserve(usize::MAX / 2).is_err());
    }
}
