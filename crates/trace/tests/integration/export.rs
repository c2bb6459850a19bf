// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the exporters. They compare the output with committed texts, and read an exported text
//! back.

use trace::event::MigrateReason;
use trace::export::Ftrace;
use trace::{CpuPosition, Event, Header, Record, Sink, TaskState, built_in_dsq, recording};

/// Returns the records of a small run on two CPUs with a common LLC. Task 2 is forked, woken by
/// task 1 and by an interrupt, and migrated. A policy's callback and a lock wait are included.
fn records() -> Vec<Record> {
    let new = |pid, parent, comm: &str| Event::TaskNew {
        pid,
        tgid: 1,
        parent,
        prio: 120,
        comm: comm.into(),
    };
    let wakeup = |pid, target, new| Event::Wakeup { pid, target, new };
    let switch = |prev, prev_state, next| Event::Switch { prev, prev_state, next };
    let local = |cpu| built_in_dsq(1 << 63 | 2, cpu);
    use TaskState::{Dead, Interruptible, Running};
    [
        (0, 0, Event::Policy { loaded: true }),
        (0, 0, new(1, 0, "a b")),
        (0, 0, wakeup(1, 0, true)),
        (0, 0, switch(0, Running, 1)),
        (1_000, 0, new(2, 1, "c\"d")),
        (1_000, 0, wakeup(2, 0, true)),
        (
            1_500,
            0,
            Event::LockName {
                lock: 7,
                name: "rq 0".into(),
            },
        ),
        (
            1_500,
            0,
            Event::LockWait {
                lock: 7,
                after: 30,
                ns: 15,
            },
        ),
        (
            1_500,
            0,
            Event::Callback {
                op: 0,
                insns: 90,
                after: 20,
                ns: 50,
            },
        ),
        (1_500, 0, Event::DsqLength { dsq: 3, nr: 1 }),
        (1_600, 1, Event::DsqLength { dsq: 3, nr: 0 }),
        (1_600, 1, Event::DsqLength { dsq: local(1), nr: 1 }),
        (
            1_600,
            1,
            Event::Migrate {
                pid: 2,
                from: 0,
                to: 1,
                reason: MigrateReason::Balance,
            },
        ),
        (1_600, 1, Event::DsqLength { dsq: local(1), nr: 0 }),
        (1_600, 1, switch(0, Running, 2)),
        (1_600, 1, Event::Balance { moved: 1 }),
        (2_000_000_000, 1, switch(2, Interruptible, 0)),
        (2_000_000_300, 0, Event::Waking { pid: 2, waker: 0 }),
        (2_000_000_400, 0, wakeup(2, 1, false)),
        (2_000_000_700, 1, switch(0, Running, 2)),
        (2_000_000_900, 1, switch(2, Interruptible, 0)),
        (2_000_001_000, 0, Event::Waking { pid: 2, waker: 1 }),
        (2_000_001_000, 0, wakeup(2, 1, false)),
        (2_000_001_200, 1, switch(0, Running, 2)),
        (2_000_001_300, 0, Event::Printk { text: "hello\n".into() }),
        (2_000_001_400, 0, Event::TaskExit { pid: 1 }),
        (2_000_001_500, 0, switch(1, Dead, 0)),
        (2_000_001_600, 0, Event::Hotplug { online: false }),
    ]
    .map(|(time, cpu, event)| Record {
        time,
        cpu,
        after: 0,
        event,
    })
    .into()
}

fn header() -> Header {
    let position = |core| CpuPosition { core, llc: 0, node: 0 };
    Header {
        machine: "smp2".into(),
        cpus: vec![position(0), position(1)],
        workload: "small".into(),
        policy: "fifo".into(),
        ops: vec!["enqueue".into()],
        hz: 100,
        ..Header::default()
    }
}

fn ftrace(records: &[Record]) -> String {
    let mut text = Vec::new();
    let mut export = Ftrace::new(&mut text, 2);
    export.take(records);
    export.finish().expect("writing to memory cannot fail");
    String::from_utf8(text).expect("the text is UTF-8")
}

#[test]
fn ftrace_text_matches_golden() {
    golden::check!("ftrace.txt", &ftrace(&records()));
}

/// Reads the exported text as a recording and exports this recording again. Both recordings must
/// have the same records.
#[test]
fn ftrace_text_is_read_back_as_a_recording() {
    let text = ftrace(&records());
    let recording = recording::read(&text).expect("the recording can be read");
    assert_eq!(recording.missing, 0);
    let is_exported = |event: &Event| {
        matches!(
            event,
            Event::Switch { .. }
                | Event::Waking { .. }
                | Event::TaskExit { .. }
                | Event::Wakeup { .. }
                | Event::Migrate { .. }
        )
    };
    let only = |records: &[Record]| -> Vec<Record> {
        records
            .iter()
            .filter(|record| is_exported(&record.event))
            .cloned()
            .collect()
    };
    assert_eq!(only(&recording.records), only(&records()));
    let again = recording::read(&ftrace(&recording.records)).expect("the recording can be read");
    assert_eq!(again.records, recording.records);
}

/// If writing fails, an exporter must write nothing more and return the error at the end.
#[test]
fn io_errors_are_returned_at_the_end() {
    #[derive(Debug)]
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).expect("nothing is written after an error");
            match self.0 {
                0 => Err(std::io::ErrorKind::StorageFull.into()),
                _ => Ok(bytes.len()),
            }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let many: Vec<Record> = (0..300).flat_map(|_| records()).collect();
    let error = std::io::ErrorKind::StorageFull;
    let mut ftrace = Ftrace::new(Full(2), 2);
    ftrace.take(&many);
    assert_eq!(ftrace.finish().unwrap_err().kind(), error);
    let mut perfetto = trace::export::Perfetto::new(Full(2), &header());
    perfetto.take(&many);
    assert_eq!(perfetto.finish(0).unwrap_err().kind(), error);
}

/// Task names that contain newlines and terminal controls must not add lines to the text.
#[test]
fn every_ftrace_event_is_one_line_despite_hostile_names() {
    let hostile = "x\n  evil-9\x1b[2J\u{9b}2J";
    let mut records = records();
    for record in &mut records {
        match &mut record.event {
            Event::TaskNew { comm, .. } | Event::TaskRename { comm, .. } => *comm = hostile.to_owned(),
            Event::Printk { text } => *text = hostile.to_owned(),
            _ => {}
        }
    }
    let plain = ftrace(&self::records());
    let text = ftrace(&records);
    assert_eq!(text.lines().count(), plain.lines().count(), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    let (read, want) = (recording::read(&text), recording::read(&plain));
    let switches = |read: Result<recording::Recording, _>| read.expect("the recording can be read").switches;
    assert_eq!(switches(read), switches(want));
}
