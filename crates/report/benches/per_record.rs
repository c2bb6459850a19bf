// SPDX-License-Identifier: GPL-2.0-only
//! Benchmark of the consumers of records (sinks). Prints the time per record for the hash and the
//! summary, which every run uses, and for writing a trace. Run it with `cargo bench -p report`.
//!
//! The recorded tasks run and sleep. Each context switch is a Switch record. In one kind of stream,
//! a Waking and a Wakeup record precede every second switch.

use report::Summary;
use std::hint::black_box;
use std::time::Instant;
use trace::{CpuPosition, Event, Hash, Header, Record, Sink, TaskState, Writer};

fn stream(cpus: u32, tasks: u32, switches: u32, with_wakeups: bool) -> Vec<Record> {
    let mut records = Vec::new();
    let mut on = vec![0; cpus as usize];
    for i in 0..switches {
        let (time, cpu) = (u64::from(i) * 1_600, i % cpus);
        // The step from task to task is a large prime, so all tasks get turns, but not in the order
        // of their pids.
        let next = if i % 4 == 3 {
            0
        } else {
            1 + (u64::from(i) * 7_919 % u64::from(tasks)) as u32
        };
        if with_wakeups && i % 2 == 0 {
            records.push(Record {
                time: time - time.min(900),
                cpu,
                after: 0,
                event: Event::Waking { pid: next, waker: 0 },
            });
            let event = Event::Wakeup {
                pid: next,
                target: cpu,
                new: false,
            };
            records.push(Record {
                time: time - time.min(500),
                cpu,
                after: 0,
                event,
            });
        }
        let prev = std::mem::replace(&mut on[cpu as usize], next);
        records.push(Record {
            time,
            cpu,
            after: 0,
            event: Event::Switch {
                prev,
                prev_state: TaskState::Interruptible,
                next,
            },
        });
    }
    records
}

/// Prints the time of the fastest of several rounds, because other programs on the host disturb
/// this round least.
fn measure(name: &str, records: &[Record], sink: &mut dyn Sink) {
    let switches = records
        .iter()
        .filter(|r| matches!(r.event, Event::Switch { .. }))
        .count();
    let repeat = 2_000_000usize.div_ceil(records.len());
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..repeat {
                black_box(records).chunks(1024).for_each(|batch| sink.take(batch));
            }
            start.elapsed().as_nanos() as f64 / repeat as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!(
        "{name:<40}{:>7.2} ns/record{:>7.2} ns/switch",
        best / records.len() as f64,
        best / switches as f64
    );
}

fn main() {
    for (cpus, tasks, switches, with_wakeups) in [
        (64, 1_000, 8_192, false),
        (64, 1_000, 8_192, true),
        (1_024, 100_000, 400_000, true),
    ] {
        let records = stream(cpus, tasks, switches, with_wakeups);
        let kind = if with_wakeups {
            "switches and wake-ups"
        } else {
            "switches"
        };
        println!(
            "{kind}, {cpus} CPUs, {tasks} tasks ({} records of {} bytes)",
            records.len(),
            size_of::<Record>()
        );
        let positions: Vec<CpuPosition> = (0..cpus)
            .map(|i| CpuPosition {
                core: i / 2,
                llc: i / 16,
                node: i / 32,
            })
            .collect();
        let header = Header {
            cpus: positions.clone(),
            ..Header::default()
        };
        let mut hash = Hash::default();
        measure("  hash", &records, &mut hash);
        measure("  summary", &records, &mut Summary::new(&positions));
        measure("  write a trace", &records, &mut Writer::new(std::io::sink(), &header));
        black_box(hash.value());
    }
}
