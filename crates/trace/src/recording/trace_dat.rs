// SPDX-License-Identifier: GPL-2.0-only
//! Reads trace.dat files of trace-cmd: versions 6 and 7.
//!
//! A file has the kernel's descriptions of events ([`TracingData`]), options, and for each CPU the
//! pages of its ring buffer. In version 7, each part is a section, which can be compressed:
//!
//! ```text
//! section:  id (u16) | flags (u16) | name (u32) | size (u64) | content
//! content, if compressed:        size (u32) | uncompressed size (u32) | bytes
//! pages of a CPU, if compressed: chunks (u32) | for each chunk the two sizes and bytes
//! ```

use super::compressed::{self, Method};
use super::damage::Damage;
use super::input::{Cursor, Input, Order, Span};
use super::line::MAX_CPUS;
use super::names::Lines;
use super::tracing_data::{TracingData, page_size};
use std::io::{BufReader, Read};

/// Options, which are sections in version 7.
const DONE: u64 = 0;
const BUFFER: u64 = 3;
const CPU_COUNT: u64 = 8;
const HEADERS: u64 = 16;
const FTRACE_FORMATS: u64 = 17;
const FORMATS: u64 = 18;
const NAMES: u64 = 21;
/// Flag of a compressed section.
const COMPRESSED: u64 = 1;
/// Maximum number of blocks of options. Real files have a few.
const MAX_BLOCKS: u32 = 1 << 16;

/// Recorded pages of one CPU.
struct Part {
    cpu: u32,
    at: u64,
    size: u64,
}

/// Pages of one buffer. trace-cmd can record several: one for each instance of tracefs.
struct Buffer {
    name: String,
    parts: Vec<Part>,
    page: usize,
    compressed: bool,
}

/// Reads a file. `input` is uncompressed.
///
/// # Errors
/// Fails if the file is damaged or has an unknown version or compression.
pub fn read(input: &dyn Input) -> Result<Lines, Damage> {
    let mut cursor = Cursor::new(BufReader::new(Span::whole(input)), Order::Little);
    let mut data = TracingData::begin(&mut cursor)?;
    let mut lines = Lines::default();
    let (buffers, method) = match data.version {
        6 => (version_6(input, &mut cursor, &mut data, &mut lines)?, Method::None),
        7 => version_7(input, &mut cursor, &mut data, &mut lines)?,
        other => {
            return Err(format!("version {other} of trace.dat is unknown: versions 6 and 7 can be read").into());
        }
    };
    lines.known = std::mem::take(&mut data.names);
    // The buffers of instances may contain the same events as the main buffer.
    let (main, instances): (Vec<_>, Vec<_>) = buffers.into_iter().partition(|buffer| buffer.name.is_empty());
    for buffer in main {
        read_buffer(input, &buffer, method, &data, &mut lines)?;
    }
    if lines.lines.is_empty() {
        for buffer in instances {
            read_buffer(input, &buffer, method, &data, &mut lines)?;
        }
    }
    Ok(lines)
}

fn cpu_count(number: u64) -> Result<u32, Damage> {
    match u32::try_from(number).ok().filter(|&count| count <= MAX_CPUS) {
        Some(count) => Ok(count),
        None => Err(format!("{number} CPUs are more than the maximum of Linux, {MAX_CPUS}").into()),
    }
}

/// Reads all but the events of a file of version 6.
fn version_6<R: Read>(
    input: &dyn Input,
    cursor: &mut Cursor<R>,
    data: &mut TracingData,
    lines: &mut Lines,
) -> Result<Vec<Buffer>, Damage> {
    data.read_parts(cursor)?;
    lines.nr_cpus = cpu_count(cursor.number::<4>()?)?;
    let mut others = Vec::new();
    let mut kind = cursor.part(10)?;
    if kind == b"options  \0" {
        loop {
            let option = cursor.number::<2>()?;
            if option == DONE {
                break;
            }
            let content = cursor.sized::<4>()?;
            if option == BUFFER {
                let mut content = Cursor::new(content.as_slice(), data.pages.order);
                others.push((content.number::<8>()?, content.text()?));
            }
        }
        kind = cursor.part(10)?;
    }
    if kind == b"latency  \0" {
        return Err("this file contains the text of a latency tracer: use the output of 'trace-cmd report'".into());
    }
    let mut buffers = vec![offsets(cursor, &kind, String::new(), lines.nr_cpus, data.pages.size)?];
    for (at, name) in others {
        let mut cursor = Cursor::new(Span::new(input, at, u64::MAX), data.pages.order);
        let kind = cursor.part(10)?;
        buffers.push(offsets(&mut cursor, &kind, name, lines.nr_cpus, data.pages.size)?);
    }
    Ok(buffers)
}

/// Reads the places of the CPUs' pages in a file of version 6.
fn offsets<R: Read>(
    cursor: &mut Cursor<R>,
    kind: &[u8],
    name: String,
    nr_cpus: u32,
    page: usize,
) -> Result<Buffer, Damage> {
    if kind != b"flyrecord\0" {
        return Err("the places of the events are missing".into());
    }
    let mut parts = Vec::new();
    for cpu in 0..nr_cpus {
        let (at, size) = (cursor.number::<8>()?, cursor.number::<8>()?);
        parts.push(Part { cpu, at, size });
    }
    Ok(Buffer {
        name,
        parts,
        page,
        compressed: false,
    })
}

/// A section of a file of version 7.
struct Section {
    id: u64,
    compressed: bool,
    /// Place and size of its content.
    at: u64,
    size: u64,
}

fn section(input: &dyn Input, at: u64, order: Order) -> Result<Section, Damage> {
    const HEADER: u64 = 16;
    let mut cursor = Cursor::new(Span::new(input, at, HEADER), order);
    let (id, flags) = (cursor.number::<2>()?, cursor.number::<2>()?);
    cursor.number::<4>()?;
    Ok(Section {
        id,
        compressed: flags & COMPRESSED != 0,
        at: at.saturating_add(HEADER),
        size: cursor.number::<8>()?,
    })
}

/// Returns the content of a section, decompressed.
fn content(input: &dyn Input, section: &Section, method: Method, order: Order) -> Result<Vec<u8>, Damage> {
    let mut cursor = Cursor::new(Span::new(input, section.at, section.size), order);
    match section.compressed {
        true => chunk(&mut cursor, method),
        false => cursor.part(section.size),
    }
}

/// Reads a compressed chunk.
fn chunk<R: Read>(cursor: &mut Cursor<R>, method: Method) -> Result<Vec<u8>, Damage> {
    let (packed, size) = (cursor.number::<4>()?, cursor.number::<4>()?);
    let packed = cursor.part(packed)?;
    compressed::decompress(method, &packed, size)
}

/// Reads all but the events of a file of version 7.
fn version_7<R: Read>(
    input: &dyn Input,
    cursor: &mut Cursor<R>,
    data: &mut TracingData,
    lines: &mut Lines,
) -> Result<(Vec<Buffer>, Method), Damage> {
    let (method, _) = (cursor.text()?, cursor.text()?);
    let method = match method.as_str() {
        "none" => Method::None,
        "zlib" => Method::Zlib,
        "zstd" => Method::Zstd,
        other => return Err(format!("the compression '{other}' of this trace.dat file is unknown").into()),
    };
    let order = data.pages.order;
    let mut buffers = Vec::new();
    let mut next = cursor.number::<8>()?;
    for _ in 0..MAX_BLOCKS {
        let block = section(input, next, order)?;
        if block.id != DONE {
            return Err("the options of this trace.dat file are missing".into());
        }
        let block = content(input, &block, method, order)?;
        let mut options = Cursor::new(block.as_slice(), order);
        next = loop {
            let option = options.number::<2>()?;
            let value = options.sized::<4>()?;
            let mut value = Cursor::new(value.as_slice(), order);
            match option {
                DONE => break value.number::<8>()?,
                CPU_COUNT => lines.nr_cpus = cpu_count(value.number::<4>()?)?,
                BUFFER => buffers.push(buffer(input, &mut value, order)?),
                HEADERS | FTRACE_FORMATS | FORMATS | NAMES => {
                    let part = section(input, value.number::<8>()?, order)?;
                    let part = content(input, &part, method, order)?;
                    let part = &mut Cursor::new(part.as_slice(), order);
                    match option {
                        HEADERS => data.read_headers(part)?,
                        FTRACE_FORMATS => data.read_ftrace_formats(part)?,
                        FORMATS => data.read_formats(part)?,
                        _ => data.read_names(part)?,
                    }
                }
                _ => {}
            }
        };
        if next == 0 {
            return Ok((buffers, method));
        }
    }
    Err("the options of this trace.dat file have no end".into())
}

/// Reads the option that describes a buffer.
fn buffer(input: &dyn Input, value: &mut Cursor<&[u8]>, order: Order) -> Result<Buffer, Damage> {
    let section = section(input, value.number::<8>()?, order)?;
    let name = value.text()?;
    value.text()?;
    let page = page_size(value.number::<4>()?)?;
    let mut parts = Vec::new();
    for _ in 0..cpu_count(value.number::<4>()?)? {
        let cpu = value.number::<4>()?;
        let (at, size) = (value.number::<8>()?, value.number::<8>()?);
        let cpu = cpu_count(cpu)?;
        parts.push(Part { cpu, at, size });
    }
    Ok(Buffer {
        name,
        parts,
        page,
        compressed: section.compressed,
    })
}

/// Reads the events of a buffer, one page at a time.
fn read_buffer(
    input: &dyn Input,
    buffer: &Buffer,
    method: Method,
    data: &TracingData,
    lines: &mut Lines,
) -> Result<(), Damage> {
    let mut pages = data.pages;
    pages.size = buffer.page;
    for part in buffer.parts.iter().filter(|part| part.size > 0) {
        if part.at.saturating_add(part.size) > input.length() {
            return Err(format!("the file ends before the events of CPU {}: it is incomplete", part.cpu).into());
        }
        // The size does not include the number of compressed chunks.
        let size = if buffer.compressed { u64::MAX } else { part.size };
        let mut cursor = Cursor::new(BufReader::new(Span::new(input, part.at, size)), pages.order);
        let mut read = |content: &[u8]| {
            content
                .chunks(pages.size)
                .try_for_each(|page| pages.read(part.cpu, page, &data.formats, lines))
        };
        if buffer.compressed {
            for _ in 0..cursor.number::<4>()? {
                read(&chunk(&mut cursor, method)?)?;
            }
        } else {
            let mut left = part.size;
            while left > 0 {
                let length = left.min(pages.size as u64);
                read(&cursor.part(length)?)?;
                left -= length;
            }
        }
    }
    Ok(())
}
