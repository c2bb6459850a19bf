// SPDX-License-Identifier: GPL-2.0-only
//! Where an export goes: bytes are gathered, and the first error is kept.

use std::io::{self, Write};

/// Written once it has this many bytes.
const GATHERED: usize = 64 << 10;

pub(super) struct Output<W: Write> {
    to: W,
    pub bytes: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> Output<W> {
    pub fn new(to: W) -> Output<W> {
        Output {
            to,
            bytes: Vec::new(),
            failed: None,
        }
    }

    /// Writes what was gathered if that is much.
    pub fn pass(&mut self) {
        if self.bytes.len() >= GATHERED {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.to.write_all(&self.bytes).err();
        }
        self.bytes.clear();
    }

    /// Writes the rest and returns what it was written to.
    ///
    /// # Errors
    /// The first one there was.
    pub fn finish(mut self) -> io::Result<W> {
        self.write();
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush().map(|()| self.to),
        }
    }
}
