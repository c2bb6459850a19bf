// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the packets of small traces. `scripts/perfetto/` checks complete traces with Perfetto's
//! own trace processor.

use super::proto::{SEQ_INCREMENTAL_STATE_CLEARED, TYPE_COUNTER, TYPE_SLICE_BEGIN, TYPE_SLICE_END, TracePacket};
use super::*;
use crate::header::CpuPosition;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

fn exported(records: &[(u64, u32, Event)]) -> Vec<TracePacket> {
    let position = |core| CpuPosition { core, llc: 0, node: 0 };
    let header = Header {
        cpus: vec![position(0), position(1)],
        ops: vec!["init".into(), "enqueue".into()],
        hz: 1000,
        ..Header::default()
    };
    let mut bytes = Vec::new();
    let mut export = Perfetto::new(&mut bytes, &header);
    for (time, cpu, event) in records {
        export.take(&[Record {
            time: *time,
            cpu: *cpu,
            after: 0,
            event: event.clone(),
        }]);
    }
    export.finish(1_000_000).expect("writing to memory cannot fail");
    Trace::decode(bytes.as_slice())
        .expect("the bytes are a Perfetto trace")
        .packet
}

fn wake(pid: u32, target: u32) -> Event {
    Event::Wakeup {
        pid,
        target,
        new: false,
    }
}

fn switch(prev: u32, prev_state: TaskState, next: u32) -> Event {
    Event::Switch { prev, prev_state, next }
}

/// Returns the counter events as (name of the track, time, value).
fn counters(packets: &[TracePacket]) -> Vec<(String, u64, i64)> {
    let name = |uuid| {
        let mut descriptors = packets.iter().filter_map(|packet| match &packet.data {
            Some(Data::TrackDescriptor(descriptor)) if descriptor.uuid == uuid => Some(descriptor.name.clone()),
            _ => None,
        });
        descriptors.next().expect("a track is described before it is used")
    };
    let events = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackEvent(event)) if event.r#type == TYPE_COUNTER => {
            Some((name(event.track_uuid), packet.timestamp?, event.counter_value?))
        }
        _ => None,
    });
    events.collect()
}

#[test]
fn every_switch_is_in_a_bundle_for_its_cpu() {
    let mut records = vec![(5, 0, switch(0, TaskState::Running, 1))];
    for i in 0..5000_u64 {
        let (prev, next) = (1 + i as u32 % 2, 2 - i as u32 % 2);
        records.push((10 + 7 * i, 0, switch(prev, TaskState::Uninterruptible, next)));
        records.push((11 + 7 * i, 1, Event::Waking { pid: prev, waker: 0 }));
    }
    let (mut switches, mut wakings, mut bundles) = (Vec::new(), Vec::new(), 0);
    for packet in exported(&records) {
        let Some(Data::FtraceEvents(bundle)) = packet.data else {
            continue;
        };
        bundles += 1;
        for event in &bundle.event {
            if let Some(Ftrace::SchedSwitch(first)) = &event.event {
                assert_eq!((event.timestamp, first.next_pid), (Some(5), Some(1)));
            }
        }
        let compact = bundle.compact_sched.expect("the bundle has columns");
        let absolute = |deltas: &[u64]| -> Vec<u64> {
            let sum = deltas.iter().scan(0, |time, delta| {
                *time += delta;
                Some(*time)
            });
            sum.collect()
        };
        assert!(compact.intern_table.len() <= 2);
        assert!(compact.switch_prev_state.iter().all(|&state| state == 2));
        match bundle.cpu {
            Some(0) => switches.extend(absolute(&compact.switch_timestamp)),
            _ => wakings.extend(absolute(&compact.waking_timestamp)),
        }
    }
    assert!(switches.iter().copied().eq((0..5000).map(|i| 10 + 7 * i)));
    assert!(wakings.iter().copied().eq((0..5000).map(|i| 11 + 7 * i)));
    assert!((4..10).contains(&bundles));
}

#[test]
fn counters_emit_only_the_last_value_at_each_time() {
    let packets = exported(&[
        (10, 0, wake(1, 1)),
        (10, 0, wake(2, 1)),
        (10, 0, Event::DsqLength { dsq: 9, nr: 1 }),
        (20, 1, switch(0, TaskState::Running, 1)),
        (30, 1, switch(1, TaskState::Interruptible, 2)),
        (30, 1, wake(1, 1)),
        (40, 0, Event::DsqLength { dsq: 9, nr: 0 }),
    ]);
    let events = counters(&packets);
    let events: Vec<(&str, u64, i64)> = events
        .iter()
        .map(|(name, time, value)| (name.as_str(), *time, *value))
        .collect();
    let want = [
        ("CPU 1", 10, 2),
        ("LLC 0", 10, 2),
        ("dsq 9", 10, 1),
        // At time 30, one task leaves the DSQ and another one enters it, so the counter does not
        // change.
        ("dsq 9", 40, 0),
    ];
    assert_eq!(events, want);
}

#[test]
fn callbacks_and_lock_waits_are_slices_with_interned_names() {
    let callback = |after, ns| Event::Callback {
        op: 1,
        insns: 77,
        after,
        ns,
    };
    let name = Event::LockName {
        lock: 4,
        name: "rq 1".into(),
    };
    let wait = Event::LockWait {
        lock: 4,
        after: 10,
        ns: 5,
    };
    let packets = exported(&[
        (100, 0, name),
        (100, 0, wait),
        (100, 0, callback(2, 50)),
        (300, 0, callback(0, 40)),
    ]);
    assert_eq!(packets[0].sequence_flags, SEQ_INCREMENTAL_STATE_CLEARED);
    let interned: Vec<String> = packets
        .iter()
        .filter_map(|packet| packet.interned_data.as_ref())
        .flat_map(|data| data.event_names.iter().map(|name| name.name.clone()))
        .collect();
    assert_eq!(interned, ["enqueue", "wait: rq 1", "end of the run"]);
    let slices = packets.iter().filter_map(|packet| match &packet.data {
        Some(Data::TrackEvent(event)) if [TYPE_SLICE_BEGIN, TYPE_SLICE_END].contains(&event.r#type) => {
            let insns = event.debug_annotations.first().and_then(|argument| argument.uint_value);
            Some((packet.timestamp?, event.name_iid, insns))
        }
        _ => None,
    });
    let want = [
        (102, Some(1), Some(77)),
        (110, Some(2), None),
        (115, None, None),
        (152, None, None),
        (300, Some(1), Some(77)),
        (340, None, None),
    ];
    assert_eq!(slices.collect::<Vec<_>>(), want);
}

/// Perfetto colours tasks by process. Tasks of a workload are therefore grouped into processes by
/// name. Other processes are not changed.
#[test]
fn tasks_with_similar_names_form_a_process() {
    let new = |pid, tgid, parent, comm: &str| Event::TaskNew {
        pid,
        tgid,
        parent,
        prio: 120,
        comm: comm.into(),
    };
    let packets = exported(&[
        (0, 0, new(1, 1, 0, "web1")),
        (0, 0, new(2, 1, 0, "db")),
        (0, 0, new(3, 1, 0, "web2")),
        (0, 0, new(4, 4, 3, "cgi")),
    ]);
    let (mut processes, mut threads) = (Vec::new(), Vec::new());
    for packet in packets {
        if let Some(Data::ProcessTree(tree)) = packet.data {
            let names = tree
                .processes
                .into_iter()
                .map(|process| (process.pid, process.cmdline.concat()));
            processes.extend(names);
            threads.extend(tree.threads.into_iter().map(|thread| (thread.tid, thread.tgid)));
        }
    }
    let (web, db) = (Some(1 << 22), Some((1 << 22) + 1));
    assert_eq!(
        processes,
        [(web, "web".into()), (db, "db".into()), (Some(4), "cgi".to_owned())]
    );
    assert_eq!(
        threads,
        [(Some(1), web), (Some(2), db), (Some(3), web), (Some(4), Some(4))]
    );
}
