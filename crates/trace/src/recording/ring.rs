// SPDX-License-Identifier: GPL-2.0-only
//! Reads pages of the kernel's ring buffer (`trace_pipe_raw`). Their times are in nanoseconds.
//!
//! ```text
//! page:   time of the first event (u64) | bytes in use, flags above (long) | events ...
//! event:  type or length (5 bits) | time since the previous event (27 bits) | fields ...
//! ```

use super::builder::Builder;
use super::damage::Damage;
use super::events::Formats;
use super::input::Order;
use super::names::Lines;
use super::{Recording, RecordingError};
use std::collections::BTreeMap;

/// Mask of the bits that contain the length of a page's data. Flags are above these bits.
const LENGTH: u64 = 0x000f_ffff;
const MISSED: u64 = 1 << 31;
/// The number of missed events follows the data.
const MISSED_STORED: u64 = 1 << 30;
/// Type of padding and of discarded events. The next two types, 30 and 31, change the current time.
const PADDING: u64 = 29;
const TIME_EXTEND: u64 = 30;
const TIME_STAMP: u64 = 31;
const HINT: &str =
    "use pages of per_cpu/cpuN/trace_pipe_raw and files events/sched/*/format that come from the same kernel";

/// Form of the pages, which depends on the kernel's architecture.
#[derive(Clone, Copy)]
pub struct Pages {
    /// Size of a page in bytes.
    pub size: usize,
    /// Size in bytes of the number of bytes in use: 4 or 8.
    pub commit: usize,
    /// Offset of the first event.
    pub data: usize,
    pub order: Order,
}

impl Pages {
    /// Returns the form of the pages of a 64-bit little-endian machine.
    pub fn new(size: usize) -> Pages {
        Pages {
            size,
            commit: 8,
            data: 16,
            order: Order::Little,
        }
    }

    /// Adds the events of a page to `lines`, and the gap before the page if events were lost.
    ///
    /// # Errors
    /// Fails if the page does not match its header, or an event does not match its description.
    pub fn read(&self, cpu: u32, page: &[u8], formats: &Formats, lines: &mut Lines) -> Result<(), Damage> {
        let order = self.order;
        let used = page.get(8..8 + self.commit).map(|bytes| order.number(bytes));
        let (Some(mut time), Some(used)) = (order.get::<8>(page, 0), used) else {
            return Err("a page is shorter than its header".into());
        };
        let length = usize::try_from(used & LENGTH).unwrap_or(usize::MAX);
        let end = self.data.saturating_add(length);
        let Some(page_used) = page.get(..end) else {
            return Err(format!("a page of CPU {cpu} is shorter than the length in its header").into());
        };
        if used & MISSED != 0 {
            let stored = page.get(end..end.saturating_add(self.commit));
            let stored = stored.filter(|_| used & MISSED_STORED != 0);
            lines.add_gap(stored.map_or(0, |bytes| order.number(bytes)));
        }
        let mut at = self.data;
        while let Some(word) = order.get::<4>(page_used, at) {
            let (kind, delta) = match order {
                Order::Little => (word & 31, word >> 5),
                Order::Big => (word >> 27, word & 0x07ff_ffff),
            };
            let next = order.get::<4>(page_used, at + 4).unwrap_or(0);
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
                .filter(|data| data.len() >= 4);
            let Some(data) = data else {
                return Err(format!("an event of CPU {cpu} extends beyond its page").into());
            };
            at += length;
            if let Some(line) = formats.line(time, cpu, data)? {
                lines.add(&line);
            }
        }
        Ok(())
    }
}

/// The contents of a ring buffer: the kernel's descriptions of events, and the recorded pages.
#[derive(Default)]
pub struct Ring {
    formats: Formats,
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

    /// Adds the text of the `format` file of one of [`super::EVENTS`].
    ///
    /// # Errors
    /// Fails if the text does not describe that event.
    pub fn describe(&mut self, event: &str, text: &str) -> Result<(), Damage> {
        self.formats.describe(event, text)
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
        let mut lines = Lines {
            known: self.names.clone(),
            ..Lines::default()
        };
        for (&cpu, bytes) in &self.pages {
            for page in bytes.chunks_exact(self.page) {
                let read = Pages::new(self.page).read(cpu, page, &self.formats, &mut lines);
                read.map_err(|damage| error(damage.to_string()))?;
            }
        }
        Builder::default().build(lines).map_err(|e| error(e.message))
    }
}
