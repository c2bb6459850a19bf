// SPDX-License-Identifier: GPL-2.0-only
//! A buffered writer for exports. It keeps the first I/O error and returns it at the end.

use std::io::{self, Write};

/// Size in bytes at which the buffer is written.
const BUFFER_BYTES: usize = 64 << 10;

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

    /// Writes the buffer if it is full.
    pub fn write_if_full(&mut self) {
        if self.bytes.len() >= BUFFER_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.to.write_all(&self.bytes).err();
        }
        self.bytes.clear();
    }

    /// Writes the rest of the buffer and returns the underlying writer.
    ///
    /// # Errors
    /// Returns the first I/O error.
    pub fn finish(mut self) -> io::Result<W> {
        self.write();
        match self.failed {
            Some(error) => Err(error),
            None => self.to.flush().map(|()| self.to),
        }
    }
}
