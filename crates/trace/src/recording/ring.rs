// SPDX-License-Identifier: GPL-2.0-only
//! Reads pages of the kernel's ring buffer (`trace_pipe_raw`). Their times are in nanoseconds.
//!
//! ```text
//! page:   time of the first event (u64) | bytes in use, flags above (u64) | events ...
//! event:  type or length (5 bits) | time since the previous event (27 bits) | fields ...
//! ```
//!
//! The files `events/sched/*/format` of tracefs describe the fields of each event. Only pages of
//! 64-bit little-endian machines can be read.

use super::line::{Line, LineEvent, Task, state_bits};
use super::{Builder, Recording, RecordingError};
use std::collections::BTreeMap;

/// The events that are read: their names in the group `sched` of tracefs.
pub const EVENTS: [&str; 8] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
];

const HEADER: usize = 16;
/// Mask of the bits that contain the length of a page's data. Flags are above these bits.
const LENGTH: u64 = 0x000f_ffff;
const MISSED: u64 = 1 << 31;
/// Type of padding and of discarded events. The next two types, 30 and 31, change the current time.
const PADDING: u64 = 29;
const TIME_EXTEND: u64 = 30;
const TIME_STAMP: u64 = 31;
/// Flags of an event that occurred in a hard or soft interrupt.
const IN_INTERRUPT: u8 = 0x08 | 0x10;
const HINT: &str =
    "use pages of per_cpu/cpuN/trace_pipe_raw and files events/sched/*/format that come from the same kernel";

/// Positions of the fields of one kind of event.
struct Format {
    event: usize,
    fields: BTreeMap<String, Field>,
}

#[derive(Clone, Copy)]
struct Field {
    offset: usize,
    size: usize,
    /// Whether the field contains the offset and the size of its data instead of the data itself.
    indirect: bool,
}

/// The contents of a ring buffer: the kernel's descriptions of events, and the recorded pages.
#[derive(Default)]
pub struct Ring {
    formats: BTreeMap<u16, Format>,
    /// Recorded pages of each CPU, concatenated.
    pages: BTreeMap<u32, Vec<u8>>,
    page: usize,
    names: BTreeMap<u32, String>,
}

impl Ring {
    /// Returns an empty buffer for pages of `page` bytes.
    pub fn new(page: usize) -> Ring {
        Ring {
            page,
            ..Ring::default()
        }
    }

    /// Adds the text of the `format` file of one of [`EVENTS`].
    ///
    /// # Errors
    /// Fails if the text does not describe that event.
    pub fn describe(&mut self, event: &str, text: &str) -> Result<(), String> {
        let unknown = || format!("{event}: the kernel's description of this event cannot be read");
        let event = EVENTS.iter().position(|known| *known == event).ok_or_else(unknown)?;
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "));
        let id = id.and_then(|id| id.trim().parse().ok()).ok_or_else(unknown)?;
        let mut fields = BTreeMap::new();
        for line in text.lines() {
            let Some(declared) = line.trim().strip_prefix("field:") else {
                continue;
            };
            // "char prev_comm[16];	offset:8;	size:16;	signed:0;"
            let mut parts = declared.split(';').map(str::trim);
            let declaration = parts.next().unwrap_or("");
            let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
            let (Some(offset), Some(size)) = (number("offset:"), number("size:")) else {
                return Err(unknown());
            };
            let name = declaration.rsplit(' ').next().unwrap_or("");
            let field = Field {
                offset,
                size,
                indirect: declaration.starts_with("__data_loc"),
            };
            fields.insert(name.split('[').next().unwrap_or(name).to_owned(), field);
        }
        self.formats.insert(id, Format { event, fields });
        Ok(())
    }

    /// Sets the name of a task that existed before the recording.
    pub fn name(&mut self, pid: u32, comm: &str) {
        self.names.insert(pid, comm.to_owned());
    }

    /// Adds whole pages of a CPU. The pages of one CPU must be added in their order.
    pub fn take(&mut self, cpu: u32, pages: &[u8]) {
        self.pages.entry(cpu).or_default().extend_from_slice(pages);
    }

    /// Returns the number of bytes added so far.
    pub fn bytes(&self) -> usize {
        self.pages.values().map(Vec::len).sum()
    }

    /// Converts the pages into records.
    ///
    /// # Errors
    /// Fails if there is no event, or if a page does not match the kernel's descriptions.
    pub fn read(&self) -> Result<Recording, RecordingError> {
        let error = |message: String| RecordingError {
            line: 0,
            message,
            hint: HINT.into(),
        };
        let mut builder = Builder {
            names: self.names.clone(),
            ..Builder::default()
        };
        let mut lines = Vec::new();
        for (&cpu, bytes) in &self.pages {
            for page in bytes.chunks_exact(self.page) {
                let lost = self.read_page(cpu, page, &mut lines).map_err(error)?;
                builder.missing += u32::from(lost);
            }
        }
        builder.build(lines).map_err(|e| error(e.message))
    }

    /// Reads the events of a page. Returns whether events before the page were lost.
    fn read_page<'a>(&'a self, cpu: u32, page: &'a [u8], lines: &mut Vec<Line<'a>>) -> Result<bool, String> {
        let (Some(mut time), Some(used)) = (number::<8>(page, 0), number::<8>(page, 8)) else {
            return Err("a page is shorter than its header".into());
        };
        let length = usize::try_from(used & LENGTH).unwrap_or(usize::MAX);
        let Some(page_used) = page.get(..HEADER.saturating_add(length)) else {
            return Err(format!("a page of CPU {cpu} is shorter than the length in its header"));
        };
        let mut at = HEADER;
        while let Some(word) = number::<4>(page_used, at) {
            let (kind, delta) = (word & 31, word >> 5);
            let next = number::<4>(page_used, at + 4).unwrap_or(0);
            let next_length = usize::try_from(next).unwrap_or(usize::MAX);
            at += 4;
            let length = match kind {
                // If the time difference is 0, the rest of the page is unused. Otherwise an event
                // was discarded.
                PADDING if delta == 0 => break,
                PADDING => {
                    at = at.saturating_add(next_length);
                    continue;
                }
                TIME_EXTEND => {
                    time = time.saturating_add((next << 27) + delta);
                    at += 4;
                    continue;
                }
                TIME_STAMP => {
                    // The event does not contain the topmost bits of the time. They are taken from
                    // the current time.
                    time = (time & 0xf800_0000_0000_0000) | (next << 27) | delta;
                    at += 4;
                    continue;
                }
                0 => next_length,
                words => usize::try_from(words).unwrap_or(usize::MAX).saturating_mul(4),
            };
            time = time.saturating_add(delta);
            let begin = if kind == 0 { at + 4 } else { at };
            let data = page_used
                .get(begin..at.saturating_add(length))
                .filter(|data| data.len() >= 8);
            let Some(data) = data else {
                return Err(format!("an event of CPU {cpu} extends beyond its page"));
            };
            at += length;
            lines.extend(self.line(time, cpu, data)?);
        }
        Ok(used & MISSED != 0)
    }

    /// Converts an event into a line. Returns `None` for events that are not in [`EVENTS`].
    fn line<'a>(&'a self, time: u64, cpu: u32, data: &'a [u8]) -> Result<Option<Line<'a>>, String> {
        let id = data.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let Some(format) = self.formats.get(&id) else {
            return Ok(None);
        };
        let event = EVENTS[format.event];
        let read = || {
            let pid = |name: &str| format.number(data, name).and_then(|pid| u32::try_from(pid).ok());
            let cpu_field = |name: &str| format.number(data, name).and_then(|cpu| u32::try_from(cpu).ok());
            let task = |comm: &str, id: &str, prio: &str| {
                Some(Task {
                    pid: pid(id)?,
                    comm: format.text(data, comm)?,
                    prio: format.number(data, prio).and_then(|prio| i32::try_from(prio).ok()),
                })
            };
            let current = Task {
                pid: pid("common_pid")?,
                comm: "",
                prio: None,
            };
            let line_event = match event {
                "sched_switch" => {
                    let prev = task("prev_comm", "prev_pid", "prev_prio")?;
                    let next = task("next_comm", "next_pid", "next_prio")?;
                    let prev_state = state_bits(format.number(data, "prev_state")?);
                    return Some((current, LineEvent::Switch { prev, prev_state, next }));
                }
                "sched_waking" | "sched_wakeup" => LineEvent::Wakeup {
                    task: task("comm", "pid", "prio")?,
                    waking: event == "sched_waking",
                    target: cpu_field("target_cpu"),
                },
                "sched_wakeup_new" => LineEvent::WakeupNew {
                    task: task("comm", "pid", "prio")?,
                    target: cpu_field("target_cpu"),
                },
                "sched_migrate_task" => LineEvent::Migrate {
                    task: task("comm", "pid", "prio")?,
                    from: cpu_field("orig_cpu")?,
                    to: cpu_field("dest_cpu")?,
                },
                "sched_process_fork" => LineEvent::Fork {
                    child: task("child_comm", "child_pid", "")?,
                },
                "sched_process_exec" => LineEvent::Exec {
                    file: format.text(data, "filename")?,
                },
                _ => LineEvent::Exit,
            };
            Some((current, line_event))
        };
        let (task, line_event) =
            read().ok_or_else(|| format!("{event}: a required field is missing or out of range"))?;
        Ok(Some(Line {
            time,
            cpu,
            task: Some(task),
            in_interrupt: data[2] & IN_INTERRUPT != 0,
            shows_interrupts: true,
            event: line_event,
        }))
    }
}

impl Format {
    /// Returns the value of a numeric field of 4 or 8 bytes.
    fn number(&self, data: &[u8], name: &str) -> Option<i64> {
        let field = self.fields.get(name)?;
        match field.size {
            4 => bytes::<4>(data, field.offset).map(|bytes| i32::from_le_bytes(bytes).into()),
            8 => bytes::<8>(data, field.offset).map(i64::from_le_bytes),
            _ => None,
        }
    }

    /// Returns a text field up to its NUL or up to the first byte that is not UTF-8.
    fn text<'a>(&self, data: &'a [u8], name: &str) -> Option<&'a str> {
        let field = self.fields.get(name)?;
        let (offset, size) = match field.indirect {
            true => {
                let location = number::<4>(data, field.offset)?;
                ((location & 0xffff) as usize, (location >> 16) as usize)
            }
            false => (field.offset, field.size),
        };
        let bytes = data.get(offset..offset.checked_add(size)?)?;
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
        let good = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        std::str::from_utf8(&bytes[..good]).ok()
    }
}

fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk().copied()
}

/// Reads a little-endian number of N bytes.
fn number<const N: usize>(data: &[u8], at: usize) -> Option<u64> {
    let bytes: [u8; N] = bytes(data, at)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}
