// SPDX-License-Identifier: GPL-2.0-only
//! Reads numbers and texts of a binary recording, in either byte order and with all bounds checked.

use super::damage::Damage;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};

/// The contents of a recording, which can be read at any position.
pub trait Input {
    /// Returns the number of bytes.
    fn length(&self) -> u64;

    /// Reads bytes from a position. Returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl Input for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or(&[]);
        rest.read(into)
    }
}

impl Input for File {
    fn length(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, into, at)
    }
}

/// An input that reports how much of it has been read.
pub struct Watched<'a> {
    input: &'a dyn Input,
    /// Called with the progress, from 0 to 1000, whenever it changes.
    progress: &'a dyn Fn(u64),
    length: u64,
    read: Cell<u64>,
}

impl<'a> Watched<'a> {
    pub fn new(input: &'a dyn Input, progress: &'a dyn Fn(u64)) -> Watched<'a> {
        Watched {
            input,
            progress,
            length: input.length().max(1),
            read: Cell::new(0),
        }
    }
}

impl Input for Watched<'_> {
    fn length(&self) -> u64 {
        self.input.length()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read_at(at, into)?;
        // A part that is read twice counts twice.
        let share = |bytes: u64| (bytes.saturating_mul(1000) / self.length).min(1000);
        let before = self.read.get();
        let after = before.saturating_add(read as u64);
        self.read.set(after);
        if share(before) != share(after) {
            (self.progress)(share(after));
        }
        Ok(read)
    }
}

/// A part of an input, read from its beginning to its end.
pub struct Span<'a> {
    input: &'a dyn Input,
    at: u64,
    end: u64,
}

impl<'a> Span<'a> {
    /// Returns the part of an input from `at` with at most `length` bytes.
    pub fn new(input: &'a dyn Input, at: u64, length: u64) -> Span<'a> {
        let end = at.saturating_add(length).min(input.length());
        Span { input, at, end }
    }

    /// Returns the whole input.
    pub fn whole(input: &'a dyn Input) -> Span<'a> {
        Span::new(input, 0, u64::MAX)
    }
}

impl Read for Span<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = into.len().min(rest);
        let read = self.input.read_at(self.at, &mut into[..length])?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Order of the bytes in the numbers of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    /// Converts up to 8 bytes into a number.
    pub fn number(self, bytes: &[u8]) -> u64 {
        let add = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        match self {
            Order::Little => bytes.iter().rev().fold(0, add),
            Order::Big => bytes.iter().fold(0, add),
        }
    }

    /// Returns the number of N bytes at a position.
    pub fn get<const N: usize>(self, bytes: &[u8], at: usize) -> Option<u64> {
        let number: &[u8; N] = bytes.get(at..)?.first_chunk()?;
        Some(self.number(number))
    }

    /// Returns the number of 4 bytes at a position.
    pub fn get_u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        u32::try_from(self.get::<4>(bytes, at)?).ok()
    }
}

/// Maximum size of a part of a file that is read into memory at once. The parts are descriptions of
/// events, pages, packets and compressed chunks, all of which are far smaller.
pub const MAX_PART: u64 = 256 << 20;

/// Reads numbers and texts one after the other.
pub struct Cursor<R> {
    reader: R,
    pub order: Order,
}

impl<R: Read> Cursor<R> {
    pub fn new(reader: R, order: Order) -> Cursor<R> {
        Cursor { reader, order }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// The file ends before, or the number of bytes is implausible.
    pub fn part(&mut self, length: u64) -> Result<Vec<u8>, Damage> {
        if length > MAX_PART {
            return Err(Damage::LargePart(length));
        }
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(length).read_to_end(&mut bytes);
        read?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(Damage::Short(length - bytes.len() as u64)),
        }
    }

    /// Skips bytes.
    ///
    /// # Errors
    /// The file ends before.
    pub fn skip(&mut self, length: u64) -> Result<(), Damage> {
        let skipped = io::copy(&mut self.reader.by_ref().take(length), &mut io::sink());
        match skipped? {
            skipped if skipped == length => Ok(()),
            skipped => Err(Damage::Short(length - skipped)),
        }
    }

    /// Reads a number of N bytes.
    ///
    /// # Errors
    /// The file ends before.
    pub fn number<const N: usize>(&mut self) -> Result<u64, Damage> {
        let mut bytes = [0; N];
        let read = self.reader.read_exact(&mut bytes);
        read.map_err(|_| Damage::EndsInside("a number"))?;
        Ok(self.order.number(&bytes))
    }

    /// Reads a text up to its NUL.
    ///
    /// # Errors
    /// The file ends before, or the text has more than 255 bytes.
    pub fn text(&mut self) -> Result<String, Damage> {
        let mut bytes = Vec::new();
        while bytes.len() < 256 {
            match self.number::<1>()?.to_le_bytes()[0] {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte),
            }
        }
        Err("a name has more than 255 bytes".into())
    }

    /// Reads the number of N bytes of a part's length, and the part.
    ///
    /// # Errors
    /// As for [`Self::part`].
    pub fn sized<const N: usize>(&mut self) -> Result<Vec<u8>, Damage> {
        let length = self.number::<N>()?;
        self.part(length)
    }
}

impl<R: Read> Read for Cursor<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read(into)
    }
}

impl<R: Read> Cursor<io::Take<R>> {
    /// Returns the number of bytes up to the end of the part.
    pub fn limit(&self) -> u64 {
        self.reader.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn the_progress_of_reading_is_reported() {
        let seen = RefCell::new(Vec::new());
        let progress = |done| seen.borrow_mut().push(done);
        let bytes: &[u8] = &[7; 400];
        let watched = Watched::new(&bytes, &progress);
        let mut part = [0; 100];
        for at in [0, 100, 100, 300, 400] {
            watched.read_at(at, &mut part).expect("memory can be read");
        }
        assert_eq!(*seen.borrow(), [250, 500, 750, 1000]);
    }
}
