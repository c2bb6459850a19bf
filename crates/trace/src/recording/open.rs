// SPDX-License-Identifier: GPL-2.0-only
//! Opens a recording in any of the formats that can be read.

use super::builder::Builder;
use super::compressed::{self, Method};
use super::damage::Damage;
use super::input::{Input, Span, Watched};
use super::kind::{self, Format};
use super::names::Lines;
use super::text::read_text;
use super::{EVENTS_HINT, Recording, RecordingError, ctf, perf_data, perfetto, schedviz, trace_dat};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Number of bytes at the beginning of a file by which its format is recognized.
const EXAMINED: u64 = 4096;
const FTRACE_HINT: &str = "Perfetto traces need the ftrace events of the scheduler: record with the data source linux.ftrace, or with \
     'wprof -e sched' ('wprof -R -e sched -T FILE' converts an existing wprof.data)";
const DAMAGED_HINT: &str = "if the tool that wrote the file can read it, please report a bug";

/// Reads the recording in a file, or a CTF trace in a directory. The file can be compressed by gzip
/// or zstd. Its name appears in messages only.
///
/// # Errors
/// Fails if the file cannot be read, has none of the formats, or is damaged, and as [`super::read`]
/// does.
pub fn open(path: &Path) -> Result<Recording, RecordingError> {
    open_watched(path, &|_| {})
}

/// Reads a recording like [`open`]. `progress` is called with the progress, from 0 to 1000, while
/// the file is read.
///
/// # Errors
/// As [`open`] does.
pub fn open_watched(path: &Path, progress: &dyn Fn(u64)) -> Result<Recording, RecordingError> {
    let error = |why: std::io::Error| RecordingError {
        line: 0,
        message: format!("cannot be read: {why}"),
        hint: "make the file readable".into(),
    };
    if path.is_dir() && !ctf::is_trace(path) {
        return Err(RecordingError {
            line: 0,
            message: "this directory contains no CTF trace (no file 'metadata')".into(),
            hint: kind::EXPECTED.into(),
        });
    }
    if path.is_dir() {
        return build("CTF", ctf::read(path));
    }
    let file = File::open(path).map_err(error)?;
    read_input(&Watched::new(&file, progress), path, progress)
}

/// Reads the recording in a file's contents.
///
/// # Errors
/// As [`open`] does.
pub fn read_bytes(bytes: &[u8], path: &Path) -> Result<Recording, RecordingError> {
    read_input(&bytes, path, &|_| {})
}

fn read_input(input: &dyn Input, path: &Path, progress: &dyn Fn(u64)) -> Result<Recording, RecordingError> {
    let begin = beginning(input)?;
    let method = compressed::method(&begin);
    if method == Method::None {
        return read_format(input, &begin, path);
    }
    let unpacked = compressed::spool(method, input).map_err(|why| RecordingError {
        line: 0,
        message: format!("the file cannot be decompressed: {why}"),
        hint: "check it with 'gzip -t' or 'zstd -t', and the space for temporary files ($TMPDIR)".into(),
    })?;
    let begin = beginning(&unpacked)?;
    if begin.starts_with(kind::TRACE_FILE) {
        return Err(RecordingError {
            line: 0,
            message: "this is a compressed trace file of windtunnel".into(),
            hint: "decompress it with zcat or zstdcat".into(),
        });
    }
    read_format(&Watched::new(&unpacked, progress), &begin, path)
}

fn beginning(input: &dyn Input) -> Result<Vec<u8>, RecordingError> {
    let mut begin = Vec::new();
    let read = Span::new(input, 0, EXAMINED).read_to_end(&mut begin);
    read.map(|_| begin).map_err(|why| RecordingError {
        line: 0,
        message: format!("cannot be read: {why}"),
        hint: "make the file readable".into(),
    })
}

/// Adds how to record scheduler events to the error for a Perfetto trace without any.
fn hint_at_ftrace(error: RecordingError) -> RecordingError {
    match error.hint == EVENTS_HINT {
        true => RecordingError {
            hint: FTRACE_HINT.into(),
            ..error
        },
        false => error,
    }
}

fn read_format(input: &dyn Input, begin: &[u8], path: &Path) -> Result<Recording, RecordingError> {
    match kind::format(begin, path)? {
        Format::PerfData => build("perf.data", perf_data::read(input)),
        Format::TraceDat => build("trace.dat", trace_dat::read(input)),
        Format::Perfetto => build("Perfetto", perfetto::read(input)).map_err(hint_at_ftrace),
        Format::Schedviz => build("schedviz", schedviz::read(input)),
        Format::Text => read_text(BufReader::new(Span::whole(input))),
    }
}

/// Converts the lines of a binary recording into records.
fn build(format: &str, lines: Result<Lines, Damage>) -> Result<Recording, RecordingError> {
    let lines = lines.map_err(|why| {
        let (message, hint) = match why {
            Damage::Unsuitable(message) => (message.into_owned(), EVENTS_HINT),
            why => (
                format!("this recording in the format {format} is damaged: {why}"),
                DAMAGED_HINT,
            ),
        };
        RecordingError {
            line: 0,
            message,
            hint: hint.into(),
        }
    })?;
    let built = Builder::default().build(lines);
    built.map_err(|error| RecordingError { line: 0, ..error })
}
