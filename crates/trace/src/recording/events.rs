// SPDX-License-Identifier: GPL-2.0-only
//! Reads events as the kernel's ring buffers and perf's samples contain them.
//!
//! The `format` files of tracefs describe the fields. The tools copy these files into their
//! recordings.

use super::damage::Damage;
use super::input::Order;
use super::line::{Line, LineEvent, Task, state_bits};
use crate::event::TaskState;
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

/// Flags of an event that occurred in a hard or soft interrupt.
const IN_INTERRUPT: u64 = 0x08 | 0x10;

/// Positions of the fields of one kind of event.
struct Format {
    event: usize,
    fields: BTreeMap<String, Field>,
    /// Bits of prev_state that mean that the task is dead. Before Linux 4.14, TASK_DEAD (64) is
    /// one of them.
    dead: i64,
}

#[derive(Clone, Copy)]
struct Field {
    offset: usize,
    size: usize,
    signed: bool,
    location: Location,
}

/// Place of a field's data.
#[derive(Clone, Copy)]
enum Location {
    /// The field is the data.
    Here,
    /// The field contains the offset and the size of the data (`__data_loc`).
    At,
    /// The same, but the offset counts from the end of the field (`__rel_loc`).
    After,
}

/// The kernel's descriptions of events.
#[derive(Default)]
pub struct Formats {
    by_id: BTreeMap<u16, Format>,
    order: Order,
}

impl Formats {
    /// Returns no descriptions, for numbers in this order of bytes.
    pub fn new(order: Order) -> Formats {
        Formats {
            by_id: BTreeMap::new(),
            order,
        }
    }

    /// Adds the text of the `format` file of an event, and ignores events that are not in
    /// [`EVENTS`].
    ///
    /// # Errors
    /// Fails if the text describes no event.
    pub fn add(&mut self, text: &str) -> Result<(), Damage> {
        let name = text.lines().find_map(|line| line.strip_prefix("name: "));
        let name = name.ok_or("the description of an event lacks its name")?.trim();
        match EVENTS.contains(&name) {
            true => self.describe(name, text),
            false => Ok(()),
        }
    }

    /// Adds the text of the `format` file of one of [`EVENTS`].
    ///
    /// # Errors
    /// Fails if the text does not describe that event.
    pub fn describe(&mut self, event: &str, text: &str) -> Result<(), Damage> {
        let unknown = || {
            Damage::from(format!(
                "{event}: the kernel's description of this event cannot be read"
            ))
        };
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
                // Kernels before 2.6.31 do not describe the sign. Pids and priorities have one.
                signed: number("signed:") != Some(0),
                location: match declaration.split_whitespace().next() {
                    Some("__data_loc") => Location::At,
                    Some("__rel_loc") => Location::After,
                    _ => Location::Here,
                },
            };
            fields.insert(name.split('[').next().unwrap_or(name).to_owned(), field);
        }
        let print = text.lines().find(|line| line.starts_with("print fmt:")).unwrap_or("");
        let dead = 0x30 | if print.contains("{ 64, \"x\" }") { 0x40 } else { 0 };
        self.by_id.insert(id, Format { event, fields, dead });
        Ok(())
    }

    /// Converts an event into a line. Returns `None` for events that are not in [`EVENTS`].
    ///
    /// # Errors
    /// Fails if a field is missing or out of range.
    pub fn line<'a>(&self, time: u64, cpu: u32, data: &'a [u8]) -> Result<Option<Line<&'a str>>, Damage> {
        let id = self.order.get::<2>(data, 0).and_then(|id| u16::try_from(id).ok());
        let Some(format) = id.and_then(|id| self.by_id.get(&id)) else {
            return Ok(None);
        };
        let name = EVENTS[format.event];
        let record = Data {
            format,
            order: self.order,
            data,
        };
        let (task, event) = record
            .event(name)
            .ok_or_else(|| format!("{name}: a required field is missing or out of range"))?;
        Ok(Some(Line {
            time,
            cpu,
            task: Some(task),
            in_interrupt: self.order.get::<1>(data, 2).unwrap_or(0) & IN_INTERRUPT != 0,
            shows_interrupts: true,
            event,
        }))
    }
}

/// The data of an event.
struct Data<'f, 'a> {
    format: &'f Format,
    order: Order,
    data: &'a [u8],
}

impl<'a> Data<'_, 'a> {
    /// Returns the running task and the event.
    fn event(&self, name: &str) -> Option<(Task<&'a str>, LineEvent<&'a str>)> {
        let current = Task {
            pid: self.id("common_pid")?,
            comm: "",
            prio: None,
        };
        let woken = || self.task("comm", "pid", "prio");
        let event = match name {
            "sched_switch" => LineEvent::Switch {
                prev: self.task("prev_comm", "prev_pid", "prev_prio")?,
                prev_state: match self.number("prev_state")? {
                    state if state & self.format.dead != 0 => TaskState::Dead,
                    state => state_bits(state),
                },
                next: self.task("next_comm", "next_pid", "next_prio")?,
            },
            "sched_waking" | "sched_wakeup" => LineEvent::Wakeup {
                task: woken()?,
                waking: name == "sched_waking",
                target: self.id("target_cpu"),
            },
            "sched_wakeup_new" => LineEvent::WakeupNew {
                task: woken()?,
                target: self.id("target_cpu"),
            },
            "sched_migrate_task" => LineEvent::Migrate {
                task: woken()?,
                from: self.id("orig_cpu")?,
                to: self.id("dest_cpu")?,
            },
            "sched_process_fork" => LineEvent::Fork {
                child: self.task("child_comm", "child_pid", "")?,
            },
            "sched_process_exec" => LineEvent::Exec {
                file: self.text("filename")?,
            },
            _ => LineEvent::Exit,
        };
        Some((current, event))
    }

    fn task(&self, comm: &str, pid: &str, prio: &str) -> Option<Task<&'a str>> {
        Some(Task {
            pid: self.id(pid)?,
            comm: self.text(comm)?,
            prio: self.number(prio).and_then(|prio| i32::try_from(prio).ok()),
        })
    }

    /// Returns the value of a field with a pid or a CPU.
    fn id(&self, name: &str) -> Option<u32> {
        u32::try_from(self.number(name)?).ok()
    }

    /// Returns the value of a numeric field.
    fn number(&self, name: &str) -> Option<i64> {
        let field = self.format.fields.get(name)?;
        let bytes = self.data.get(field.offset..field.offset.checked_add(field.size)?)?;
        let value = self.order.number(bytes);
        let unused = match bytes.len() {
            1..=8 => 64 - 8 * u32::try_from(bytes.len()).ok()?,
            _ => return None,
        };
        Some(match field.signed {
            true => value.wrapping_shl(unused).cast_signed() >> unused,
            false => i64::try_from(value).ok()?,
        })
    }

    /// Returns a text field up to its NUL or up to the first byte that is not UTF-8.
    fn text(&self, name: &str) -> Option<&'a str> {
        let field = self.format.fields.get(name)?;
        let (offset, size) = match field.location {
            Location::Here => (field.offset, field.size),
            Location::At | Location::After => {
                let location = self.order.get::<4>(self.data, field.offset)?;
                let base = match field.location {
                    Location::After => field.offset.checked_add(field.size)?,
                    _ => 0,
                };
                let offset = usize::try_from(location & 0xffff).ok()?;
                (offset.checked_add(base)?, usize::try_from(location >> 16).ok()?)
            }
        };
        let bytes = self.data.get(offset..offset.checked_add(size)?)?;
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
        let good = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
        std::str::from_utf8(&bytes[..good]).ok()
    }
}
