// SPDX-License-Identifier: GPL-2.0-only
//! Reads Perfetto's traces: the scheduler events in their ftrace packets.
//!
//! A file is a sequence of packets. A packet contains the events of one CPU for some time. Switches
//! and wakings may be stored by column, without the task that the CPU leaves: this is the task to
//! which it switched before.
//!
//! systing, which converts its own tables, writes all wakings into the events of CPU 0, with equal
//! flags. Its traces therefore do not say who woke a task.

use super::compressed::{self, Method};
use super::damage::Damage;
use super::input::{Cursor, Input, MAX_PART, Order, Span};
use super::line::{Line, LineEvent, MAX_CPUS, Task, state_bits};
use super::names::{Lines, Name};
use crate::export::perfetto::proto::{CompactSched, Data, Ftrace, FtraceEvent, FtraceEventBundle, TracePacket};
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufReader, Read};

/// Tag of a packet in the file: field 1, with a length.
const PACKET: u64 = 0x0a;
/// Flags of an event that occurred in a hard or soft interrupt.
const IN_INTERRUPT: u32 = 0x08 | 0x10;
/// Flags of each waking that systing writes.
const SYSTING_FLAGS: u32 = 1;

/// The task that a CPU is assumed to leave in its first switch.
const IDLE: Task<&str> = Task {
    pid: 0,
    comm: "",
    prio: None,
};

/// Reads a file.
///
/// # Errors
/// Fails if the file is damaged.
pub fn read(input: &dyn Input) -> Result<Lines, Damage> {
    let mut state = State::default();
    state.packets(
        &mut Cursor::new(BufReader::new(Span::whole(input)), Order::Little),
        false,
    )?;
    Ok(state.finish())
}

#[derive(Default)]
struct State {
    lines: Lines,
    /// Last task to which each CPU switched: its pid and priority.
    running: BTreeMap<u32, (u32, Option<i32>)>,
    /// Whether a waking has a different CPU or different flags than all of systing's.
    has_wakers: bool,
}

impl State {
    /// Returns the lines. If they are systing's, no waking names its waker.
    fn finish(mut self) -> Lines {
        let is_waking = |event: &LineEvent<Name>| matches!(event, LineEvent::Wakeup { .. });
        if self.running.len() > 1 && !self.has_wakers {
            for line in self.lines.lines.iter_mut().filter(|line| is_waking(&line.event)) {
                self.lines.no_wakers = true;
                line.in_interrupt = true;
                line.task = None;
            }
        }
        self.lines
    }

    /// Reads packets. Packets that were compressed contain no compressed packets.
    fn packets<R: Read>(&mut self, cursor: &mut Cursor<R>, compressed: bool) -> Result<(), Damage> {
        loop {
            let Some(tag) = varint(cursor)? else {
                return Ok(());
            };
            let end = || Damage::EndsInside("a packet");
            match tag & 7 {
                0 => drop(varint(cursor)?.ok_or_else(end)?),
                1 => cursor.skip(8)?,
                2 => {
                    let length = varint(cursor)?.ok_or_else(end)?;
                    if tag == PACKET {
                        let bytes = cursor.part(length)?;
                        self.packet(&bytes, compressed)?;
                    } else {
                        cursor.skip(length)?;
                    }
                }
                5 => cursor.skip(4)?,
                other => return Err(format!("a field has the unknown type {other}").into()),
            }
        }
    }

    fn packet(&mut self, bytes: &[u8], compressed: bool) -> Result<(), Damage> {
        let packet = TracePacket::decode(bytes).map_err(|error| format!("a packet cannot be read: {error}"))?;
        match packet.data {
            Some(Data::FtraceEvents(bundle)) => self.bundle(&bundle)?,
            Some(Data::ProcessTree(tree)) => {
                let names = tree.threads.into_iter().map(|thread| (thread.tid, thread.name));
                let processes = tree.processes.into_iter().map(|process| {
                    let path = process.cmdline.first().map_or("", |path| path.as_str());
                    let name = path.rsplit('/').next().unwrap_or(path);
                    (process.pid, Some(name.chars().take(super::COMM_LEN).collect()))
                });
                for (pid, name) in names.chain(processes) {
                    if let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok())
                        && let Some(name) = name.filter(|name: &String| !name.is_empty())
                    {
                        self.lines.known.entry(pid).or_insert(name);
                    }
                }
            }
            Some(Data::CompressedPackets(packed)) if !compressed => {
                let unpacked = compressed::reader(Method::Zlib, packed.as_slice())?;
                self.packets(&mut Cursor::new(unpacked.take(MAX_PART), Order::Little), true)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn bundle(&mut self, bundle: &FtraceEventBundle) -> Result<(), Damage> {
        let cpu = bundle.cpu.unwrap_or(0);
        if cpu >= MAX_CPUS {
            return Err(Damage::Cpu(cpu.into()));
        }
        if bundle.lost_events == Some(true) {
            self.lines.add_gap(0);
        }
        // The events of a CPU must be added in order, but there are two lists.
        let mut events = Vec::new();
        for event in &bundle.event {
            events.extend(line(cpu, event));
        }
        self.has_wakers |= events
            .iter()
            .any(|event| matches!(event.event, LineEvent::Wakeup { .. }));
        if let Some(compact) = &bundle.compact_sched {
            let flags = &compact.waking_common_flags;
            let differ = flags.is_empty() || flags.iter().any(|flags| *flags != SYSTING_FLAGS);
            self.has_wakers |= !compact.waking_timestamp.is_empty() && (cpu != 0 || differ);
            Self::compact(cpu, compact, &mut events)?;
        }
        events.sort_by_key(|event| event.time);
        for mut event in events {
            if let LineEvent::Switch { prev, next, .. } = &mut event.event {
                let running = (next.pid, next.prio);
                let before = self.running.insert(cpu, running);
                // A switch that is stored by column. The name of its task is known, because the
                // switch to it contained the name.
                if event.task.is_none()
                    && let Some((pid, prio)) = before
                {
                    *prev = Task { pid, comm: "", prio };
                }
                event.task = Some(prev.clone());
            }
            self.lines.add(&event);
        }
        Ok(())
    }

    /// Reads the switches and wakings that are stored by column.
    fn compact<'a>(cpu: u32, compact: &'a CompactSched, into: &mut Vec<Line<&'a str>>) -> Result<(), Damage> {
        let different = || Damage::from("the columns of compact events have different lengths");
        let name = |indexes: &[u32], at: usize| {
            let index = *indexes.get(at).ok_or_else(different)? as usize;
            let name = compact.intern_table.get(index);
            name.map(String::as_str).ok_or_else(different)
        };
        let pid = |pids: &[i32], at: usize| {
            let pid = pids.get(at).and_then(|&pid| u32::try_from(pid).ok());
            pid.ok_or_else(different)
        };
        let mut time = 0u64;
        for (at, delta) in compact.switch_timestamp.iter().enumerate() {
            time = time.saturating_add(*delta);
            let next = Task {
                pid: pid(&compact.switch_next_pid, at)?,
                comm: name(&compact.switch_next_comm_index, at)?,
                prio: compact.switch_next_prio.get(at).copied(),
            };
            into.push(Line {
                time,
                cpu,
                task: None,
                in_interrupt: false,
                shows_interrupts: false,
                event: LineEvent::Switch {
                    prev: IDLE,
                    prev_state: state_bits(*compact.switch_prev_state.get(at).ok_or_else(different)?),
                    next,
                },
            });
        }
        time = 0;
        for (at, delta) in compact.waking_timestamp.iter().enumerate() {
            time = time.saturating_add(*delta);
            let flags = compact.waking_common_flags.get(at).copied().unwrap_or(0);
            into.push(Line {
                time,
                cpu,
                task: None,
                in_interrupt: flags & IN_INTERRUPT != 0,
                shows_interrupts: !compact.waking_common_flags.is_empty(),
                event: LineEvent::Wakeup {
                    task: Task {
                        pid: pid(&compact.waking_pid, at)?,
                        comm: name(&compact.waking_comm_index, at)?,
                        prio: compact.waking_prio.get(at).copied(),
                    },
                    waking: true,
                    target: pid(&compact.waking_target_cpu, at).ok(),
                },
            });
        }
        Ok(())
    }
}

/// Converts an event into a line. Returns `None` for events that are not used.
fn line(cpu: u32, event: &FtraceEvent) -> Option<Line<&str>> {
    let current = Task {
        pid: event.pid?,
        comm: "",
        prio: None,
    };
    let kind = match event.event.as_ref()? {
        Ftrace::SchedSwitch(switch) => LineEvent::Switch {
            prev: task(switch.prev_pid, &switch.prev_comm, switch.prev_prio)?,
            prev_state: state_bits(switch.prev_state?),
            next: task(switch.next_pid, &switch.next_comm, switch.next_prio)?,
        },
        Ftrace::SchedWaking(wakeup) | Ftrace::SchedWakeup(wakeup) => LineEvent::Wakeup {
            task: task(wakeup.pid, &wakeup.comm, wakeup.prio)?,
            waking: matches!(event.event, Some(Ftrace::SchedWaking(_))),
            target: id(wakeup.target_cpu),
        },
        Ftrace::SchedWakeupNew(wakeup) => LineEvent::WakeupNew {
            task: task(wakeup.pid, &wakeup.comm, wakeup.prio)?,
            target: id(wakeup.target_cpu),
        },
        Ftrace::SchedMigrateTask(migrate) => LineEvent::Migrate {
            task: task(migrate.pid, &migrate.comm, migrate.prio)?,
            from: id(migrate.orig_cpu)?,
            to: id(migrate.dest_cpu)?,
        },
        Ftrace::SchedProcessFork(fork) => LineEvent::Fork {
            child: task(fork.child_pid, &fork.child_comm, None)?,
        },
        Ftrace::TaskNewtask(new) => LineEvent::Fork {
            child: task(new.pid, &new.comm, None)?,
        },
        Ftrace::SchedProcessExec(exec) => LineEvent::Exec {
            file: exec.filename.as_deref()?,
        },
        Ftrace::SchedProcessExit(_) => LineEvent::Exit,
        _ => return None,
    };
    // In systing's traces, the task of this event is the new task, which does not run yet.
    let is_new = |kind: &LineEvent<&str>| matches!(kind, LineEvent::WakeupNew { task, .. } if task.pid == current.pid);
    Some(Line {
        time: event.timestamp?,
        cpu,
        task: (!is_new(&kind)).then_some(current.clone()),
        in_interrupt: event.common_flags.unwrap_or(0) & IN_INTERRUPT != 0,
        shows_interrupts: event.common_flags.is_some(),
        event: kind,
    })
}

fn id(number: Option<i32>) -> Option<u32> {
    u32::try_from(number?).ok()
}

fn task(pid: Option<i32>, comm: &Option<String>, prio: Option<i32>) -> Option<Task<&str>> {
    Some(Task {
        pid: id(pid)?,
        comm: comm.as_deref().unwrap_or(""),
        prio,
    })
}

/// Reads a variable-length number. Returns `None` at the end of the file.
fn varint<R: Read>(cursor: &mut Cursor<R>) -> Result<Option<u64>, Damage> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        match cursor.read(&mut byte)? {
            0 if shift == 0 => return Ok(None),
            0 => return Err(Damage::EndsInside("a number")),
            _ => {}
        }
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(Some(value));
        }
    }
    Err("a number has more than ten bytes".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::perfetto::proto::Wakeup;

    fn file_of(packets: impl IntoIterator<Item = TracePacket>) -> Vec<u8> {
        let mut file = Vec::new();
        for packet in packets {
            let bytes = packet.encode_to_vec();
            file.extend([0x0a, u8::try_from(bytes.len()).expect("the packet is short")]);
            file.extend(bytes);
        }
        file
    }

    #[test]
    fn a_packet_can_contain_all_events_of_a_cpu() {
        // systing writes one packet for each CPU, with columns only.
        let packet = |cpu, times: [u64; 2], pids: [i32; 2], waking: &[u64]| TracePacket {
            data: Some(Data::FtraceEvents(FtraceEventBundle {
                cpu: Some(cpu),
                compact_sched: Some(CompactSched {
                    switch_timestamp: times.to_vec(),
                    switch_prev_state: vec![0, 1],
                    switch_next_pid: pids.to_vec(),
                    switch_next_prio: vec![120; 2],
                    intern_table: vec!["a".into(), "b".into()],
                    switch_next_comm_index: vec![0, 1],
                    waking_timestamp: waking.to_vec(),
                    waking_pid: waking.iter().map(|_| 20).collect(),
                    waking_target_cpu: waking.iter().map(|_| 1).collect(),
                    waking_prio: waking.iter().map(|_| 120).collect(),
                    waking_comm_index: waking.iter().map(|_| 0).collect(),
                    waking_common_flags: waking.iter().map(|_| 1).collect(),
                }),
                ..FtraceEventBundle::default()
            })),
            ..TracePacket::default()
        };
        let new = Wakeup {
            pid: Some(30),
            comm: Some("c".into()),
            prio: Some(120),
            target_cpu: Some(1),
        };
        let new = FtraceEvent {
            timestamp: Some(3000),
            pid: Some(30),
            event: Some(Ftrace::SchedWakeupNew(new)),
            ..FtraceEvent::default()
        };
        let new = TracePacket {
            data: Some(Data::FtraceEvents(FtraceEventBundle {
                cpu: Some(1),
                event: vec![new],
                ..FtraceEventBundle::default()
            })),
            ..TracePacket::default()
        };
        let file = file_of([
            packet(0, [1000, 5000], [10, 11], &[2500]),
            packet(1, [2000, 2500], [20, 21], &[]),
            new,
        ]);
        let recording = super::super::read_bytes(&file, std::path::Path::new("a.pb")).expect("the trace is read");
        // The task that runs on CPU 0 did not wake the task, and the new task did not run before.
        assert!(!recording.wakers);
        assert_eq!(recording.missing, 0);
        assert_eq!((recording.switches, recording.nr_cpus, recording.start), (4, 2, 1000));
        let times: Vec<u64> = recording.records.iter().map(|record| record.time).collect();
        assert!(times.is_sorted(), "the events of all CPUs are in order: {times:?}");
        assert_eq!(recording.counts.get("sched_waking"), Some(&1));
    }
}
