// SPDX-License-Identifier: GPL-2.0-only
//! Reads perf.data files, and what perf writes to a pipe (`perf record -o -`).
//!
//! ```text
//! file:   "PERFILE2" | sizes and places | attributes | records ... | features
//! pipe:   "PERFILE2" | 16 | records, among them attributes and features
//! record: type (u32) | flags (u16) | size (u16) | content
//! ```
//!
//! A sample of a tracepoint contains the event as the kernel's ring buffer does, so the feature
//! with the kernel's descriptions ([`TracingData`]) is needed to read it.
//!
//! `perf record -z` compresses the records. All compressed records are one stream, which perf does
//! not end. The reader therefore goes through the records a second time, reads this stream, and
//! adds an empty last block.

use super::compressed::{self, Method};
use super::damage::Damage;
use super::events::Formats;
use super::input::{Cursor, Input, Order, Span};
use super::line::MAX_CPUS;
use super::names::Lines;
use super::tracing_data::TracingData;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

pub const MAGIC: &[u8] = b"PERFILE2";
/// The magic number of a machine with the other byte order.
pub const MAGIC_BIG: &[u8] = b"2ELIFREP";

const LOST: u64 = 2;
const COMM: u64 = 3;
const SAMPLE: u64 = 9;
const LOST_SAMPLES: u64 = 13;
const HEADER_ATTR: u64 = 64;
const HEADER_TRACING_DATA: u64 = 66;
const AUXTRACE: u64 = 71;
const HEADER_FEATURE: u64 = 80;
const COMPRESSED: u64 = 81;
const COMPRESSED2: u64 = 83;
/// Numbers of features.
const FEATURE_TRACING_DATA: u64 = 1;
const FEATURE_NRCPUS: u64 = 7;
const FEATURES: u64 = 256;
/// Sizes of the headers of a pipe and of a record.
const PIPE_HEADER: u64 = 16;
const RECORD_HEADER: u64 = 8;
/// Maximum number of attributes. perf writes one for each event that it records.
const MAX_ATTRIBUTES: u64 = 1 << 16;

/// Bits of sample_type, in the order in which a sample contains the fields.
const IDENTIFIER: u64 = 1 << 16;
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const ID: u64 = 1 << 6;
const STREAM_ID: u64 = 1 << 9;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const RAW: u64 = 1 << 10;

/// Form of the samples of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Form {
    sample_type: u64,
    read_format: u64,
}

/// What is needed to read samples.
#[derive(Default)]
struct Session {
    order: Order,
    /// Form of the first event.
    form: Option<Form>,
    /// Whether other events have other forms.
    differ: bool,
    /// Form of each event by the event's id.
    by_id: BTreeMap<u64, Form>,
    tracing: Option<TracingData>,
}

/// Reads a file.
///
/// # Errors
/// Fails if the file is damaged, or lacks what is needed to read its samples.
pub fn read(input: &dyn Input) -> Result<Lines, Damage> {
    let mut cursor = Cursor::new(Span::whole(input), Order::Little);
    let magic = cursor.part(8)?;
    if magic == MAGIC_BIG {
        cursor.order = Order::Big;
    }
    let mut session = Session {
        order: cursor.order,
        ..Session::default()
    };
    let mut lines = Lines::default();
    let (begin, length) = match cursor.number::<8>()? {
        PIPE_HEADER => (PIPE_HEADER, u64::MAX),
        _ => session.file_header(input, &mut cursor, &mut lines)?,
    };
    let mut is_compressed = false;
    let mut records = Records::new(input, begin, length, session.order);
    let is_pipe = length == u64::MAX;
    loop {
        match records.next() {
            Ok(None) => break,
            Ok(Some((COMPRESSED | COMPRESSED2, _))) => is_compressed = true,
            Ok(Some((kind, content))) => session.record(kind, &content, &mut records, &mut lines)?,
            // A pipe ends anywhere if a signal ends perf.
            Err(_) if is_pipe => {
                lines.add_gap(0);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if is_compressed {
        let payload = Payload {
            records: Records::new(input, begin, length, session.order),
            content: Vec::new(),
            at: 0,
        };
        let unpacked = compressed::reader(Method::Zstd, BufReader::new(payload).chain(&compressed::LAST_BLOCK[..]));
        let unpacked = unpacked?;
        let mut records = Records {
            cursor: Cursor::new(Box::new(unpacked), session.order),
        };
        while let Some((kind, content)) = records.next()? {
            session.record(kind, &content, &mut records, &mut lines)?;
        }
    }
    Ok(lines)
}

/// Reads records one after the other.
struct Records<'a> {
    cursor: Cursor<Box<dyn Read + 'a>>,
}

impl<'a> Records<'a> {
    fn new(input: &'a dyn Input, at: u64, length: u64, order: Order) -> Records<'a> {
        let reader = BufReader::with_capacity(1 << 16, Span::new(input, at, length));
        Records {
            cursor: Cursor::new(Box::new(reader), order),
        }
    }

    /// Returns the type and the content of the next record, or `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, Damage> {
        let mut header = [0; 8];
        let mut length = 0;
        while length < header.len() {
            match self.cursor.read(&mut header[length..]) {
                Ok(0) if length == 0 => return Ok(None),
                Ok(0) => return Err(Damage::EndsInside("a record")),
                Ok(read) => length += read,
                Err(error) => return Err(error.into()),
            }
        }
        let order = self.cursor.order;
        let (kind, size) = (order.number(&header[..4]), order.number(&header[6..]));
        let Some(size) = size.checked_sub(RECORD_HEADER) else {
            return Err(format!("a record of {size} bytes is shorter than its header").into());
        };
        let content = self.cursor.part(size)?;
        // The data of these records follow them.
        if kind == AUXTRACE {
            self.cursor.skip(order.get::<8>(&content, 0).unwrap_or(0))?;
        }
        Ok(Some((kind, content)))
    }
}

/// The content of the compressed records.
struct Payload<'a> {
    records: Records<'a>,
    content: Vec<u8>,
    at: usize,
}

impl Read for Payload<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.content.len() {
            // The first pass has reported an incomplete record.
            match self.records.next().unwrap_or(None) {
                None => return Ok(0),
                Some((COMPRESSED, content)) => (self.content, self.at) = (content, 0),
                Some((COMPRESSED2, content)) => {
                    // The size of the data precedes them, and padding follows them.
                    let size = self.records.cursor.order.get::<8>(&content, 0).unwrap_or(0);
                    let size = usize::try_from(size).unwrap_or(usize::MAX);
                    let data = content.get(8..size.saturating_add(8));
                    let error = || io::Error::other("a compressed record is shorter than its data");
                    (self.content, self.at) = (data.ok_or_else(error)?.to_vec(), 0);
                }
                Some((HEADER_TRACING_DATA, content)) => {
                    let size = self.records.cursor.order.get::<4>(&content, 0).unwrap_or(0);
                    self.records.cursor.skip(padded(size)).map_err(io::Error::other)?;
                }
                Some(_) => {}
            }
        }
        let mut rest = &self.content[self.at..];
        let read = rest.read(into)?;
        self.at += read;
        Ok(read)
    }
}

/// Returns a size that is a multiple of 8.
fn padded(size: u64) -> u64 {
    size.saturating_add(7) & !7
}

impl Session {
    /// Reads the header of a file, its attributes, and its features. Returns the place and the
    /// length of the records.
    fn file_header(
        &mut self,
        input: &dyn Input,
        cursor: &mut Cursor<Span>,
        lines: &mut Lines,
    ) -> Result<(u64, u64), Damage> {
        let attribute = cursor.number::<8>()?;
        let (attributes_at, attributes_size) = (cursor.number::<8>()?, cursor.number::<8>()?);
        let (at, length) = (cursor.number::<8>()?, cursor.number::<8>()?);
        if length == 0 {
            return Err("it is incomplete: perf was ended before it wrote the size of its data".into());
        }
        // The names of events, which newer files do not contain.
        cursor.part(16)?;
        let mut words = [0; 4];
        for word in &mut words {
            *word = cursor.number::<8>()?;
        }
        if !(16..=4096).contains(&attribute) || attributes_size / attribute > MAX_ATTRIBUTES {
            return Err("its attributes have an impossible size".into());
        }
        for number in 0..attributes_size / attribute {
            let place = attributes_at.saturating_add(number * attribute);
            let bytes = Cursor::new(Span::new(input, place, attribute), self.order).part(attribute)?;
            // The place and the size of the event's ids follow the attribute.
            let (attribute, place) = bytes.split_at(bytes.len() - 16);
            let (at, size) = (self.order.number(&place[..8]), self.order.number(&place[8..]));
            let ids = Cursor::new(Span::new(input, at, size), self.order).part(size)?;
            self.attribute(attribute, &ids)?;
        }
        let mut place = at.saturating_add(length);
        for feature in 0..FEATURES {
            let word = words[usize::try_from(feature / 64).unwrap_or(0)];
            if word & 1 << (feature % 64) == 0 {
                continue;
            }
            let mut section = Cursor::new(Span::new(input, place, 16), self.order);
            let (at, size) = (section.number::<8>()?, section.number::<8>()?);
            place += 16;
            let mut section = Cursor::new(BufReader::new(Span::new(input, at, size)), self.order);
            match feature {
                FEATURE_TRACING_DATA => self.tracing_data(&mut section)?,
                FEATURE_NRCPUS => lines.nr_cpus = nr_cpus(section.number::<4>()?),
                _ => {}
            }
        }
        Ok((at, length))
    }

    fn tracing_data<R: Read>(&mut self, section: &mut Cursor<R>) -> Result<(), Damage> {
        let mut tracing = TracingData::begin(section)?;
        tracing.read_parts(section)?;
        self.tracing = Some(tracing);
        Ok(())
    }

    /// Reads the attribute of an event, and the ids of its samples.
    fn attribute(&mut self, attribute: &[u8], ids: &[u8]) -> Result<(), Damage> {
        let number = |at| self.order.get::<8>(attribute, at);
        let (Some(sample_type), Some(read_format)) = (number(24), number(32)) else {
            return Err("an attribute is too short".into());
        };
        let form = Form {
            sample_type,
            read_format,
        };
        self.differ |= *self.form.get_or_insert(form) != form;
        for id in ids.chunks_exact(8) {
            self.by_id.insert(self.order.number(id), form);
        }
        Ok(())
    }

    fn record(&mut self, kind: u64, content: &[u8], records: &mut Records, lines: &mut Lines) -> Result<(), Damage> {
        let order = self.order;
        match kind {
            SAMPLE => self.sample(content, lines),
            LOST => {
                lines.add_gap(order.get::<8>(content, 8).unwrap_or(0));
                Ok(())
            }
            LOST_SAMPLES => {
                lines.add_gap(order.get::<8>(content, 0).unwrap_or(0));
                Ok(())
            }
            COMM => {
                if let (Some(tid), Some(name)) = (order.get_u32(content, 4), content.get(8..)) {
                    let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
                    let name = String::from_utf8_lossy(name).into_owned();
                    lines.known.entry(tid).or_insert(name);
                }
                Ok(())
            }
            HEADER_ATTR => {
                // The attribute contains its size. The ids follow it.
                let size = order.get::<4>(content, 4).map_or(0, |size| size.max(64));
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let (Some(attribute), Some(ids)) = (content.get(..size), content.get(size..)) else {
                    return Err("an attribute is too short".into());
                };
                self.attribute(attribute, ids)
            }
            HEADER_TRACING_DATA => {
                let size = padded(order.get::<4>(content, 0).unwrap_or(0));
                let mut section = Cursor::new(Read::take(&mut records.cursor, size), order);
                self.tracing_data(&mut section)?;
                let left = section.limit();
                section.skip(left)
            }
            HEADER_FEATURE => {
                if order.get::<8>(content, 0) == Some(FEATURE_NRCPUS) {
                    lines.nr_cpus = nr_cpus(order.get::<4>(content, 8).unwrap_or(0));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads a sample, and adds its event if it is one of those of [`super::EVENTS`].
    fn sample(&self, content: &[u8], lines: &mut Lines) -> Result<(), Damage> {
        let Some(tracing) = &self.tracing else {
            return Ok(());
        };
        let form = match self.differ {
            // Then all events contain their id first.
            true => self.order.get::<8>(content, 0).and_then(|id| self.by_id.get(&id)),
            false => self.form.as_ref(),
        };
        let form = form.ok_or("a sample belongs to no event of the file")?;
        let sample = Sample::parse(content, *form, self.order).ok_or("a sample is shorter than its fields")?;
        sample.map_or(Ok(()), |sample| sample.add(&tracing.formats, lines))
    }
}

fn nr_cpus(number: u64) -> u32 {
    u32::try_from(number).ok().filter(|&cpus| cpus <= MAX_CPUS).unwrap_or(0)
}

/// The fields of a sample that are used.
struct Sample<'a> {
    time: u64,
    cpu: u32,
    raw: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Returns `None` if the sample is too short, and `Some(None)` if it belongs to no tracepoint.
    fn parse(content: &'a [u8], form: Form, order: Order) -> Option<Option<Sample<'a>>> {
        let has = |bit| form.sample_type & bit != 0;
        if !has(RAW) {
            return Some(None);
        }
        let (mut time, mut cpu) = (None, None);
        let mut at = 0;
        for bit in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if has(bit) {
                let word = order.get::<8>(content, at)?;
                match bit {
                    TIME => time = Some(word),
                    CPU => cpu = order.get_u32(content, at),
                    _ => {}
                }
                at += 8;
            }
        }
        let count = |at: usize| usize::try_from(order.get::<8>(content, at)?).ok();
        if has(READ) {
            // Values, each with an id and a number of lost samples; in a group, several of them.
            let format = |bit: u64| usize::from(form.read_format & bit != 0);
            let (times, each) = (format(1) + format(2), 1 + format(4) + format(16));
            let words = match form.read_format & 8 {
                0 => each + times,
                _ => count(at)?.checked_mul(each)?.checked_add(1 + times)?,
            };
            at = words.checked_mul(8)?.checked_add(at)?;
        }
        if has(CALLCHAIN) {
            at = count(at)?.checked_add(1)?.checked_mul(8)?.checked_add(at)?;
        }
        let length = usize::try_from(order.get::<4>(content, at)?).ok()?;
        let raw = content.get(at + 4..)?.get(..length)?;
        let (Some(time), Some(cpu)) = (time, cpu) else {
            return Some(None);
        };
        Some(Some(Sample { time, cpu, raw }))
    }

    fn add(&self, formats: &Formats, lines: &mut Lines) -> Result<(), Damage> {
        if self.cpu >= MAX_CPUS {
            return Err(Damage::Cpu(self.cpu.into()));
        }
        if let Some(line) = formats.line(self.time, self.cpu, self.raw)? {
            lines.add(&line);
        }
        Ok(())
    }
}
