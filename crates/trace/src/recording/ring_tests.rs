// SPDX-License-Identifier: GPL-2.0-only
//! Tests of reading ring buffer pages. The tests build the pages in the kernel's format.

use super::*;
use crate::event::Event;
use crate::event::TaskState::{Interruptible, Running};

const SWITCH: &str = "\
name: sched_switch
ID: 372
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:int prev_prio;	offset:28;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;
	field:char next_comm[16];	offset:40;	size:16;	signed:0;
	field:pid_t next_pid;	offset:56;	size:4;	signed:1;
	field:int next_prio;	offset:60;	size:4;	signed:1;

print fmt: \"prev_comm=%s\"
";
const WAKING: &str = "\
name: sched_waking
ID: 375
format:
	field:int common_pid;	offset:4;	size:4;	signed:1;
	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:int prio;	offset:28;	size:4;	signed:1;
	field:int target_cpu;	offset:32;	size:4;	signed:1;
";
const FORK: &str = "\
name: sched_process_fork
ID: 366
format:
	field:int common_pid;	offset:4;	size:4;	signed:1;
	field:__data_loc char[] parent_comm;	offset:8;	size:4;	signed:0;
	field:pid_t parent_pid;	offset:12;	size:4;	signed:1;
	field:__data_loc char[] child_comm;	offset:16;	size:4;	signed:0;
	field:pid_t child_pid;	offset:20;	size:4;	signed:1;
";
const PAGE: usize = 512;

fn ring() -> Ring {
    let mut ring = Ring::new(PAGE);
    for (event, text) in [
        ("sched_switch", SWITCH),
        ("sched_waking", WAKING),
        ("sched_process_fork", FORK),
    ] {
        ring.describe(event, text).expect("the description can be read");
    }
    ring
}

/// Returns a page with these events after its header.
fn page(time: u64, flags: u64, events: &[u8]) -> Vec<u8> {
    let mut page = time.to_le_bytes().to_vec();
    page.extend((events.len() as u64 | flags).to_le_bytes());
    page.extend(events);
    page.resize(PAGE, 0);
    page
}

fn event(delta: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = ((delta << 5) | (data.len() as u32 / 4)).to_le_bytes().to_vec();
    bytes.extend(data);
    bytes
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

fn head(id: u16, flags: u8, pid: i32) -> Vec<u8> {
    let mut data = id.to_le_bytes().to_vec();
    data.extend([flags, 0]);
    data.extend(pid.to_le_bytes());
    data
}

fn switch(prev: (&str, i32), state: i64, next: (&str, i32)) -> Vec<u8> {
    let mut data = head(372, 1, prev.1);
    data.extend(comm(prev.0));
    data.extend(prev.1.to_le_bytes());
    data.extend(120_i32.to_le_bytes());
    data.extend(state.to_le_bytes());
    data.extend(comm(next.0));
    data.extend(next.1.to_le_bytes());
    data.extend(120_i32.to_le_bytes());
    data
}

fn waking(by: i32, flags: u8, name: &str, pid: i32) -> Vec<u8> {
    let mut data = head(375, flags, by);
    data.extend(comm(name));
    for number in [pid, 120, 0] {
        data.extend(number.to_le_bytes());
    }
    data
}

fn events(ring: &Ring) -> Vec<(u64, u32, Event)> {
    let recording = ring.read().unwrap_or_else(|error| panic!("{error}"));
    let records = recording.records.into_iter();
    records
        .map(|record| (record.time, record.cpu, record.event))
        .filter(|(_, _, event)| !matches!(event, Event::TaskNew { .. }))
        .collect()
}

#[test]
fn times_have_nanoseconds_and_wakeups_by_interrupts_have_no_waker() {
    let mut ring = ring();
    let mut bytes = event(5, &switch(("swapper/0", 0), 0, ("a", 1)));
    // The next event follows after a pause of (3 << 27) + 7 ns, which does not fit into 27 bits.
    bytes.extend((7_u32 << 5 | 30).to_le_bytes());
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(event(1, &waking(1, 0x01, "b", 2)));
    bytes.extend(event(1, &waking(1, 0x09, "c", 3)));
    // A discarded event. The time that it contains must not be added to the current time.
    bytes.extend((9_u32 << 5 | 29).to_le_bytes());
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(event(2, &switch(("a", 1), 1, ("b", 2))));
    ring.take(0, &page(1_000, 0, &bytes));
    let long = (3 << 27) + 7;
    let queued = |pid| Event::Wakeup {
        pid,
        target: 0,
        new: false,
    };
    let want = [
        (
            0,
            0,
            Event::Switch {
                prev: 0,
                prev_state: Running,
                next: 1,
            },
        ),
        (long + 1, 0, Event::Waking { pid: 2, waker: 1 }),
        (long + 1, 0, queued(2)),
        (long + 2, 0, Event::Waking { pid: 3, waker: 0 }),
        (long + 2, 0, queued(3)),
        (
            long + 4,
            0,
            Event::Switch {
                prev: 1,
                prev_state: Interruptible,
                next: 2,
            },
        ),
    ];
    assert_eq!(events(&ring), want);
    assert_eq!(ring.read().map(|recording| recording.start), Ok(1_005));
}

#[test]
fn task_names_come_from_all_events_and_the_task_list() {
    let mut ring = ring();
    ring.name(1, "parent");
    let mut data = head(366, 0, 1);
    for number in [24_i32 | 7 << 16, 1, 31 | 6 << 16, 2] {
        data.extend(number.to_le_bytes());
    }
    data.extend(b"parent\0child\0\0\0\0");
    let mut events = event(0, &data);
    events.extend(event(1, &switch(("parent", 1), 0, ("child", 2))));
    ring.take(3, &page(50, 0, &events));
    let recording = ring.read().expect("the recording can be read");
    let new: Vec<_> = recording
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::TaskNew { pid, parent, comm, .. } => Some((*pid, *parent, comm.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(new, [(1, 0, "parent"), (2, 1, "child")]);
}

#[test]
fn overwritten_pages_count_as_missing_switches() {
    let mut ring = ring();
    let back_and_forth = |round: u64, flags| {
        let mut bytes = event(1, &switch(("a", 1), 0, ("b", 2)));
        bytes.extend(event(1, &switch(("b", 2), 0, ("a", 1))));
        page(round * 100, flags, &bytes)
    };
    for round in 0..10 {
        ring.take(0, &back_and_forth(round, if round == 4 { MISSED_FLAG } else { 0 }));
    }
    let recording = ring.read().expect("the recording can be read");
    assert_eq!((recording.switches, recording.missing), (20, 1));
}

const MISSED_FLAG: u64 = 1 << 31;

#[test]
fn damaged_pages_never_panic() {
    let mut bytes = event(5, &switch(("swapper/0", 0), 0, ("a", 1)));
    bytes.extend(event(1, &waking(1, 0, "b", 2)));
    let whole = page(1_000, 0, &bytes);
    let error = |page: &[u8]| {
        let mut ring = ring();
        ring.take(0, page);
        ring.read().map_err(|error| error.message)
    };
    let mut long = whole.clone();
    long[8..10].copy_from_slice(&900_u16.to_le_bytes());
    assert_eq!(
        error(&long),
        Err("a page of CPU 0 is shorter than the length in its header".into())
    );
    let mut beyond = whole.clone();
    beyond[8] -= 4;
    assert_eq!(error(&beyond), Err("an event of CPU 0 extends beyond its page".into()));
    assert_eq!(error(&page(1, 0, &[])), Err("no scheduler events".into()));
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            let _ = error(&damaged);
        }
    }
    assert!(ring().describe("sched_switch", "nothing").is_err());
    assert!(ring().describe("irq_entry", SWITCH).is_err());
}
