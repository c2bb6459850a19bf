// SPDX-License-Identifier: GPL-2.0-only
//! Reads traces in the Common Trace Format 1.8, which LTTng and `perf data convert --to-ctf` write.
//!
//! A trace is a directory. Its file `metadata` describes the events ([`metadata`]); the other files
//! are streams of packets, one for each CPU. There is no reader of CTF among the maintained Rust
//! packages, and babeltrace2's library would make the command depend on a shared library.

mod metadata;
mod stream;

use super::damage::Damage;
use super::input::{Cursor, Input, MAX_PART, Order, Span};
use super::line::{Line, LineEvent, MAX_CPUS, Task, handler, state_bits};
use super::names::Lines;
use crate::event::TaskState;
use metadata::{Event, Metadata, Stream};
use std::fs::File;
use std::path::{Path, PathBuf};
use stream::{Bits, Values};

const METADATA: &str = "metadata";
/// Maximum size of the metadata in bytes. Those of LTTng have a few hundred KiB.
const MAX_METADATA: u64 = 64 << 20;
/// Number of bytes that contain the header and the context of a packet.
const PACKET_BEGIN: u64 = 4096;
/// Depth of directories in which the metadata are searched for.
const DEPTH: u32 = 4;
/// Difference between the priorities of LTTng and of the kernel: MAX_RT_PRIO.
const LTTNG_PRIO: i64 = 100;

/// Returns whether a directory contains a CTF trace.
pub fn is_trace(path: &Path) -> bool {
    path.is_dir() && !find(path, DEPTH).is_empty()
}

/// Reads the trace in a directory or in one of its subdirectories.
///
/// # Errors
/// There is not exactly one trace of a kernel, or it is damaged.
pub fn read(path: &Path) -> Result<Lines, Damage> {
    let mut kernel = None;
    let traces = find(path, DEPTH);
    for folder in &traces {
        let metadata = read_metadata(folder)?;
        let has_switches = metadata.streams.values().any(|stream| {
            let mut events = stream.events.values();
            events.any(|event| short(&event.name) == "sched_switch")
        });
        if has_switches && kernel.replace((folder, metadata)).is_some() {
            return Err("the directory contains several traces of kernels: name the directory of one of them".into());
        }
    }
    let Some((folder, metadata)) = kernel else {
        let message = "no scheduler events: the metadata of this CTF trace describe no event sched_switch";
        return Err(Damage::Unsuitable(message.into()));
    };
    let mut lines = Lines::default();
    let at = |path: &Path, damage| Damage::File {
        path: path.to_owned(),
        damage: Box::new(damage),
    };
    for path in files(folder).map_err(|error| at(folder, error.into()))? {
        if path.is_file() && path.file_name().is_some_and(|name| name != METADATA) {
            let file = File::open(&path).map_err(|error| at(&path, error.into()))?;
            read_stream(&file, &metadata, &mut lines).map_err(|damage| at(&path, damage))?;
        }
    }
    Ok(lines)
}

/// Returns the directories with metadata, sorted.
fn find(path: &Path, depth: u32) -> Vec<PathBuf> {
    if path.join(METADATA).is_file() {
        return vec![path.to_owned()];
    }
    let mut found = Vec::new();
    if depth > 0 {
        for inner in files(path).unwrap_or_default() {
            if inner.is_dir() {
                found.extend(find(&inner, depth - 1));
            }
        }
    }
    found
}

/// Returns the visible files of a directory, sorted.
fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn read_metadata(folder: &Path) -> Result<Metadata, Damage> {
    let path = folder.join(METADATA);
    let bytes = std::fs::metadata(&path).and_then(|meta| match meta.len() {
        ..=MAX_METADATA => std::fs::read(&path),
        other => Err(std::io::Error::other(format!("{other} bytes are too many"))),
    });
    match bytes {
        Ok(bytes) => parse_metadata(&bytes),
        Err(error) => Err(Damage::File {
            path,
            damage: Box::new(error.into()),
        }),
    }
}

/// Parses the contents of the metadata file.
fn parse_metadata(bytes: &[u8]) -> Result<Metadata, Damage> {
    metadata::parse(&metadata::text(bytes)?)
}

/// Returns the name of an event without that of its group.
fn short(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// Reads the packets of a stream.
///
/// # Errors
/// The stream does not match the metadata.
fn read_stream(input: &dyn Input, metadata: &Metadata, lines: &mut Lines) -> Result<(), Damage> {
    let mut at = 0;
    let mut discarded = 0;
    while at < input.length() {
        let begin = (input.length() - at).min(PACKET_BEGIN);
        let begin = Cursor::new(Span::new(input, at, begin), Order::Little).part(begin)?;
        let packet = Packet::parse(&begin, metadata)?;
        let length = packet.size.map_or(input.length() - at, |bits| bits / 8);
        if length == 0 || length > input.length() - at || length > MAX_PART {
            return Err(format!("a packet at byte {at} has an impossible size of {length} bytes").into());
        }
        let bytes = Cursor::new(Span::new(input, at, length), Order::Little).part(length)?;
        let lost = packet.discarded.saturating_sub(discarded);
        if lost > 0 {
            lines.add_gap(lost);
            discarded = packet.discarded;
        }
        packet.events(&bytes, metadata, lines)?;
        at += length;
    }
    Ok(())
}

/// Header and context of a packet.
struct Packet<'m> {
    stream: Option<&'m Stream>,
    cpu: u32,
    /// Number of events that the tracer discarded since the start.
    discarded: u64,
    /// Sizes in bits.
    size: Option<u64>,
    content: Option<u64>,
    /// Time in cycles of the clock.
    time: u64,
    /// Position of the first event in bits.
    at: u64,
}

impl<'m> Packet<'m> {
    fn parse(bytes: &[u8], metadata: &'m Metadata) -> Result<Packet<'m>, Damage> {
        let mut bits = Bits {
            bytes,
            at: 0,
            end: bytes.len() as u64 * 8,
            order: metadata.order,
        };
        let mut values = Values::default();
        if let Some(header) = &metadata.packet_header {
            bits.read("header", header, &mut values)?;
        }
        if values.unsigned("magic").is_some_and(|magic| magic != 0xc1fc_1fc1) {
            return Err("a packet does not begin with its magic number".into());
        }
        let stream = metadata.streams.get(&values.unsigned("stream_id").unwrap_or(0));
        values.clear();
        if let Some(context) = stream.and_then(|stream| stream.packet_context.as_ref()) {
            bits.read("context", context, &mut values)?;
        }
        Ok(Packet {
            stream,
            cpu: cpu_number(values.number("cpu_id").unwrap_or(0))?,
            discarded: values.unsigned("events_discarded").unwrap_or(0),
            size: values.unsigned("packet_size"),
            content: values.unsigned("content_size"),
            time: values.unsigned("timestamp_begin").unwrap_or(0),
            at: bits.at,
        })
    }

    fn events(&self, bytes: &[u8], metadata: &'m Metadata, lines: &mut Lines) -> Result<(), Damage> {
        let Some(stream) = self.stream else {
            return Err("a packet belongs to no stream of the metadata".into());
        };
        let length = bytes.len() as u64 * 8;
        let mut bits = Bits {
            bytes,
            at: self.at,
            end: self.content.unwrap_or(length),
            order: metadata.order,
        };
        if bits.end > length {
            return Err("the content of a packet is larger than the packet".into());
        }
        let mut time = self.time;
        let mut values = Values::default();
        while bits.at < bits.end {
            let begin = bits.at;
            values.clear();
            if let Some(header) = &stream.event_header {
                bits.read("header", header, &mut values)?;
            }
            for &(value, size) in &values.times {
                time = clock(time, value, size);
            }
            let id = values.unsigned("id").unwrap_or(0);
            let event = stream.events.get(&id);
            let event = event.ok_or_else(|| format!("event {id} is not described in the metadata"))?;
            values.clear();
            for part in [&stream.event_context, &event.context, &event.fields]
                .into_iter()
                .flatten()
            {
                bits.read("", part, &mut values)?;
            }
            if bits.at == begin {
                return Err("an event has no content".into());
            }
            let ns = u128::from(time) * 1_000_000_000 / u128::from(metadata.frequency);
            let ns = u64::try_from(ns).unwrap_or(u64::MAX);
            // perf's conversion has one stream for all CPUs.
            let cpu = match values.number("perf_cpu") {
                None => self.cpu,
                Some(cpu) => cpu_number(cpu)?,
            };
            add(event, &values, (ns, cpu), metadata, lines);
        }
        Ok(())
    }
}

fn cpu_number(cpu: i64) -> Result<u32, Damage> {
    let known = u32::try_from(cpu).ok().filter(|&cpu| cpu < MAX_CPUS);
    known.ok_or(Damage::Cpu(cpu))
}

/// Advances a time to the next one that has these lowest bits.
fn clock(time: u64, value: u64, size: u64) -> u64 {
    if size >= 64 {
        return value;
    }
    let span = 1u64 << size;
    let next = time & !(span - 1) | value;
    match next < time {
        true => next.saturating_add(span),
        false => next,
    }
}

/// Adds the line for an event, if it is one that is used.
fn add(event: &Event, values: &Values, (time, cpu): (u64, u32), metadata: &Metadata, lines: &mut Lines) {
    let name = short(&event.name);
    if name == "lttng_statedump_process_state" {
        if let (Some(pid), Some(name)) = (pid(values, "tid"), values.text("name")) {
            lines.known.entry(pid).or_insert_with(|| name.to_owned());
        }
        return;
    }
    let Some((task, event)) = convert(name, values, metadata) else {
        return;
    };
    // perf's conversion has the flags and the running task as the kernel recorded them.
    let recorded_flags = values.number("common_flags");
    let flags = recorded_flags.unwrap_or(0);
    lines.add(&Line {
        time,
        cpu,
        task: task.or_else(|| {
            Some(Task {
                pid: pid(values, "common_pid")?,
                comm: "",
                prio: None,
            })
        }),
        in_interrupt: flags & 0x18 != 0,
        shows_interrupts: recorded_flags.is_some(),
        event,
    });
}

fn pid(values: &Values, name: &str) -> Option<u32> {
    u32::try_from(values.number(name)?).ok()
}

/// Returns the task of an event's fields. LTTng calls the pid "tid".
fn task<'a>(values: &'a Values, prefix: &str, comm: &str) -> Option<Task<&'a str>> {
    let lttng = pid(values, &format!("{prefix}tid"));
    let prio = values.number(&format!("{prefix}prio"));
    let prio = prio.map(|prio| {
        if lttng.is_some() {
            prio.saturating_add(LTTNG_PRIO)
        } else {
            prio
        }
    });
    Some(Task {
        pid: lttng.or_else(|| pid(values, &format!("{prefix}pid")))?,
        comm: values.text(comm).unwrap_or(""),
        prio: prio.and_then(|prio| i32::try_from(prio).ok()),
    })
}

type Converted<'a> = (Option<Task<&'a str>>, LineEvent<&'a str>);

/// Converts an event. Returns the task that runs on the CPU, if the event contains it.
fn convert<'a>(name: &str, values: &'a Values, metadata: &Metadata) -> Option<Converted<'a>> {
    let woken = || task(values, "", "comm");
    let target = || pid(values, "target_cpu");
    Some(match name {
        "sched_switch" => {
            let prev = task(values, "prev_", "prev_comm")?;
            let state = values.number("prev_state")?;
            let dead = if dead_is_64(metadata) { 0x70 } else { 0x30 };
            let event = LineEvent::Switch {
                prev: prev.clone(),
                prev_state: match state & dead {
                    0 => state_bits(state),
                    _ => TaskState::Dead,
                },
                next: task(values, "next_", "next_comm")?,
            };
            (Some(prev), event)
        }
        "sched_waking" | "sched_wakeup" => {
            let event = LineEvent::Wakeup {
                task: woken()?,
                waking: name == "sched_waking",
                target: target(),
            };
            (None, event)
        }
        "sched_wakeup_new" => {
            let event = LineEvent::WakeupNew {
                task: woken()?,
                target: target(),
            };
            (None, event)
        }
        "sched_migrate_task" => {
            let event = LineEvent::Migrate {
                task: woken()?,
                from: pid(values, "orig_cpu")?,
                to: pid(values, "dest_cpu")?,
            };
            (None, event)
        }
        "sched_process_fork" => {
            let child = Task {
                prio: None,
                ..task(values, "child_", "child_comm")?
            };
            (None, LineEvent::Fork { child })
        }
        "sched_process_exec" => {
            let file = values.text("filename")?;
            (woken(), LineEvent::Exec { file })
        }
        "sched_process_exit" => (woken(), LineEvent::Exit),
        _ => {
            let name = name.trim_start_matches("x86_irq_vectors_").trim_start_matches("timer_");
            let begins = handler(name, "_entry");
            if !begins && !handler(name, "_exit") {
                return None;
            }
            (None, LineEvent::Handler { begins })
        }
    })
}

/// Returns whether TASK_DEAD is 64, as in kernels before Linux 4.14.
fn dead_is_64(metadata: &Metadata) -> bool {
    let release = metadata.env.get("kernel_release").map_or("", String::as_str);
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < (4, 14),
        _ => false,
    }
}
