// SPDX-License-Identifier: GPL-2.0-only
//! Tests that compare drawings and encoded traces with committed texts.

use std::fmt::Write;
use trace::{CpuPosition, Draw, DrawOptions, Event, Header, Reader, Record, Sink, TaskState, Writer};

fn task(pid: u32, comm: &str) -> Record {
    Record {
        time: 0,
        cpu: 0,
        after: 0,
        event: Event::TaskNew {
            pid,
            tgid: pid,
            parent: 1,
            prio: 120,
            comm: comm.into(),
        },
    }
}

fn switch(time: u64, cpu: u32, prev: u32, next: u32) -> Record {
    Record {
        time,
        cpu,
        after: 0,
        event: Event::Switch {
            prev,
            prev_state: TaskState::Running,
            next,
        },
    }
}

fn draw(options: DrawOptions, cpus: usize, end: u64, records: &[Record]) -> String {
    let mut draw = Draw::new(options, cpus).unwrap();
    records.iter().for_each(|r| draw.take(std::slice::from_ref(r)));
    draw.finish(end)
}

#[test]
fn cpus_beyond_the_drawing_are_ignored() {
    let options = || DrawOptions::columns(0, 10_000, 10);
    let known = [switch(0, 0, 0, 3)];
    let more = [switch(0, 0, 0, 3), switch(0, 300, 0, 4)];
    assert_eq!(draw(options(), 1, 10_000, &more), draw(options(), 1, 10_000, &known));
}

/// Draws two CPUs and three tasks. Several tasks run within one cell, an idle time is shorter than
/// a step, and a CPU goes offline. The list of switches is also printed.
#[test]
fn few_tasks_are_drawn_as_letters() {
    let mut records = vec![task(3, "worker-0"), task(4, "worker-1"), task(9, "init")];
    records.extend([
        switch(0, 0, 0, 3),
        switch(2_000, 1, 0, 4),
        switch(6_400, 0, 3, 9), // worker-0 uses 40 % of the column
        switch(9_000, 0, 9, 3),
        switch(11_100, 1, 4, 0), // the CPU is idle for only a tenth of a step
        switch(11_200, 1, 0, 4),
        switch(15_000, 1, 4, 0),
        Record {
            time: 20_000,
            cpu: 1,
            after: 0,
            event: Event::Hotplug { online: false },
        },
        Record {
            time: 30_000,
            cpu: 1,
            after: 0,
            event: Event::Hotplug { online: true },
        },
        switch(31_000, 1, 0, 4),
    ]);
    let options = DrawOptions {
        from: 0,
        to: 40_000,
        step: 1_000,
        width: 80,
        list: true,
    };
    golden::check!("draw-letters.txt", &draw(options, 2, 36_000, &records));
}

/// Draws a window that begins and ends while tasks are running. The drawing is wider than a line,
/// so it continues in several bands.
#[test]
fn a_wide_window_is_drawn_in_bands() {
    let records = [
        task(3, "a"),
        task(4, "b"),
        switch(0, 0, 0, 3),
        switch(150_000, 0, 3, 4),
        switch(900_000, 0, 4, 0),
    ];
    let options = DrawOptions {
        width: 45,
        list: true,
        ..DrawOptions::columns(100_000, 200_000, 100)
    };
    golden::check!("draw-bands.txt", &draw(options, 1, 1_000_000, &records));
}

/// Draws 32 CPUs and 300 tasks that run in turn.
#[test]
fn many_tasks_are_drawn_with_numbered_labels() {
    let mut records: Vec<Record> = (0..300)
        .map(|i| {
            task(
                100 + i,
                &if i < 280 {
                    format!("worker-{i}")
                } else {
                    format!("logger/{i}")
                },
            )
        })
        .collect();
    let mut on = [0; 32];
    for round in 0..24u64 {
        for cpu in 0..32 {
            let next = if (round + cpu) % 7 == 0 {
                0
            } else {
                100 + ((round * 32 + cpu * 5) % 300) as u32
            };
            records.push(switch(round * 500_000 + cpu * 10, cpu as u32, on[cpu as usize], next));
            on[cpu as usize] = next;
        }
    }
    golden::check!(
        "draw-many.txt",
        &draw(DrawOptions::columns(0, 12_000_000, 24), 32, 12_000_000, &records),
    );
}

/// Checks the bytes of a trace file. They may change only if the version of the format changes.
#[test]
fn the_bytes_of_a_file_match_golden() {
    let header = Header {
        machine: "uni".into(),
        cpus: vec![CpuPosition::default()],
        workload: "w".into(),
        policy: "p".into(),
        seed: 300,
        hz: 100,
        ops: vec!["init".into()],
        locks: vec!["rq".into()],
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header);
    writer.take(&[task(3, "init"), switch(128, 0, 0, 3)]);
    writer.take(&[Record {
        time: 100,
        cpu: 0,
        after: 0,
        event: Event::Overhead { ns: 1 << 40 },
    }]);
    writer.finish().unwrap();
    let mut text = String::new();
    for line in bytes.chunks(16) {
        let hex: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let _ = writeln!(text, "{}", hex.join(" "));
    }
    for record in Reader::new(bytes.as_slice()).unwrap() {
        let _ = writeln!(text, "{:?}", record.unwrap());
    }
    golden::check!("file.txt", &text);
}
