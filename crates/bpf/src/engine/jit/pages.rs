// SPDX-License-Identifier: GPL-2.0-only
//! Memory for the machine code of one program.
//!
//! All code of the program lies in one contiguous mapping. Relative calls therefore reach every
//! function, and each program needs only one of the host's memory mappings, whose number is
//! limited.

use std::io;

use crate::memory::PAGE;

/// Executable pages that contain machine code.
pub(super) struct Pages {
    start: *mut u8,
    size: usize,
}

impl Pages {
    /// Copies code to new pages, lets `patch` change the copy, and makes the pages executable. The
    /// pages are never writable and executable at the same time.
    ///
    /// # Errors
    /// The host has no memory, or it does not allow executable pages.
    pub fn with_code(code: &[u8], patch: impl FnOnce(&mut [u8])) -> io::Result<Pages> {
        let size = code.len().max(1).next_multiple_of(PAGE as usize);
        // SAFETY: this is a new mapping, at an address that the host chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.cast::<u8>();
        let pages = Pages { start, size };
        // SAFETY: the mapping is new, has at least this size, and is not executable yet.
        let copy = unsafe { std::slice::from_raw_parts_mut(start, code.len()) };
        copy.copy_from_slice(code);
        patch(copy);
        // SAFETY: this value owns the mapping, and the code in it is complete.
        match unsafe { libc::mprotect(start.cast(), size, libc::PROT_READ | libc::PROT_EXEC) } {
            0 => Ok(pages),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the address of the first byte of code.
    pub fn start(&self) -> u64 {
        self.start as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: only this value owns the mapping. A VM drops its code only while no call is in
        // progress.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_contain_the_patched_code_and_execute_it() {
        // mov eax, 1; ret
        let code = [0xb8, 1, 0, 0, 0, 0xc3];
        let pages = Pages::with_code(&code, |copy| copy[1] = 42).expect("the host has memory");
        // SAFETY: the pages contain a complete function with this signature.
        let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(pages.start()) };
        assert_eq!(function(), 42);
        assert_eq!(code[1], 1, "the original is unchanged");
    }

    /// Runs the test in a child process, because the test lowers the memory limit of the process.
    #[test]
    fn a_host_without_memory_for_code_is_an_error() {
        const CHILD: &str = "BPF_PAGES_TEST_LIMIT";
        if std::env::var(CHILD).is_err() {
            let name = "engine::jit::pages::tests::a_host_without_memory_for_code_is_an_error";
            let child = std::process::Command::new(std::env::current_exe().expect("the test has a file"))
                .args(["--exact", name, "--test-threads=1"])
                .env(CHILD, "1")
                .output()
                .expect("the test runs itself");
            let text = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && text.contains("1 passed"), "{child:?}");
            return;
        }
        // The limit counts the process's private writable pages. `code` alone has as many pages as
        // the limit allows, so the mapping for its copy is refused.
        let code = vec![0; 256 << 20];
        let limit = libc::rlimit {
            rlim_cur: 256 << 20,
            rlim_max: 256 << 20,
        };
        // SAFETY: this is a plain system call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
        let refused = Pages::with_code(&code, |_| {})
            .err()
            .expect("the limit leaves no memory");
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
    }
}
