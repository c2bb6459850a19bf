// SPDX-License-Identifier: GPL-2.0-only
//! Tests of trace files: a written file is read back unchanged, and no content makes the reader
//! panic.

use std::io::{self, Read, Write};
use trace::{CpuPosition, Event, Hash, Header, ReadError, Reader, Record, Sink, TaskState, Trailer, Writer};

fn header() -> Header {
    Header {
        machine: "smp4".into(),
        cpus: (0..4)
            .map(|i| CpuPosition {
                core: i,
                llc: 0,
                node: 0,
            })
            .collect(),
        workload: "closed".into(),
        policy: "scx_simple".into(),
        seed: 42,
        hz: 100,
        ops: vec!["enqueue".into()],
        locks: vec![],
    }
}

fn records(n: u32) -> Vec<Record> {
    (0..n)
        .map(|i| {
            let event = match i % 5 {
                0 => Event::Switch {
                    prev: i % 90,
                    prev_state: TaskState::Interruptible,
                    next: i % 91,
                },
                1 => Event::Waking {
                    pid: i % 90,
                    waker: i % 80,
                },
                2 => Event::Wakeup {
                    pid: i % 90,
                    target: i % 4,
                    new: false,
                },
                3 => Event::Overhead { ns: u64::from(i) * 77 },
                _ => Event::TaskNew {
                    pid: i,
                    tgid: i,
                    parent: 1,
                    prio: 120,
                    comm: format!("task{i}"),
                },
            };
            Record {
                time: u64::from(i) * 1_700,
                cpu: i % 4,
                after: 0,
                event,
            }
        })
        .collect()
}

fn write(records: &[Record]) -> (Vec<u8>, Trailer) {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header());
    writer.take(records);
    let trailer = writer.finish().unwrap();
    (bytes, trailer)
}

fn read(bytes: &[u8]) -> Result<(Vec<Record>, Trailer), ReadError> {
    let mut reader = Reader::new(bytes)?;
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    assert!(reader.next().is_none());
    Ok((records, reader.trailer().unwrap()))
}

#[test]
fn a_written_file_is_read_back_unchanged() {
    for n in [0, 1, 7, 50_000] {
        let records = records(n);
        let (bytes, trailer) = write(&records);
        let mut hash = Hash::default();
        hash.take(&records);
        assert_eq!(
            trailer,
            Trailer {
                count: u64::from(n),
                hash: hash.value()
            }
        );
        assert_eq!(Reader::new(bytes.as_slice()).unwrap().header(), &header());
        assert_eq!(read(&bytes).unwrap(), (records, trailer));
    }
}

#[test]
fn the_result_of_a_run_is_read_back() {
    let records = records(9);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header());
    writer.take(&records);
    writer.result("{\"größe\": 1}");
    writer.finish().unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.result(), None);
    assert_eq!(reader.by_ref().map(Result::unwrap).collect::<Vec<_>>(), records);
    assert_eq!(reader.result(), Some("{\"größe\": 1}"));
    let at = bytes.len() - 30;
    bytes[at] ^= 1;
    assert!(
        read(&bytes)
            .unwrap_err()
            .to_string()
            .contains("the result does not match its checksum")
    );
}

/// Cuts a file at every byte. The reader must report that the file is truncated, with the offset of
/// the cut.
#[test]
fn truncated_files_are_reported_with_the_offset() {
    let (bytes, _) = write(&records(200));
    for end in 0..bytes.len() {
        match read(&bytes[..end]) {
            Err(ReadError::NotATrace) => assert!(end < 8, "{end}"),
            Err(ReadError::Truncated { offset, .. }) => assert_eq!(offset, end as u64),
            other => panic!("cut at {end}: {other:?}"),
        }
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(read(&longer), Err(ReadError::Damaged { offset, .. }) if offset == bytes.len() as u64));
}

/// Flips each bit of a file, one at a time. Each flip must be detected.
#[test]
fn every_flipped_bit_is_detected() {
    let (bytes, _) = write(&records(40));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let error = read(&damaged).expect_err(&format!("bit {bit} of byte {at}"));
            assert!(error.to_string().starts_with("trace: "), "{error}");
        }
    }
}

#[test]
fn other_files_and_versions_are_errors() {
    let (bytes, _) = write(&records(300));
    assert!(matches!(read(b"perf.data"), Err(ReadError::NotATrace)));
    let mut other = bytes.clone();
    other[8] = 99;
    assert!(matches!(read(&other), Err(ReadError::Version { found: 99 })));
}

#[test]
fn a_cpu_number_beyond_the_machine_is_an_error() {
    for event in [
        Event::Ipi { target: 4 },
        Event::Wakeup {
            pid: 1,
            target: 4,
            new: false,
        },
    ] {
        let (bytes, _) = write(&[Record {
            time: 1,
            cpu: 0,
            after: 0,
            event,
        }]);
        assert!(
            read(&bytes)
                .unwrap_err()
                .to_string()
                .contains("names CPU 4, but the machine has 4 CPUs")
        );
    }
    let (bytes, _) = write(&[Record {
        time: 1,
        cpu: 9,
        after: 0,
        event: Event::TaskExit { pid: 1 },
    }]);
    assert!(
        read(&bytes)
            .unwrap_err()
            .to_string()
            .contains("names CPU 9, but the machine has 4 CPUs")
    );
}

struct Full {
    left: usize,
    largest: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.largest = self.largest.max(bytes.len());
        if bytes.len() > self.left {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
        }
        self.left -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn write_errors_are_returned_at_the_end() {
    for left in [0, 20, 200_000] {
        let mut writer = Writer::new(Full { left, largest: 0 }, &header());
        for _ in 0..20 {
            writer.take(&records(5_000));
        }
        assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}

/// Checks that blocks are written when they are full, so that the buffer does not grow with the
/// trace.
#[test]
fn the_buffer_is_bounded() {
    let mut full = Full {
        left: usize::MAX,
        largest: 0,
    };
    let mut writer = Writer::new(&mut full, &header());
    for _ in 0..50 {
        writer.take(&records(5_000));
    }
    writer.finish().unwrap();
    assert!(
        usize::MAX - full.left > 1_000_000,
        "only {} bytes were written",
        usize::MAX - full.left
    );
    assert!(full.largest < 70_000, "the largest write has {} bytes", full.largest);
}

/// A reader that returns one byte at a time and an interruption error before each byte.
struct Slow<'a>(&'a [u8], bool);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = self.0.len().min(into.len()).min(1);
        into[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn short_and_interrupted_reads_work() {
    let records = records(500);
    let (bytes, _) = write(&records);
    let read: Vec<Record> = Reader::new(Slow(&bytes, false)).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, records);
}

/// A record that no reader would accept must not be written.
#[test]
fn a_too_long_record_is_an_error() {
    let text = "x".repeat(17 << 20);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header());
    writer.take(&[Record {
        time: 1,
        cpu: 0,
        after: 0,
        event: Event::Printk { text },
    }]);
    let error = writer.finish().unwrap_err();
    assert!(error.to_string().contains("a record is too long"), "{error}");
}

#[test]
fn a_time_after_the_latest_possible_is_damage() {
    for (time, good) in [(1 << 62, true), ((1 << 62) + 1, false), (u64::MAX, false)] {
        let record = Record {
            time,
            cpu: 0,
            after: 0,
            event: Event::Overhead { ns: u64::MAX },
        };
        match read(&write(&[record]).0) {
            Ok(_) => assert!(good, "{time}"),
            Err(error) => assert!(
                !good && error.to_string().contains("is after the latest possible time"),
                "{time}: {error}"
            ),
        }
    }
}
