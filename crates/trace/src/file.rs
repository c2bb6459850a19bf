// SPDX-License-Identifier: GPL-2.0-only
//! Trace files: written in a stream, read in a stream, checked while read.
//!
//! All fixed-size numbers are little-endian.
//!
//! ```text
//! "WTRACE\r\n"  version u32  length u32  checksum u64  header            the run
//! 'B'           length u32   checksum u64  records                       a block, any number of them
//! 'R'           length u32   checksum u64  text                          what the run said of itself, if it did
//! 'E'           count u64    hash u64      checksum u64                  the end
//! ```
//!
//! Times of a block are relative to 0 at its start, so blocks stand alone. The checksum of the
//! end covers count and hash; the hash is the run's trace hash and the reader recomputes it.

use crate::encode::{DecodeError, Decoder, Encoder, VERSION};
use crate::event::{Event, Record, Sink};
use crate::hash::Hash;
use crate::header::Header;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"WTRACE\r\n";
/// A block is written once it has this many bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// No block or header may be longer; it bounds what a reader of damaged files allocates.
const BLOCK_MAX: usize = 16 << 20;
/// No record may be later, ns: 146 years. Sums of a few times stay below 2^64.
const TIME_MAX: u64 = 1 << 62;

/// What stands at the end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Number of records.
    pub count: u64,
    /// [`Hash::value`] over all of them.
    pub hash: u64,
}

/// Writes a trace. Keeps one block in memory; after an I/O error it writes nothing more and
/// [`Writer::finish`] tells the error. A writer that is dropped leaves a file that reads as truncated.
pub struct Writer<W: Write> {
    to: W,
    block: Vec<u8>,
    encoder: Encoder,
    hash: Hash,
    failed: Option<io::Error>,
}

impl<W: Write> Writer<W> {
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
        start.extend((body.len() as u32).to_le_bytes());
        start.extend(Hash::of_bytes(&body).to_le_bytes());
        start.extend(&body);
        if body.len() > BLOCK_MAX {
            writer.failed = Some(too_long("the header"));
        } else {
            writer.failed = writer.to.write_all(&start).err();
        }
        writer
    }

    fn write_block(&mut self, kind: u8) {
        if self.failed.is_none() && self.block.len() > BLOCK_MAX {
            self.failed = Some(too_long("a record"));
        }
        if self.failed.is_none() && !self.block.is_empty() {
            let mut head = [kind; 13];
            head[1..5].copy_from_slice(&(self.block.len() as u32).to_le_bytes());
            head[5..].copy_from_slice(&Hash::of_bytes(&self.block).to_le_bytes());
            self.failed = self
                .to
                .write_all(&head)
                .and_then(|()| self.to.write_all(&self.block))
                .err();
        }
        self.block.clear();
        self.encoder = Encoder::new();
    }

    /// Writes what the run says of itself that its records do not; [`Reader::result`] gives it back.
    pub fn result(&mut self, text: &str) {
        self.write_block(b'B');
        self.block.extend_from_slice(text.as_bytes());
        self.write_block(b'R');
    }

    /// Writes the end and flushes.
    ///
    /// # Errors
    /// The first I/O error since [`Writer::new`].
    pub fn finish(self) -> io::Result<Trailer> {
        self.finish_into().map(|(trailer, _)| trailer)
    }

    /// Writes the end, flushes and returns what it was written to.
    ///
    /// # Errors
    /// As [`Writer::finish`].
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

fn too_long(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{what} is too long for a trace file ({BLOCK_MAX} bytes at most)"),
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
        let checksum = Hash::of_bytes(&bytes[1..17]);
        bytes[17..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// Why a trace cannot be read (further).
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("trace: cannot read at byte {offset}: {source}")]
    Io { offset: u64, source: io::Error },
    #[error("trace: not a trace file: it does not begin with the magic WTRACE")]
    NotATrace,
    #[error("trace: version {found} of the format; this program reads version {VERSION}")]
    Version { found: u32 },
    #[error("trace: the file ends at byte {offset}, within {what}; was the run interrupted?")]
    Truncated { offset: u64, what: &'static str },
    #[error("trace: damaged at byte {offset}: {what}")]
    Damaged { offset: u64, what: String },
}

/// Reads a trace. Iterates over its records; after an error there is nothing more.
/// Every block's checksum, and at the end the number of records and their hash, are checked.
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
    trailer: Option<Trailer>,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// I/O; no trace; another version; truncated or damaged header.
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

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What the run said of itself, if it did: known once the end was reached.
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// The end of the trace, once it was reached.
    pub fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    fn read_up_to(&mut self, len: usize, into: &mut Vec<u8>) -> Result<(), ReadError> {
        into.clear();
        // Grows with what is there, not with what a damaged length claims.
        let got = self.from.by_ref().take(len as u64).read_to_end(into);
        self.offset += into.len() as u64;
        got.map(|_| ()).map_err(|source| ReadError::Io {
            offset: self.offset,
            source,
        })
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ReadError> {
        let mut bytes = Vec::new();
        self.read_up_to(N, &mut bytes)?;
        bytes.try_into().map_err(|_| ReadError::Truncated {
            offset: self.offset,
            what,
        })
    }

    /// Reads length, checksum and body into `block`.
    fn read_block(&mut self, what: &'static str) -> Result<(), ReadError> {
        let start = self.offset;
        let len = u32::from_le_bytes(self.array(what)?) as usize;
        if len > BLOCK_MAX {
            let what = format!("{what} of {len} bytes; {BLOCK_MAX} is the most");
            return Err(ReadError::Damaged { offset: start, what });
        }
        let checksum = u64::from_le_bytes(self.array(what)?);
        self.block_offset = self.offset;
        let mut block = std::mem::take(&mut self.block);
        let read = self.read_up_to(len, &mut block);
        self.block = block;
        read?;
        if self.block.len() < len {
            return Err(ReadError::Truncated {
                offset: self.offset,
                what,
            });
        }
        if Hash::of_bytes(&self.block) != checksum {
            let what = format!("the checksum of {what} differs");
            return Err(ReadError::Damaged {
                offset: self.block_offset,
                what,
            });
        }
        (self.at, self.time) = (0, 0);
        Ok(())
    }

    fn damaged(&self, error: DecodeError) -> ReadError {
        ReadError::Damaged {
            offset: self.block_offset + error.at as u64,
            what: error.what.to_owned(),
        }
    }

    fn read_end(&mut self) -> Result<(), ReadError> {
        let start = self.offset - 1;
        let body: [u8; 24] = self.array("its last 25 bytes")?;
        let word = |i: usize| u64::from_le_bytes(body[i * 8..][..8].try_into().unwrap_or_default());
        let trailer = Trailer {
            count: word(0),
            hash: word(1),
        };
        let error = |what: String| Err(ReadError::Damaged { offset: start, what });
        if trailer.encode()[1..] != body {
            return error("the checksum of the end differs".into());
        }
        if trailer.count != self.hash.count() {
            return error(format!(
                "{} records announced, {} found",
                trailer.count,
                self.hash.count()
            ));
        }
        if trailer.hash != self.hash.value() {
            return error(format!(
                "trace hash {:016x} announced, {} found",
                trailer.hash, self.hash
            ));
        }
        let mut more = Vec::new();
        self.read_up_to(1, &mut more)?;
        if !more.is_empty() {
            return Err(ReadError::Damaged {
                offset: self.offset - 1,
                what: "bytes after the end".into(),
            });
        }
        self.trailer = Some(trailer);
        Ok(())
    }

    fn read_result(&mut self) -> Result<(), ReadError> {
        self.read_block("the result")?;
        let text = String::from_utf8(std::mem::take(&mut self.block));
        self.at = 0;
        self.result = Some(text.map_err(|_| ReadError::Damaged {
            offset: self.block_offset,
            what: "the result is not UTF-8".into(),
        })?);
        Ok(())
    }

    fn read_record(&mut self) -> Result<Option<Record>, ReadError> {
        while self.at >= self.block.len() {
            let [kind] = self.array("the list of blocks (its end is missing)")?;
            match kind {
                b'B' => self.read_block("a block")?,
                b'R' => self.read_result()?,
                b'E' => return self.read_end().map(|()| None),
                _ => {
                    let what = format!("byte {kind:#04x} where a block or the end should begin");
                    return Err(ReadError::Damaged {
                        offset: self.offset - 1,
                        what,
                    });
                }
            }
        }
        let mut decoder = Decoder::new(&self.block, self.at, self.time);
        let record = decoder.get().map_err(|e| self.damaged(e))?;
        if let Some(record) = &record {
            if let Some(cpu) = cpu_beyond(record, self.header.cpus.len()) {
                let what = format!("CPU {cpu} of {}", self.header.cpus.len());
                return Err(ReadError::Damaged {
                    offset: self.block_offset + self.at as u64,
                    what,
                });
            }
            if record.time > TIME_MAX {
                return Err(ReadError::Damaged {
                    offset: self.block_offset + self.at as u64,
                    what: format!("time {} ns: {TIME_MAX} is the latest", record.time),
                });
            }
            self.hash.add(record);
        }
        (self.at, self.time) = (decoder.at(), decoder.time());
        Ok(record)
    }
}

/// The first CPU of a record that the machine does not have.
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
