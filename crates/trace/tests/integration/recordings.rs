// SPDX-License-Identifier: GPL-2.0-only
//! Tests of reading recordings in binary formats. Each format contains the same events.

use super::written::{self, POWERPC, X86};
use std::path::{Path, PathBuf};
use trace::export::Perfetto;
use trace::recording::{self, Recording};
use trace::{Event, Header, Record, Sink};

fn read(bytes: &[u8]) -> Recording {
    recording::read_bytes(bytes, Path::new("a.x")).unwrap_or_else(|error| panic!("{error}"))
}

/// A CTF trace in a temporary directory.
struct Ctf(PathBuf);

impl Ctf {
    fn new(name: &str, metadata: &[u8], streams: &[&[u8]]) -> Ctf {
        let folder = std::env::temp_dir().join(format!("trace-ctf-{name}-{}", std::process::id()));
        let kernel = folder.join("kernel");
        std::fs::create_dir_all(&kernel).expect("the directory can be created");
        std::fs::write(kernel.join("metadata"), metadata).expect("the file can be written");
        for (cpu, stream) in streams.iter().enumerate() {
            std::fs::write(kernel.join(format!("channel0_{cpu}")), stream).expect("the file can be written");
        }
        Ctf(folder)
    }
}

impl Drop for Ctf {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that a recording has the events of the text.
fn check(format: &str, recording: &Recording, lost: u64) {
    let text = recording::read_bytes(&written::text(), Path::new("a.txt")).expect("the text can be read");
    assert_eq!(recording.records, text.records, "{format}");
    assert_eq!(recording.start, 1000, "{format}");
    assert_eq!((recording.nr_cpus, recording.lost), (2, lost), "{format}");
    let mut counts = recording.counts.clone();
    counts.remove("handlers of interrupts");
    assert_eq!(counts, text.counts, "{format}");
}

#[test]
fn trace_dat_files_have_the_events_of_their_text() {
    check("version 6", &read(&written::trace_dat_6(X86)), 0);
    check("32 bits, big-endian", &read(&written::trace_dat_6(POWERPC)), 0);
    for method in ["none", "zlib", "zstd"] {
        check(method, &read(&written::trace_dat_7(method)), 0);
    }
}

#[test]
fn perf_data_files_have_the_events_of_their_text() {
    for packed in [false, true] {
        check("file", &read(&written::perf_data(X86, packed, false)), 0);
        check("pipe", &read(&written::perf_pipe(packed)), 0);
    }
    check("big-endian", &read(&written::perf_data(POWERPC, false, false)), 0);
    check("lost events", &read(&written::perf_data(X86, true, true)), 5);
    // A pipe that ends inside a record is read up to there.
    let mut cut = written::perf_pipe(false);
    cut.truncate(cut.len() - 20);
    let whole = read(&written::perf_pipe(false));
    assert_eq!((read(&cut).switches, read(&cut).missing), (whole.switches - 1, 1));
}

#[test]
fn ctf_traces_have_the_events_of_their_text() {
    let streams = [written::ctf_stream(0), written::ctf_stream(1)];
    let ctf = Ctf::new("same", written::CTF_METADATA.as_bytes(), &[&streams[0], &streams[1]]);
    let recording = recording::open(&ctf.0).unwrap_or_else(|error| panic!("{error}"));
    check("CTF", &recording, 5);
    assert_eq!(recording.counts["handlers of interrupts"], 2);
    assert!(recording::is_ctf_trace(&ctf.0));
    assert!(!recording::is_ctf_trace(&ctf.0.join("kernel/metadata")));
}

/// Exports a recording in Perfetto's format.
fn perfetto(records: &[Record]) -> Vec<u8> {
    let header = Header {
        cpus: vec![trace::CpuPosition::default(); 2],
        ..Header::default()
    };
    let mut file = Vec::new();
    let mut export = Perfetto::new(&mut file, &header);
    export.take(records);
    export.finish(1_100_000_000).expect("writing to memory cannot fail");
    file
}

#[test]
fn perfetto_traces_have_the_events_of_their_export() {
    let events = |recording: &Recording| -> Vec<Record> {
        let is_new = |record: &&Record| !matches!(record.event, Event::TaskNew { .. } | Event::TaskRename { .. });
        let mut records: Vec<Record> = recording.records.iter().filter(is_new).cloned().collect();
        // The first events of the two CPUs have the same time.
        records.sort_by_key(|record| (record.time, record.cpu));
        records
    };
    let text = read(&written::text());
    let file = perfetto(&text.records);
    assert_eq!(events(&read(&file)), events(&text));
    // The packets, compressed inside of another packet.
    let varint = |mut value: usize| {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let packed = written::compress("zlib", &file);
    let field = [vec![0x92, 0x03], varint(packed.len()), packed].concat();
    let whole = [vec![0x0a], varint(field.len()), field].concat();
    assert_eq!(read(&whole).records, read(&file).records);
}

#[test]
fn recordings_may_be_compressed() {
    for method in ["gzip", "zstd"] {
        for bytes in [written::text(), written::trace_dat_6(X86), written::perf_pipe(true)] {
            let lines = read(&written::compress(method, &bytes));
            assert_eq!(lines.records, read(&bytes).records);
        }
    }
    let damaged = &written::compress("gzip", &written::text())[..40];
    let error = recording::read_bytes(damaged, Path::new("a.gz")).expect_err("the file is cut off");
    assert!(
        error.message.starts_with("the file cannot be decompressed: "),
        "{error}"
    );
}

#[test]
fn a_recording_without_wakeups_is_read_and_says_so() {
    let text = String::from_utf8(written::text()).expect("a text");
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("sched_waking")).collect();
    assert_eq!(read(lines.join("\n").as_bytes()).unwoken, 1);
    assert_eq!(read(text.as_bytes()).unwoken, 0);
}

/// Returns damaged copies of a file: cut off at any place, or with one byte changed.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cut = (0..bytes.len()).step_by(31).map(|length| bytes[..length].to_vec());
    let places = (0..bytes.len()).flat_map(|at| [0x00, 0x7f, 0xff].map(|value| (at, value)));
    let changed = places.step_by(17).map(|(at, value)| {
        let mut copy = bytes.to_vec();
        copy[at] = value;
        copy
    });
    cut.chain(changed)
}

#[test]
fn damaged_files_are_read_or_refused() {
    let files = [
        written::trace_dat_6(POWERPC),
        written::trace_dat_7("zlib"),
        written::trace_dat_7("zstd"),
        written::perf_data(X86, false, true),
        written::perf_pipe(true),
        perfetto(&read(&written::text()).records),
    ];
    let (mut good, mut refused) = (0, 0);
    for file in &files {
        for copy in damaged(file) {
            match recording::read_bytes(&copy, Path::new("a.x")) {
                Ok(recording) => {
                    good += 1;
                    assert!(recording.records.is_sorted_by_key(|record| record.time));
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(good > 100 && refused > 100, "{good} {refused}");
}

#[test]
fn damaged_ctf_traces_are_read_or_refused() {
    let stream = written::ctf_stream(1);
    let mut refused = 0;
    let copies = damaged(written::CTF_METADATA.as_bytes()).map(|metadata| (metadata, stream.clone()));
    let streams = damaged(&stream).map(|stream| (written::CTF_METADATA.into(), stream));
    for (metadata, stream) in copies.chain(streams) {
        let ctf = Ctf::new("damaged", &metadata, &[&stream]);
        refused += u32::from(recording::open(&ctf.0).is_err());
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn messages_name_the_format_and_the_damage() {
    let message = |bytes: &[u8]| {
        recording::read_bytes(bytes, Path::new("a.x"))
            .expect_err("refused")
            .message
    };
    let mut file = written::trace_dat_6(X86);
    file.truncate(file.len() - 1);
    assert_eq!(
        message(&file),
        "this recording in the format trace.dat is damaged: the file ends before the events of CPU 1: it is incomplete"
    );
    let unknown = b"\x17\x08\x44tracing9\0\0\x08\0\x10\0\0";
    assert!(message(unknown).ends_with("version 9 of trace.dat is unknown: versions 6 and 7 can be read"));
    let metadata = written::CTF_METADATA.replace("uint5_t {", "uint6_t {");
    let ctf = Ctf::new("unknown", metadata.as_bytes(), &[]);
    let error = recording::open(&ctf.0).expect_err("refused").message;
    assert!(
        error.contains("line 16 of the metadata: expected a type; 'uint6_t' is not defined"),
        "{error}"
    );
    // A trace of a user-space program is not damaged.
    let metadata = written::CTF_METADATA.replace("sched_switch", "my_event");
    let ctf = Ctf::new("user", metadata.as_bytes(), &[]);
    let error = recording::open(&ctf.0).expect_err("refused");
    assert_eq!(
        error.message,
        "no scheduler events: the metadata of this CTF trace describe no event sched_switch"
    );
    assert!(error.hint.starts_with("record the events"), "{error}");
}
