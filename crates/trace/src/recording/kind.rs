// SPDX-License-Identifier: GPL-2.0-only
//! Recognizes the format of a file, and names the command that converts a file that cannot be read.

use super::RecordingError;
use std::path::Path;

/// The first bytes of each trace file (`windtunnel run --trace`).
pub const TRACE_FILE: &[u8] = b"WTRACE";
/// Number of bytes that are examined to find out whether a file is a text.
const EXAMINED: usize = 4096;

/// A kind of file: its first bytes, what it is, and the command that converts it. In the command,
/// FILE stands for the file.
struct Signature {
    magic: &'static [u8],
    name: &'static str,
    convert: &'static str,
}

const PERF: &str = "perf script --ns -i FILE > recording.txt";

const KINDS: [Signature; 11] = [
    Signature {
        magic: b"PERFFILE",
        name: "a perf.data file of an old version",
        convert: PERF,
    },
    Signature {
        magic: b"\xfd7zXZ\0",
        name: "a file compressed by xz",
        convert: "xzcat FILE > recording",
    },
    Signature {
        magic: b"BZh",
        name: "a file compressed by bzip2",
        convert: "bzcat FILE > recording",
    },
    Signature {
        magic: b"\x04\x22\x4d\x18",
        name: "a file compressed by lz4",
        convert: "lz4cat FILE > recording",
    },
    Signature {
        magic: b"PK\x03\x04",
        name: "a zip archive",
        convert: "unzip -p FILE > recording",
    },
    Signature {
        magic: b"\xff\xfe",
        name: "a text in UTF-16",
        convert: "iconv -f UTF-16 -t UTF-8 FILE > recording.txt",
    },
    Signature {
        magic: b"\xfe\xff",
        name: "a text in UTF-16",
        convert: "iconv -f UTF-16 -t UTF-8 FILE > recording.txt",
    },
    Signature {
        magic: b"PAR1",
        name: "a Parquet table",
        convert: "",
    },
    Signature {
        magic: b"\x7fELF",
        name: "an object file or a program",
        convert: "",
    },
    Signature {
        magic: b"SQLite format 3\0",
        name: "an SQLite database",
        convert: "",
    },
    Signature {
        magic: b"\xc1\x1f\xfc\xc1",
        name: "a CTF trace",
        convert: "",
    },
];

pub(super) const EXPECTED: &str =
    "expected a trace file of 'windtunnel run --trace', or a recording of perf, trace-cmd, Perfetto or LTTng";

/// Format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    PerfData,
    TraceDat,
    Perfetto,
    Schedviz,
    Text,
}

/// Returns the format of a recording that begins with these bytes.
///
/// # Errors
/// Fails if the file is no recording (see [`not_a_trace`]).
pub fn format(bytes: &[u8], path: &Path) -> Result<Format, RecordingError> {
    let perf = [super::perf_data::MAGIC, super::perf_data::MAGIC_BIG];
    if perf.iter().any(|magic| bytes.starts_with(magic)) {
        return Ok(Format::PerfData);
    }
    if bytes.starts_with(super::tracing_data::MAGIC) {
        return Ok(Format::TraceDat);
    }
    if is_perfetto(bytes) {
        return Ok(Format::Perfetto);
    }
    if super::schedviz::is_archive(bytes) {
        return Ok(Format::Schedviz);
    }
    not_a_trace(bytes, path).map_or(Ok(Format::Text), Err)
}

/// Returns an error if a file is neither a trace file nor a recording that can be read. `bytes` is the beginning of the
/// file.
pub fn not_a_trace(bytes: &[u8], path: &Path) -> Option<RecordingError> {
    if bytes.starts_with(TRACE_FILE) {
        return None;
    }
    let error = |message: &str, hint: &str| {
        Some(RecordingError {
            line: 0,
            message: message.to_owned(),
            hint: hint.to_owned(),
        })
    };
    if bytes.is_empty() {
        return error("the file is empty", EXPECTED);
    }
    let kind = KINDS.iter().find(|kind| bytes.starts_with(kind.magic));
    if let Some(kind) = kind {
        let hint = match kind.convert {
            "" => EXPECTED.to_owned(),
            command => format!("convert it: {}", command.replace("FILE", &name_in_command(path))),
        };
        return error(&format!("this is {}, which cannot be read directly", kind.name), &hint);
    }
    if path.extension().is_some_and(|extension| extension == "wtt") {
        return error(
            "this is not a trace file, although its name ends in .wtt: it does not begin with WTRACE",
            "write the trace again with 'windtunnel run --trace', or use another name for a recording",
        );
    }
    let begin = &bytes[..bytes.len().min(EXAMINED)];
    if is_binary(begin) {
        return error("this is a binary file of an unknown format", EXPECTED);
    }
    if begin.trim_ascii_start().starts_with(b"{") {
        return error(
            "this is a JSON file, not a recording",
            "for an rt-app file, use a name that ends in .json; for a trace, use a recording of perf, trace-cmd, Perfetto or LTTng",
        );
    }
    None
}

/// Returns the name of a file as it is written in a shell command, or FILE if it would have to be
/// quoted.
fn name_in_command(path: &Path) -> String {
    let name = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    match !name.starts_with('-') && name.chars().all(plain) {
        true => name,
        false => "FILE".to_owned(),
    }
}

/// Returns whether the beginning of a file contains a NUL. No text does, although names of tasks can
/// contain other control characters.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

/// Returns whether a file is a Perfetto trace: a sequence of packets, each of which is field 1 of
/// the message Trace.
fn is_perfetto(bytes: &[u8]) -> bool {
    const PACKET: u8 = 0x0a;
    let mut rest = bytes;
    let mut packets = 0;
    while let [PACKET, after @ ..] = rest {
        let Some((length, size)) = varint(after) else {
            return false;
        };
        let content = &after[size..];
        // A packet is not empty, and begins with the number and type of one of its fields.
        let field = varint(content).map_or(0, |(tag, _)| tag);
        if length == 0 || field >> 3 == 0 || !matches!(field & 7, 0 | 1 | 2 | 5) {
            return false;
        }
        packets += 1;
        match usize::try_from(length).ok().and_then(|length| content.get(length..)) {
            Some(next) if !next.is_empty() && packets < 16 => rest = next,
            // The packet extends to the end of the examined bytes. A text rarely looks like one
            // such packet, but never has its control characters.
            _ => return packets > 1 || is_binary(&bytes[..bytes.len().min(EXAMINED)]),
        }
    }
    false
}

/// Decodes a variable-length number. Returns its value and its length in bytes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(at * 7).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8], name: &str) -> Option<String> {
        not_a_trace(bytes, Path::new(name)).map(|error| format!("{} | {}", error.message, error.hint))
    }

    #[test]
    fn files_of_other_tools_are_named_with_the_command_that_converts_them() {
        let cases: [(&[u8], &str, &str); 4] = [
            (
                b"PERFFILE\x68\0\0\0",
                "a perf.data file",
                "perf script --ns -i a.x > recording.txt",
            ),
            (b"BZh9", "bzip2", "bzcat a.x > recording"),
            (b"\xff\xfea\0", "UTF-16", "iconv -f UTF-16 -t UTF-8 a.x > recording.txt"),
            (b"\x7fELF\x02", "an object file", "expected a trace file"),
        ];
        for (bytes, name, command) in cases {
            let message = refused(bytes, "a.x").unwrap_or_else(|| panic!("{name} is accepted"));
            assert!(message.contains(name) && message.contains(command), "{message}");
            for length in 1..bytes.len() {
                let _ = refused(&bytes[..length], "a.x");
            }
        }
        let hint = refused(b"BZh", "a b;c").expect("the file is refused");
        assert!(hint.ends_with("bzcat FILE > recording"), "{hint}");
        let hint = refused(b"BZh", "-rf").expect("the file is refused");
        assert!(hint.ends_with("bzcat FILE > recording"), "{hint}");
    }

    #[test]
    fn formats_are_recognized() {
        let cases: [(&[u8], Format); 5] = [
            (b"PERFILE2\x68\0\0\0", Format::PerfData),
            (b"2ELIFREP\0\0\0\x68", Format::PerfData),
            (b"\x17\x08\x44tracing6\0", Format::TraceDat),
            (b"\x0a\x03\x40\x80\x01\x0a\x02\x08\x07", Format::Perfetto),
            (b"# tracer: nop\n", Format::Text),
        ];
        for (bytes, want) in cases {
            assert_eq!(format(bytes, Path::new("a.x")), Ok(want));
            for length in 1..bytes.len() {
                let _ = format(&bytes[..length], Path::new("a.x"));
            }
        }
    }

    #[test]
    fn texts_and_trace_files_are_accepted() {
        for bytes in [
            &b"WTRACE\x01\0\0"[..],
            b"\n\na 1 [000] 1.0: x:",
            b"\n# tracer: nop\n",
            b"BZ",
            b"a\xffb",
        ] {
            assert_eq!(refused(bytes, "a.txt"), None, "{bytes:?}");
        }
        assert_eq!(refused(b"WTRACE", "a.wtt"), None);
    }

    #[test]
    fn a_file_with_the_name_of_a_trace_must_be_one() {
        let message = refused(b"# tracer: nop\n", "junk.wtt").expect("the file is refused");
        assert!(message.contains("it does not begin with WTRACE"), "{message}");
        assert!(
            refused(b"", "junk.wtt")
                .expect("refused")
                .starts_with("the file is empty")
        );
        assert!(
            refused(b"a\0b", "a.txt")
                .expect("refused")
                .starts_with("this is a binary file")
        );
        assert!(
            refused(b" {\"tasks\": {}}", "a.txt")
                .expect("refused")
                .contains("ends in .json")
        );
    }
}
