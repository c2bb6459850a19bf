// SPDX-License-Identifier: GPL-2.0-only
//! Reads the kernel's descriptions of its events, as trace-cmd and perf copy them from tracefs.
//!
//! ```text
//! 17 08 44 "tracing" | version | byte order | size of a long | size of a page
//! "header_page" size text | "header_event" size text | formats of ftrace's own events
//! systems: name, formats | addresses of functions | formats of trace_printk | names of tasks
//! ```
//!
//! A perf.data file contains these parts as one section. A trace.dat file of version 6 begins with
//! them, and one of version 7 has a section for each part.

use super::damage::Damage;
use super::events::Formats;
use super::input::{Cursor, Order};
use super::ring::Pages;
use std::collections::BTreeMap;
use std::io::Read;

pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// Maximum number of events that a kernel describes. Real kernels have some thousands.
const MAX_EVENTS: u64 = 1 << 20;

/// The descriptions.
pub struct TracingData {
    pub version: u32,
    pub formats: Formats,
    pub pages: Pages,
    /// Names of tasks by pid.
    pub names: BTreeMap<u32, String>,
}

impl TracingData {
    /// Reads the magic number, the version and the form of numbers.
    ///
    /// # Errors
    /// Fails if the file does not begin in this way.
    pub fn begin<R: Read>(cursor: &mut Cursor<R>) -> Result<TracingData, Damage> {
        if cursor.part(MAGIC.len() as u64)? != MAGIC {
            return Err("the descriptions of the events do not begin with their magic number".into());
        }
        let version = cursor.text()?;
        let version = version.split('.').next_back().and_then(|version| version.parse().ok());
        let order = match cursor.number::<1>()? {
            0 => Order::Little,
            _ => Order::Big,
        };
        cursor.order = order;
        let long = match cursor.number::<1>()? {
            4 => 4,
            8 => 8,
            other => return Err(format!("a number of {other} bytes is no long of Linux").into()),
        };
        let page = cursor.number::<4>()?;
        Ok(TracingData {
            version: version.ok_or("the version of the descriptions is no number")?,
            formats: Formats::new(order),
            pages: Pages {
                size: page_size(page)?,
                commit: long,
                data: 8 + long,
                order,
            },
            names: BTreeMap::new(),
        })
    }

    /// Reads the remaining parts.
    ///
    /// # Errors
    /// Fails if a part is damaged.
    pub fn read_parts<R: Read>(&mut self, cursor: &mut Cursor<R>) -> Result<(), Damage> {
        self.read_headers(cursor)?;
        self.read_ftrace_formats(cursor)?;
        self.read_formats(cursor)?;
        // The addresses of functions, and the formats of trace_printk.
        cursor.sized::<4>()?;
        cursor.sized::<4>()?;
        match self.version {
            ..6 => Ok(()),
            _ => self.read_names(cursor),
        }
    }

    /// Reads the descriptions of a page and of an event's header.
    ///
    /// # Errors
    /// Fails if they are damaged.
    pub fn read_headers<R: Read>(&mut self, cursor: &mut Cursor<R>) -> Result<(), Damage> {
        if cursor.text()? != "header_page" {
            return Err("the description of a page is missing".into());
        }
        let page = cursor.sized::<8>()?;
        for line in String::from_utf8_lossy(&page).lines() {
            // "field: local_t commit;	offset:8;	size:8;	signed:1;"
            let number = |key: &str| line.split_once(key)?.1.split(';').next()?.parse::<usize>().ok();
            match (line.contains(" commit;"), line.contains("char data;")) {
                (true, _) => match number("size:") {
                    Some(size @ (4 | 8)) => self.pages.commit = size,
                    _ => return Err("the description of a page cannot be read".into()),
                },
                (_, true) => match number("offset:") {
                    Some(offset @ 8..=64) => self.pages.data = offset,
                    _ => return Err("the description of a page cannot be read".into()),
                },
                (false, false) => {}
            }
        }
        if cursor.text()? != "header_event" {
            return Err("the description of an event's header is missing".into());
        }
        cursor.sized::<8>().map(drop)
    }

    /// Reads the formats of ftrace's own events, which describe no scheduling.
    ///
    /// # Errors
    /// Fails if they are damaged.
    pub fn read_ftrace_formats<R: Read>(&mut self, cursor: &mut Cursor<R>) -> Result<(), Damage> {
        for _ in 0..count(cursor)? {
            cursor.sized::<8>()?;
        }
        Ok(())
    }

    /// Reads the formats of events.
    ///
    /// # Errors
    /// Fails if they are damaged.
    pub fn read_formats<R: Read>(&mut self, cursor: &mut Cursor<R>) -> Result<(), Damage> {
        for _ in 0..count(cursor)? {
            let system = cursor.text()?;
            for _ in 0..count(cursor)? {
                let format = cursor.sized::<8>()?;
                if system == "sched" {
                    self.formats.add(&String::from_utf8_lossy(&format))?;
                }
            }
        }
        Ok(())
    }

    /// Reads the names of tasks: lines with a pid and a name.
    ///
    /// # Errors
    /// Fails if the part is incomplete.
    pub fn read_names<R: Read>(&mut self, cursor: &mut Cursor<R>) -> Result<(), Damage> {
        let text = cursor.sized::<8>()?;
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some((pid, name)) = line.split_once(' ')
                && let Ok(pid) = pid.parse()
                && name != "<...>"
            {
                self.names.insert(pid, name.to_owned());
            }
        }
        Ok(())
    }
}

/// Checks the size of a page.
pub fn page_size(bytes: u64) -> Result<usize, Damage> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    match (256..=1 << 24).contains(&size) {
        true => Ok(size),
        false => Err(format!("a page of {bytes} bytes is no page of Linux").into()),
    }
}

fn count<R: Read>(cursor: &mut Cursor<R>) -> Result<u64, Damage> {
    match cursor.number::<4>()? {
        count @ ..=MAX_EVENTS => Ok(count),
        count => Err(format!("{count} descriptions of events are more than any kernel has").into()),
    }
}
