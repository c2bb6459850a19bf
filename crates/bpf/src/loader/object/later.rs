// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of a section of globals that lie beyond its data in the file, such as those of .bss.
//!
//! Such a section can have hundreds of MiB, of which user space sets a few values. Only the pages
//! with these values are stored, so that neither setting nor copying them touches the rest.

use std::collections::BTreeMap;

use super::elf::Section;
use crate::memory::PAGE;

const PAGE_BYTES: usize = PAGE as usize;

/// Pages of a section, by the number of the page in the section. All other bytes are zeros. In a page
/// that begins within [`Section::data`], the bytes of the data are not used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Later {
    pages: BTreeMap<usize, Box<[u8; PAGE_BYTES]>>,
}

impl Section {
    /// Returns the end of the last byte that may differ from zero.
    pub(crate) fn end(&self) -> usize {
        let last = self.later.pages.last_key_value();
        let end = last.map_or(0, |(page, _)| (page + 1) * PAGE_BYTES);
        self.data.len().max(end.min(input::to_usize(self.size)))
    }

    /// Returns `len` bytes from offset `start` on.
    pub(crate) fn read(&self, start: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.copy(start, &mut bytes);
        bytes
    }

    /// Copies the bytes from offset `start` on into `bytes`, which are zeros.
    fn copy(&self, start: usize, bytes: &mut [u8]) {
        let end = start + bytes.len();
        for (at, part) in self.parts() {
            let (from, to) = (at.max(start), (at + part.len()).min(end));
            if from < to {
                bytes[from - start..to - start].copy_from_slice(&part[from - at..to - at]);
            }
        }
    }

    /// Sets the bytes from offset `start` on.
    pub(crate) fn write(&mut self, start: usize, bytes: &[u8]) {
        let in_data = self.data.len().saturating_sub(start).min(bytes.len());
        if in_data > 0 {
            std::sync::Arc::make_mut(&mut self.data)[start..start + in_data].copy_from_slice(&bytes[..in_data]);
        }
        let mut at = start + in_data;
        let mut rest = &bytes[in_data..];
        while !rest.is_empty() {
            let within = at % PAGE_BYTES;
            let (now, later) = rest.split_at(rest.len().min(PAGE_BYTES - within));
            let page = self.later.pages.entry(at / PAGE_BYTES);
            let page = page.or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[within..within + now.len()].copy_from_slice(now);
            at += now.len();
            rest = later;
        }
    }

    /// Returns the stored parts of the section, each with its offset, in ascending order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let (data, size) = (&self.data[..], input::to_usize(self.size));
        let later = self.later.pages.iter().filter_map(move |(page, bytes)| {
            let start = page * PAGE_BYTES;
            let (from, to) = (start.max(data.len()), (start + PAGE_BYTES).min(size));
            (from < to).then(|| (from, &bytes[from - start..to - start]))
        });
        std::iter::once((0, data)).chain(later)
    }

    /// Removes the bytes from offset `size` on, which becomes the size of the section, or adds zeros.
    pub(crate) fn resize(&mut self, size: u64) {
        self.size = size;
        let size = input::to_usize(size);
        if self.data.len() > size {
            std::sync::Arc::make_mut(&mut self.data).truncate(size);
        }
        self.later.pages.retain(|page, _| page * PAGE_BYTES < size);
        if let Some(mut last) = self.later.pages.last_entry() {
            let start = last.key() * PAGE_BYTES;
            last.get_mut()[(size - start).min(PAGE_BYTES)..].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(data: &[u8], size: u64) -> Section {
        Section {
            data: std::sync::Arc::new(data.to_vec()),
            size,
            ..Section::empty(".data")
        }
    }

    #[test]
    fn values_within_and_beyond_the_data_are_stored() {
        let mut section = section(&[1; 100], 1 << 30);
        section.write(98, &[2; 4]);
        section.write((1 << 20) - 1, &[3; 2]);
        assert_eq!(section.read(96, 8), [1, 1, 2, 2, 2, 2, 0, 0]);
        assert_eq!(section.read((1 << 20) - 2, 4), [0, 3, 3, 0]);
        assert_eq!(section.later.pages.len(), 3, "the pages between them are not stored");
        let parts: Vec<(usize, usize)> = section.parts().map(|(at, part)| (at, part.len())).collect();
        assert_eq!(parts, [(0, 100), (100, 3996), ((1 << 20) - 4096, 4096), (1 << 20, 4096)]);
        assert_eq!(section.end(), (1 << 20) + 4096);
    }

    #[test]
    fn a_smaller_section_loses_its_last_bytes() {
        let mut section = section(&[], 20_000);
        section.write(4090, &[1; 20]);
        section.write(12_000, &[2; 20]);
        section.resize(4100);
        assert_eq!(section.end(), 4100);
        section.resize(20_000);
        assert_eq!(section.read(4095, 8), [1, 1, 1, 1, 1, 0, 0, 0]);
        assert_eq!(section.read(12_000, 2), [0, 0]);
    }
}
