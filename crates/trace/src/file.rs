// SPDX-License-Identifier: GPL-2.0-only
//! Reads and writes trace files as streams. The reader verifies the file while it reads.
//!
//! All fixed-size numbers are little-endian.
//!
//! ```text
//! "WTRACE\r\n"  version u32  length u32  checksum u64  header            the run
//! 'S'           length u32   checksum u64  snapshot                      a recording's tasks; optional
//! 'B'           length u32   checksum u64  records                       a block; any number of them
//! 'R'           length u32   checksum u64  text                          the run's result; optional
//! 'E'           count u64    hash u64      checksum u64                  the end
//! ```
//!
//! The first time in a block is relative to 0, so each block can be decoded on its own. `hash` is
//! the trace hash of the run. The reader computes this hash from the records and compares. The last
//! checksum covers count and hash.

use crate::encode::{DecodeError, Decoder, Encoder, VERSION};
use crate::event::{Event, Record, Sink};
use crate::hash::Hash;
use crate::header::Header;
use crate::snapshot::Snapshot;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"WTRACE\r\n";
/// Size in bytes at which a block is written.
const BLOCK_BYTES: usize = 64 << 10;
/// Maximum size in bytes of a block or of the header. It limits the memory that a reader allocates
/// if the length in a damaged file is wrong.
const BLOCK_MAX: usize = 16 << 20;
/// Latest time of a record in ns, which is 146 years. Sums of a few such times stay below 2^64.
const TIME_MAX: u64 = 1 << 62;

/// The last item of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Number of records.
    pub count: u64,
    /// [`Hash::value`] of all records.
    pub hash: u64,
}

/// Writes a trace file and keeps at most one block in memory. After an I/O error it writes nothing
/// more, and [`Writer::finish`] returns the error. If a writer is dropped without a call of
/// `finish`, readers report that the file is truncated.
pub struct Writer<W: Write> {
    to: W,
    block: Vec<u8>,
    encoder: Encoder,
    hash: Hash,
    failed: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Writes the header and returns a writer. [`Writer::finish`] returns any errors.
    pub fn new(to: W, header: &Header) -> Writer<W> {
        let mut writer = Writer {
            to,
            block: Vec::new(),
            encoder: Encoder::new(),
            hash: Hash::default(),
            failed: None,
        };
        let body = header.encode();
        let mut start = MAGIC.to_vec();
        start.extend(VERSION.to_le_bytes());
        start.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        start.extend(Hash::checksum(&body).to_le_bytes());
        start.extend(&body);
        if body.len() > BLOCK_MAX {
            writer.failed = Some(too_long("the header"));
        } else {
            writer.failed = writer.to.write_all(&start).err();
        }
        writer
    }

    /// Writes the collected bytes as a block of the given kind.
    fn write_block(&mut self, kind: u8) {
        if self.failed.is_none() && self.block.len() > BLOCK_MAX {
            self.failed = Some(too_long("a record"));
        }
        if self.failed.is_none() && !self.block.is_empty() {
            let mut head = [kind; 13];
            head[1..5].copy_from_slice(&crate::number::index(self.block.len()).to_le_bytes());
            head[5..].copy_from_slice(&Hash::checksum(&self.block).to_le_bytes());
            self.failed = self
                .to
                .write_all(&head)
                .and_then(|()| self.to.write_all(&self.block))
                .err();
        }
        self.block.clear();
        self.encoder = Encoder::new();
    }

    /// Writes the snapshot of a recorded machine. It must come before the first record, because
    /// readers return it only from then on.
    pub fn snapshot(&mut self, snapshot: &Snapshot) {
        self.write_block(b'B');
        self.block = snapshot.encode();
        self.write_block(b'S');
    }

    /// Writes the run's result. This is a text with figures that cannot be computed from the
    /// records. [`Reader::result`] returns it.
    pub fn result(&mut self, text: &str) {
        self.write_block(b'B');
        self.block.extend_from_slice(text.as_bytes());
        self.write_block(b'R');
    }

    /// Writes the end of the file and flushes it.
    ///
    /// # Errors
    /// Returns the first I/O error since [`Writer::new`].
    pub fn finish(self) -> io::Result<Trailer> {
        self.finish_into().map(|(trailer, _)| trailer)
    }

    /// Writes the end of the file, flushes it and returns the underlying writer.
    ///
    /// # Errors
    /// The same as those of [`Writer::finish`].
    pub fn finish_into(mut self) -> io::Result<(Trailer, W)> {
        self.write_block(b'B');
        if let Some(error) = self.failed {
            return Err(error);
        }
        let trailer = Trailer {
            count: self.hash.count(),
            hash: self.hash.value(),
        };
        self.to.write_all(&trailer.encode())?;
        self.to.flush()?;
        Ok((trailer, self.to))
    }
}

fn too_long(item: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{item} is too long for a trace file, which allows at most {BLOCK_MAX} bytes"),
    )
}

impl<W: Write> Sink for Writer<W> {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            if self.failed.is_some() {
                return;
            }
            self.hash.add(record);
            self.encoder.put(record, &mut self.block);
            if self.block.len() >= BLOCK_BYTES {
                self.write_block(b'B');
            }
        }
    }
}

impl Trailer {
    fn encode(&self) -> [u8; 25] {
        let mut bytes = [b'E'; 25];
        bytes[1..9].copy_from_slice(&self.count.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.hash.to_le_bytes());
        let checksum = Hash::checksum(&bytes[1..17]);
        bytes[17..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// Reason why reading a trace file failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("trace: cannot read the file at byte {offset}: {source}")]
    Io { offset: u64, source: io::Error },
    #[error("trace: this is not a trace file, because its first bytes are not WTRACE")]
    NotATrace,
    #[error(
        "trace: the file has format version {found}, but this program reads only version {VERSION}; record the run again"
    )]
    Version { found: u32 },
    #[error("trace: the file ends at byte {offset}, within {item}; if the run was interrupted, record it again")]
    Truncated { offset: u64, item: &'static str },
    #[error("trace: damaged at byte {offset}: {problem}")]
    Damaged { offset: u64, problem: String },
}

/// Reads a trace file as an iterator over its records. The iterator ends after an error. The reader
/// verifies the checksum of every block. At the end it also verifies the number of records and
/// their hash.
pub struct Reader<R: Read> {
    from: R,
    header: Header,
    /// Bytes read from `from` so far.
    offset: u64,
    block: Vec<u8>,
    /// File offset of the first byte of `block`.
    block_offset: u64,
    at: usize,
    time: u64,
    hash: Hash,
    result: Option<String>,
    snapshot: Option<Snapshot>,
    trailer: Option<Trailer>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Opens a trace and reads its header.
    ///
    /// # Errors
    /// Fails on an I/O error, on a file that is not a trace, on another format version, and on a
    /// truncated or damaged header.
    pub fn new(from: R) -> Result<Reader<R>, ReadError> {
        let mut reader = Reader {
            from,
            header: Header::default(),
            offset: 0,
            block: Vec::new(),
            block_offset: 0,
            at: 0,
            time: 0,
            hash: Hash::default(),
            result: None,
            snapshot: None,
            trailer: None,
            ended: false,
        };
        let mut magic = Vec::new();
        reader.read_up_to(MAGIC.len(), &mut magic)?;
        if magic != MAGIC {
            return Err(ReadError::NotATrace);
        }
        let version = u32::from_le_bytes(reader.array("the header")?);
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        reader.read_block("the header")?;
        reader.header = Header::decode(&reader.block).map_err(|e| reader.damaged(e))?;
        reader.at = reader.block.len();
        Ok(reader)
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the run's result, if the file contains one and the reader has reached the end of the
    /// file.
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// Returns the snapshot of the recorded machine, if the file contains one and a record was read.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Returns the last item of the file, once the end was reached.
    pub fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    /// Reads up to `len` bytes into `into`. The end of the file is not an error.
    fn read_up_to(&mut self, len: usize, into: &mut Vec<u8>) -> Result<(), ReadError> {
        into.clear();
        // The buffer grows only as bytes are read. A wrong length in a damaged file therefore
        // cannot make it allocate too much.
        let got = self.from.by_ref().take(len as u64).read_to_end(into);
        self.offset += into.len() as u64;
        got.map(|_| ()).map_err(|source| ReadError::Io {
            offset: self.offset,
            source,
        })
    }

    fn array<const N: usize>(&mut self, item: &'static str) -> Result<[u8; N], ReadError> {
        let mut bytes = Vec::new();
        self.read_up_to(N, &mut bytes)?;
        bytes.try_into().map_err(|_| ReadError::Truncated {
            offset: self.offset,
            item,
        })
    }

    /// Reads a block's length, checksum and body into `self.block`.
    fn read_block(&mut self, item: &'static str) -> Result<(), ReadError> {
        let start = self.offset;
        let len = u32::from_le_bytes(self.array(item)?) as usize;
        if len > BLOCK_MAX {
            let problem = format!("{item} has {len} bytes, more than the maximum of {BLOCK_MAX}");
            return Err(ReadError::Damaged { offset: start, problem });
        }
        let checksum = u64::from_le_bytes(self.array(item)?);
        self.block_offset = self.offset;
        let mut block = std::mem::take(&mut self.block);
        let read = self.read_up_to(len, &mut block);
        self.block = block;
        read?;
        if self.block.len() < len {
            return Err(ReadError::Truncated {
                offset: self.offset,
                item,
            });
        }
        if Hash::checksum(&self.block) != checksum {
            let problem = format!("{item} does not match its checksum");
            return Err(ReadError::Damaged {
                offset: self.block_offset,
                problem,
            });
        }
        (self.at, self.time) = (0, 0);
        Ok(())
    }

    fn damaged(&self, error: DecodeError) -> ReadError {
        ReadError::Damaged {
            offset: self.block_offset + error.at as u64,
            problem: error.problem.to_owned(),
        }
    }

    /// Reads the last item of the file and compares it with the records read.
    fn read_end(&mut self) -> Result<(), ReadError> {
        let start = self.offset - 1;
        let body: [u8; 24] = self.array("its last 25 bytes")?;
        let word = |i: usize| u64::from_le_bytes(body[i * 8..][..8].try_into().unwrap_or_default());
        let trailer = Trailer {
            count: word(0),
            hash: word(1),
        };
        let error = |problem: String| Err(ReadError::Damaged { offset: start, problem });
        if trailer.encode()[1..] != body {
            return error("the last item does not match its checksum".into());
        }
        if trailer.count != self.hash.count() {
            return error(format!(
                "expected {} records, found {}",
                trailer.count,
                self.hash.count()
            ));
        }
        if trailer.hash != self.hash.value() {
            return error(format!(
                "expected trace hash {:016x}, found {}",
                trailer.hash, self.hash
            ));
        }
        let mut more = Vec::new();
        self.read_up_to(1, &mut more)?;
        if !more.is_empty() {
            return Err(ReadError::Damaged {
                offset: self.offset - 1,
                problem: "there are bytes after the last item".into(),
            });
        }
        self.trailer = Some(trailer);
        Ok(())
    }

    /// Reads the run's result, a block of UTF-8 text.
    fn read_result(&mut self) -> Result<(), ReadError> {
        self.read_block("the result")?;
        let text = String::from_utf8(std::mem::take(&mut self.block));
        self.at = 0;
        self.result = Some(text.map_err(|_| ReadError::Damaged {
            offset: self.block_offset,
            problem: "the result is not UTF-8".into(),
        })?);
        Ok(())
    }

    fn read_snapshot(&mut self) -> Result<(), ReadError> {
        self.read_block("the snapshot")?;
        let snapshot = Snapshot::decode(&self.block).map_err(|error| self.damaged(error))?;
        self.block.clear();
        self.at = 0;
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// Reads blocks until a block contains a record, and decodes that record. Returns `None` at the
    /// end of the trace.
    fn read_record(&mut self) -> Result<Option<Record>, ReadError> {
        while self.at >= self.block.len() {
            let [kind] = self.array("the list of blocks (its end is missing)")?;
            match kind {
                b'B' => self.read_block("a block")?,
                b'R' => self.read_result()?,
                b'S' => self.read_snapshot()?,
                b'E' => return self.read_end().map(|()| None),
                _ => {
                    let problem = format!("a block or the last item must begin here, found byte {kind:#04x}");
                    return Err(ReadError::Damaged {
                        offset: self.offset - 1,
                        problem,
                    });
                }
            }
        }
        let mut decoder = Decoder::new(&self.block, self.at, self.time);
        let record = decoder.get().map_err(|e| self.damaged(e))?;
        if let Some(record) = &record {
            if let Some(cpu) = cpu_beyond(record, self.header.cpus.len()) {
                let problem = format!(
                    "the record names CPU {cpu}, but the machine has {} CPUs",
                    self.header.cpus.len()
                );
                return Err(ReadError::Damaged {
                    offset: self.block_offset + self.at as u64,
                    problem,
                });
            }
            if record.time > TIME_MAX {
                return Err(ReadError::Damaged {
                    offset: self.block_offset + self.at as u64,
                    problem: format!(
                        "the record's time of {} ns is after the latest possible time, {TIME_MAX} ns",
                        record.time
                    ),
                });
            }
            self.hash.add(record);
        }
        (self.at, self.time) = (decoder.at(), decoder.time());
        Ok(record)
    }
}

/// Returns the number of a CPU that a record contains but the machine does not have, if there is
/// one.
fn cpu_beyond(record: &Record, cpus: usize) -> Option<u32> {
    let (a, b) = match record.event {
        Event::Wakeup { target, .. } | Event::Ipi { target } => (target, target),
        Event::Migrate { from, to, .. } => (from, to),
        _ => (record.cpu, record.cpu),
    };
    [record.cpu, a, b].into_iter().find(|&cpu| cpu as usize >= cpus)
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = self.read_record().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}
