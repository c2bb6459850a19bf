// SPDX-License-Identifier: GPL-2.0-only
//! Memory that a process outside of the simulator shares with BPF programs.
//!
//! The user-space part of a scheduler maps its maps, ring buffers and arenas into its memory. The
//! simulator keeps the contents of these maps in one file without a name, of which both sides map
//! the same parts.

use crate::error::Error;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::host::{Access, map_file, replace, replace_by_file, unmap};
use super::layout::{ARENA_SIZE, ARENAS, BASE, BPF, NR_ARENAS, PAGE, within};
use super::limit::Use;
use super::region::Region;

/// A part of a file whose pages are shared.
///
/// Functions that map the part are unsafe, because the compiler assumes that nothing else changes
/// the memory of this process. Their callers guarantee, for as long as the pages are in use:
///
/// - The file stays at least as long as its last mapped page. An access beyond the end of the file
///   would raise SIGBUS.
/// - Other processes write to the pages only while no thread of this process accesses the same
///   bytes. The positions of a ring buffer, in its first two pages, are exempt: they are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// The file. It stays open as long as the pages are in use.
    pub fd: RawFd,
    /// Offset of the first page, a multiple of the size of a page.
    pub offset: u64,
}

impl Region {
    /// Returns the address at which programs will see an arena that is allocated after `others` other
    /// ones, with the address `extra` in its definition (`map_extra`). Returns `None` if not so many
    /// arenas are free.
    pub fn next_arena(&self, others: u64, extra: u64) -> Option<u64> {
        let free = |nr: &u64| self.arenas.get() >> nr & 1 == 0;
        let nr = (0..NR_ARENAS).filter(free).nth(usize::try_from(others).ok()?)?;
        Some(BASE + ARENAS + nr * ARENA_SIZE + (extra & (ARENA_SIZE - 1)))
    }

    /// Replaces pages of the area of BPF programs, or of an arena, by pages of a file. Their
    /// contents are then those of the file, and the pages are accessible. `size` is rounded up to
    /// whole pages.
    ///
    /// # Errors
    /// The pages lie in a different area, or the host cannot map the file.
    ///
    /// # Safety
    /// See [`SharedFile`].
    pub unsafe fn share(&self, addr: u64, size: u64, file: SharedFile) -> Result<(), Error> {
        let size = size.max(1).next_multiple_of(PAGE);
        let end = ARENAS + NR_ARENAS * ARENA_SIZE;
        let own = within(addr.wrapping_sub(self.base), size, BPF, end - BPF);
        if !own || !addr.is_multiple_of(PAGE) || !file.offset.is_multiple_of(PAGE) {
            return Err(Error::new(format!(
                "{size} bytes at {addr:#x} are not pages of a BPF program"
            )));
        }
        // SAFETY: the pages belong to this region, and their user gives them up.
        let mapped = unsafe { replace_by_file(self.host::<u8>(addr) as u64, size, file) };
        mapped.ok_or_else(|| format!("the host cannot share memory: {}", std::io::Error::last_os_error()))?;
        if self.in_arenas(addr) {
            // The pages of the file are limited by their user.
            let first = (addr - self.base) / PAGE;
            let charged = (first..first + size / PAGE)
                .filter(|&page| self.is_mapped(page))
                .count();
            self.memory.uncharge(Use::Arenas, charged as u64 * PAGE);
        }
        self.mark(addr, size, Access::ReadWrite);
        self.shared.borrow_mut().push((addr, size));
        Ok(())
    }

    /// Returns the number of shared pages within a range.
    pub(super) fn shared_pages(&self, addr: u64, size: u64) -> u64 {
        let shared = self.shared.borrow();
        let inside = shared.iter().filter(|&&(start, len)| within(start, len, addr, size));
        inside.map(|&(_, len)| len / PAGE).sum()
    }

    /// Replaces the shared pages within a range by private ones, which are inaccessible.
    pub(super) fn unshare(&self, addr: u64, size: u64) {
        let mut shared = self.shared.borrow_mut();
        if shared.is_empty() {
            return;
        }
        shared.retain(|&(start, len)| {
            let inside = within(start, len, addr, size.next_multiple_of(PAGE));
            if inside {
                let len = usize::try_from(len).unwrap_or(0);
                // SAFETY: the pages belong to this region, and their user releases them.
                unsafe { replace(self.host::<u8>(start) as u64, len) };
            }
            !inside
        });
    }
}

/// Two words in pages of a file: the positions of the consumer and the producer of a ring buffer,
/// which lie at the beginning of two adjacent pages.
pub(crate) struct Window {
    host: u64,
}

impl Window {
    /// Maps the two pages.
    ///
    /// # Errors
    /// The host cannot map the file.
    ///
    /// # Safety
    /// See [`SharedFile`].
    pub unsafe fn new(file: SharedFile) -> Result<Window, Error> {
        let host = map_file(2 * PAGE, file);
        let host = host.ok_or_else(|| format!("the host cannot share memory: {}", std::io::Error::last_os_error()))?;
        Ok(Window { host })
    }

    /// Returns the word at the beginning of page 0 or 1. A process may access it at any time.
    fn word(&self, page: u64) -> &AtomicU64 {
        assert!(page < 2);
        // SAFETY: the word is aligned and lies in a page that this value has mapped. This process
        // accesses the page only through this function.
        unsafe { AtomicU64::from_ptr((self.host + page * PAGE) as *mut u64) }
    }

    /// Returns the position of the consumer.
    pub fn consumer(&self) -> u64 {
        self.word(0).load(Ordering::Acquire)
    }

    /// Returns the position of the producer.
    pub fn producer(&self) -> u64 {
        self.word(1).load(Ordering::Acquire)
    }

    /// Sets the position of the consumer.
    pub fn set_consumer(&self, position: u64) {
        self.word(0).store(position, Ordering::Release);
    }

    /// Sets the position of the producer.
    pub fn set_producer(&self, position: u64) {
        self.word(1).store(position, Ordering::Release);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: this value has mapped the pages.
        unsafe { unmap(self.host, 2 * PAGE as usize) };
    }
}

// Miri cannot map files.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::map::Ringbuf;
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::fs::FileExt;

    /// Returns a file in memory with 16 pages.
    fn file() -> File {
        // SAFETY: the name is a C string, and the descriptor has no other owner.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC)) };
        file.set_len(16 * PAGE).expect("the file can grow");
        file
    }

    fn part(file: &File, page: u64) -> SharedFile {
        SharedFile {
            fd: file.as_raw_fd(),
            offset: page * PAGE,
        }
    }

    fn share(region: &Region, addr: u64, size: u64, file: SharedFile) -> Result<(), Error> {
        // SAFETY: the tests keep the file at its size, and write to it only between accesses.
        unsafe { region.share(addr, size, file) }
    }

    #[test]
    fn both_sides_see_stores_to_shared_pages() {
        let region = Region::new().expect("a region");
        let file = file();
        let addr = region.pages(PAGE).expect("memory");
        file.write_all_at(b"before", PAGE).expect("the file can be written");
        share(&region, addr, PAGE, part(&file, 1)).expect("the pages are a program's");
        assert_eq!(region.bytes(addr, 6).expect("accessible").as_slice(), b"before");
        region.write(addr + 8, b"after").expect("accessible");
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, PAGE + 8).expect("the file can be read");
        assert_eq!(&bytes, b"after");
        region.release_pages(addr, PAGE);
        assert!(region.bytes(addr, 1).is_err(), "released pages are inaccessible");
        assert!(
            share(&region, region.base(), PAGE, part(&file, 1)).is_err(),
            "not memory of programs"
        );
        assert!(
            share(&region, region.base() + (90 << 30), PAGE, part(&file, 1)).is_err(),
            "kernel memory"
        );
    }

    #[test]
    fn arenas_account_for_shared_pages() {
        let region = Region::new().expect("a region");
        let file = file();
        let (next, third) = (region.next_arena(0, 0), region.next_arena(2, 0));
        let arena = region.arena().expect("an arena");
        assert_eq!(next, Some(arena));
        assert_eq!(region.next_arena(1, 0), third, "one arena fewer is free");
        region.commit_arena(arena, 2 * PAGE).expect("memory");
        share(&region, arena, 4 * PAGE, part(&file, 0)).expect("the pages are a program's");
        // Panics if more is released than was charged.
        region.release_arena(arena);
        assert_eq!(region.arena(), Some(arena));
        region.commit_arena(arena, PAGE).expect("memory");
        assert_eq!(region.load::<u64>(arena).expect("accessible"), 0);
    }

    #[test]
    fn a_ring_has_the_form_that_a_process_expects() {
        let region = Region::new().expect("a region");
        let file = file();
        let mut ring = Ringbuf::for_test(&region, part(&file, 4));
        let word = |at: u64| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, 4 * PAGE + at)
                .expect("the file can be read");
            u64::from_le_bytes(bytes)
        };
        assert!(ring.produce(&region, b"abcdefgh", 0));
        assert!(ring.take_wake(), "the reader has read all earlier records");
        assert_eq!(
            (word(0), word(PAGE)),
            (0, 16),
            "positions of the consumer and the producer"
        );
        assert_eq!(word(2 * PAGE) as u32, 8, "length, without flags");
        assert_eq!(word(2 * PAGE + 8).to_le_bytes(), *b"abcdefgh");
        assert!(ring.produce(&region, b"x", 0));
        assert!(!ring.take_wake(), "the reader is behind");
        // The process reads the first record.
        file.write_all_at(&16u64.to_le_bytes(), 4 * PAGE)
            .expect("the file can be written");
        assert_eq!(ring.query(0), 16);
        // A position that no correct process writes has no effect.
        file.write_all_at(&u64::MAX.to_le_bytes(), 4 * PAGE)
            .expect("the file can be written");
        assert!(ring.produce(&region, b"y", 0));
    }
}
