// SPDX-License-Identifier: GPL-2.0-only
//! The contents of a part of the shared memory, without pages that hold only zeros.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use ::bpf::memory::PAGE;

const BYTES: usize = PAGE as usize;
const ZEROS: [u8; BYTES] = [0; BYTES];

/// Pages by their offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages(BTreeMap<u64, Vec<u8>>);

impl Pages {
    /// Reads `len` bytes of a file from `offset` on. Pages that the file does not store are skipped,
    /// because arenas have up to 4 GiB.
    pub fn read(file: &File, offset: u64, len: u64) -> Pages {
        let mut pages = BTreeMap::new();
        let end = offset + len;
        let mut at = offset;
        while let Some(start) = seek(file, at, libc::SEEK_DATA).filter(|&start| start < end) {
            let stop = seek(file, start, libc::SEEK_HOLE).unwrap_or(end).min(end);
            for page in (start..stop).step_by(BYTES) {
                let mut bytes = vec![0; BYTES];
                if file.read_exact_at(&mut bytes, page).is_ok() && bytes != ZEROS {
                    pages.insert(page - offset, bytes);
                }
            }
            at = stop;
        }
        Pages(pages)
    }

    fn page(&self, at: u64) -> &[u8] {
        self.0.get(&at).map_or(&ZEROS, Vec::as_slice)
    }

    /// Copies the bytes that differ between `old` and `new` from `new`.
    pub fn copy_changes(&mut self, old: &Pages, new: &Pages) {
        for &at in new.0.keys().chain(old.0.keys()) {
            let (old, new) = (old.page(at), new.page(at));
            if old == new {
                continue;
            }
            let own = self.0.entry(at).or_insert_with(|| ZEROS.to_vec());
            for ((own, old), new) in own.iter_mut().zip(old).zip(new) {
                if old != new {
                    *own = *new;
                }
            }
        }
    }

    /// Returns the words of 64 bits that differ from `old`, with their offsets.
    pub fn changed_words(&self, old: &Pages) -> Vec<(u64, u64)> {
        let mut changed = Vec::new();
        let pages: BTreeSet<u64> = self.0.keys().chain(old.0.keys()).copied().collect();
        for page in pages {
            let words = self.page(page).chunks_exact(8).zip(old.page(page).chunks_exact(8));
            for (at, (new, old)) in (page..).step_by(8).zip(words) {
                if new != old {
                    changed.push((at, new.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))));
                }
            }
        }
        changed
    }

    /// Returns the first `len` bytes.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (&at, page) in &self.0 {
            let Some(to) = bytes.get_mut(at as usize..) else { break };
            let copied = to.len().min(BYTES);
            to[..copied].copy_from_slice(&page[..copied]);
        }
        bytes
    }
}

/// Returns the offset of the next data or hole of a file.
fn seek(file: &File, at: u64, whence: i32) -> Option<u64> {
    // SAFETY: the descriptor is open. No code uses the position of the file.
    let found = unsafe { libc::lseek(file.as_raw_fd(), libc::off_t::try_from(at).ok()?, whence) };
    u64::try_from(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(bytes: &[(u64, u8)]) -> Pages {
        let mut pages = Pages::default();
        for &(at, byte) in bytes {
            let page = pages.0.entry(at - at % PAGE).or_insert_with(|| ZEROS.to_vec());
            page[(at % PAGE) as usize] = byte;
        }
        pages
    }

    #[test]
    fn stores_between_two_looks_are_kept() {
        let mut user = pages(&[(0, 1), (8, 2)]);
        // Byte 8 was changed to 9 by the kernel before the last look, byte 16 by the program since.
        let (last, now) = (pages(&[(0, 1), (8, 9)]), pages(&[(0, 0), (8, 9), (16, 3), (9000, 4)]));
        user.copy_changes(&last, &now);
        let bytes = user.bytes(9001);
        assert_eq!((bytes[0], bytes[8], bytes[16], bytes[9000]), (0, 2, 3, 4));
        assert_eq!(now.changed_words(&last), [(0, 0), (16, 3), (9000, 4)]);
    }
}
