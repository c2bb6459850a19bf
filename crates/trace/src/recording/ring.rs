// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own bytes: pages of the ring buffers behind `trace_pipe_raw`, with times to the nanosecond.
//!
//! A page begins with the time of its first event (u64), the bytes in use with flags above them (u64), then events. Each event's
//! first word has a type or length (5 bits) and the time since the event before it (27 bits). Where the fields of an event lie, the
//! kernel tells in `events/sched/*/format`. Little-endian machines with 64 bits only.

use super::line::{Line, Said, Task};
use super::{Recording, RecordingError, Story};
use crate::event::TaskState;
use std::collections::BTreeMap;

/// The events that are understood, by tracefs' names of the group sched.
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
/// Bits of a page's length; above them are flags.
const LENGTH: u64 = 0x000f_ffff;
const MISSED: u64 = 1 << 31;
/// Types of events that are none of ours.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Flags of an event: it came in a hard or soft interrupt.
const IN_INTERRUPT: u8 = 0x08 | 0x10;
const HINT: &str =
    "the pages of per_cpu/cpuN/trace_pipe_raw and the files events/sched/*/format of one kernel belong together";

/// Where the fields of one kind of event lie.
struct Format {
    event: usize,
    fields: BTreeMap<String, Field>,
}

#[derive(Clone, Copy)]
struct Field {
    offset: usize,
    size: usize,
    /// The field tells where the bytes are and how many.
    indirect: bool,
}

/// What was recorded: the kernel's descriptions of events, then pages as they came.
#[derive(Default)]
pub struct Ring {
    formats: BTreeMap<u16, Format>,
    /// Pages of each CPU, one after the other.
    pages: BTreeMap<u32, Vec<u8>>,
    page: usize,
    names: BTreeMap<u32, String>,
}

impl Ring {
    /// `page`: bytes of each page.
    pub fn new(page: usize) -> Ring {
        Ring {
            page,
            ..Ring::default()
        }
    }

    /// Takes the text of one of [`EVENTS`]' `format` files.
    ///
    /// # Errors
    /// What it lacks.
    pub fn describe(&mut self, event: &str, text: &str) -> Result<(), String> {
        let unknown = || format!("{event}: the kernel's description of it cannot be read");
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

    /// The name of a task that was there before.
    pub fn name(&mut self, pid: u32, comm: &str) {
        self.names.insert(pid, comm.to_owned());
    }

    /// Takes whole pages of a CPU, in order.
    pub fn take(&mut self, cpu: u32, pages: &[u8]) {
        self.pages.entry(cpu).or_default().extend_from_slice(pages);
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.pages.values().map(Vec::len).sum()
    }

    /// What the pages tell.
    ///
    /// # Errors
    /// No event, or pages that are not what their formats say.
    pub fn read(&self) -> Result<Recording, RecordingError> {
        let error = |message: String| RecordingError {
            line: 0,
            message,
            hint: HINT,
        };
        let mut story = Story::default();
        let mut lines = Vec::new();
        for (&cpu, bytes) in &self.pages {
            for page in bytes.chunks_exact(self.page) {
                let lost = self.read_page(cpu, page, &mut lines).map_err(error)?;
                story.missing += u32::from(lost);
            }
        }
        // Whoever is met by its pid alone has the name it has elsewhere.
        let mut names: BTreeMap<u32, &str> = self.names.iter().map(|(&pid, comm)| (pid, comm.as_str())).collect();
        for line in &lines {
            let met = line.task.iter().chain(line.said.task());
            names.extend(
                met.filter(|task| !task.comm.is_empty())
                    .map(|task| (task.pid, task.comm)),
            );
        }
        for task in lines.iter_mut().filter_map(|line| line.task.as_mut()) {
            if task.comm.is_empty() {
                task.comm = names.get(&task.pid).copied().unwrap_or("?");
            }
        }
        story.tell(lines).map_err(|told| error(told.message))
    }

    /// Returns whether events are missing before it.
    fn read_page<'a>(&'a self, cpu: u32, page: &'a [u8], lines: &mut Vec<Line<'a>>) -> Result<bool, String> {
        let (Some(mut time), Some(used)) = (number::<8>(page, 0), number::<8>(page, 8)) else {
            return Err("a page is too short".into());
        };
        let end = HEADER + (used & LENGTH) as usize;
        let Some(page_used) = page.get(..end) else {
            return Err(format!("a page of CPU {cpu} says that it is longer than it is"));
        };
        let mut at = HEADER;
        while let Some(word) = number::<4>(page_used, at) {
            let (kind, delta) = (word as u32 & 31, word >> 5);
            let next = number::<4>(page_used, at + 4).unwrap_or(0);
            at += 4;
            let length = match kind {
                // The rest of the page, or an event that was taken back.
                PADDING if delta == 0 => break,
                PADDING => {
                    at += next as usize;
                    continue;
                }
                TIME_EXTEND => {
                    time = time.saturating_add((next << 27) + delta);
                    at += 4;
                    continue;
                }
                TIME_STAMP => {
                    // The topmost bits do not fit.
                    time = (time & 0xf800_0000_0000_0000) | (next << 27) | delta;
                    at += 4;
                    continue;
                }
                0 => next as usize,
                words => words as usize * 4,
            };
            time = time.saturating_add(delta);
            let begin = if kind == 0 { at + 4 } else { at };
            let data = page_used.get(begin..at + length).filter(|data| data.len() >= 8);
            let Some(data) = data else {
                return Err(format!("an event of CPU {cpu} goes beyond its page"));
            };
            at += length;
            lines.extend(self.line(time, cpu, data)?);
        }
        Ok(used & MISSED != 0)
    }

    fn line<'a>(&'a self, time: u64, cpu: u32, data: &'a [u8]) -> Result<Option<Line<'a>>, String> {
        let id = number::<2>(data, 0).unwrap_or(0) as u16;
        let Some(format) = self.formats.get(&id) else {
            return Ok(None);
        };
        let event = EVENTS[format.event];
        let read = || {
            let pid = |name: &str| format.number(data, name).map(|pid| pid as u32);
            let cpu_of = |name: &str| format.number(data, name).and_then(|cpu| u32::try_from(cpu).ok());
            let task = |comm: &str, of: &str, prio: &str| {
                Some(Task {
                    pid: pid(of)?,
                    comm: format.text(data, comm)?,
                    prio: format.number(data, prio).map(|prio| prio as i32),
                })
            };
            let current = Task {
                pid: pid("common_pid")?,
                comm: "",
                prio: None,
            };
            let said = match event {
                "sched_switch" => {
                    let prev = task("prev_comm", "prev_pid", "prev_prio")?;
                    let next = task("next_comm", "next_pid", "next_prio")?;
                    let prev_state = state(format.number(data, "prev_state")?);
                    return Some((prev, Said::Switch { prev_state, next }));
                }
                "sched_waking" | "sched_wakeup" => Said::Wakeup {
                    task: task("comm", "pid", "prio")?,
                    waking: event == "sched_waking",
                    target: cpu_of("target_cpu"),
                },
                "sched_wakeup_new" => Said::WakeupNew {
                    task: task("comm", "pid", "prio")?,
                    target: cpu_of("target_cpu"),
                },
                "sched_migrate_task" => Said::Migrate {
                    task: task("comm", "pid", "prio")?,
                    from: cpu_of("orig_cpu")?,
                    to: cpu_of("dest_cpu")?,
                },
                "sched_process_fork" => Said::Fork {
                    child: task("child_comm", "child_pid", "")?,
                },
                "sched_process_exec" => Said::Exec {
                    file: format.text(data, "filename")?,
                },
                _ => Said::Exit,
            };
            Some((current, said))
        };
        let (task, said) = read().ok_or_else(|| format!("{event} has not the fields that are needed"))?;
        Ok(Some(Line {
            time,
            cpu,
            task: Some(task),
            in_interrupt: data[2] & IN_INTERRUPT != 0,
            said,
        }))
    }
}

impl Format {
    fn number(&self, data: &[u8], name: &str) -> Option<i64> {
        let field = self.fields.get(name)?;
        match field.size {
            4 => number::<4>(data, field.offset).map(|value| i64::from(value as i32)),
            8 => number::<8>(data, field.offset).map(|value| value as i64),
            _ => None,
        }
    }

    /// Up to the NUL, and no further than it is UTF-8.
    fn text<'a>(&self, data: &'a [u8], name: &str) -> Option<&'a str> {
        let field = self.fields.get(name)?;
        let (offset, size) = match field.indirect {
            true => {
                let place = number::<4>(data, field.offset)?;
                ((place & 0xffff) as usize, (place >> 16) as usize)
            }
            false => (field.offset, field.size),
        };
        let bytes = data.get(offset..offset.checked_add(size)?)?;
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
        let good = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        std::str::from_utf8(&bytes[..good]).ok()
    }
}

/// A little-endian number of N bytes.
fn number<const N: usize>(data: &[u8], at: usize) -> Option<u64> {
    let bytes: [u8; N] = data.get(at..at.checked_add(N)?)?.try_into().ok()?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// The bits that the tracepoint makes of a state; who is preempted has one above them all.
fn state(bits: i64) -> TaskState {
    match bits & 0xff {
        0 => TaskState::Running,
        bits if bits & 0x30 != 0 => TaskState::Dead,
        2 => TaskState::Uninterruptible,
        _ => TaskState::Interruptible,
    }
}
