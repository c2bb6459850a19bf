// SPDX-License-Identifier: GPL-2.0-only
//! The lines of a recording, as they are kept until the recording is complete.
//!
//! A kept line contains no text. Its names are numbers of [`Lines::names`], so the contents of the
//! file need not stay in memory.

use super::line::{Line, LineEvent, Task};
use std::collections::BTreeMap;

/// Number of a text in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(u32);

/// All different texts of a recording.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
    numbers: BTreeMap<Box<str>, u32>,
}

impl Names {
    fn number(&mut self, text: &str) -> Name {
        if let Some(&number) = self.numbers.get(text) {
            return Name(number);
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        Name(number)
    }

    /// Returns the text with this number.
    pub fn text(&self, name: Name) -> &str {
        &self.texts[name.0 as usize]
    }

    /// Returns a line with the texts of its names.
    pub fn resolve(&self, line: &Line<Name>) -> Line<&str> {
        line.map(&mut |&name| self.text(name))
    }
}

/// The lines of a recording, and what else its file contains.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    pub lines: Vec<Line<Name>>,
    pub names: Names,
    /// Number of places where events were lost.
    pub gaps: u32,
    /// Number of lost events, as far as the file contains it.
    pub lost: u64,
    /// Number of recorded CPUs according to the file, or 0.
    pub nr_cpus: u32,
    /// Names of tasks that the file contains in addition to its events.
    pub known: BTreeMap<u32, String>,
    /// Whether the file does not say which task woke another one, or on which CPU.
    pub no_wakers: bool,
}

impl Lines {
    /// Adds a line. The lines of each CPU must be added in order.
    pub fn add(&mut self, line: &Line<&str>) {
        let names = &mut self.names;
        self.lines.push(line.map(&mut |text| names.number(text)));
    }

    /// Adds a gap in which this number of events was lost. The number is 0 if it is unknown.
    pub fn add_gap(&mut self, lost: u64) {
        self.gaps = self.gaps.saturating_add(1);
        self.lost = self.lost.saturating_add(lost);
    }
}

impl<S> Task<S> {
    fn map<T>(&self, text: &mut impl FnMut(&S) -> T) -> Task<T> {
        Task {
            pid: self.pid,
            comm: text(&self.comm),
            prio: self.prio,
        }
    }
}

impl<S> Line<S> {
    /// Returns the line with other texts.
    fn map<T>(&self, text: &mut impl FnMut(&S) -> T) -> Line<T> {
        Line {
            time: self.time,
            cpu: self.cpu,
            task: self.task.as_ref().map(|task| task.map(text)),
            in_interrupt: self.in_interrupt,
            shows_interrupts: self.shows_interrupts,
            event: match &self.event {
                LineEvent::Switch { prev, prev_state, next } => LineEvent::Switch {
                    prev: prev.map(text),
                    prev_state: *prev_state,
                    next: next.map(text),
                },
                LineEvent::Wakeup { task, waking, target } => LineEvent::Wakeup {
                    task: task.map(text),
                    waking: *waking,
                    target: *target,
                },
                LineEvent::WakeupNew { task, target } => LineEvent::WakeupNew {
                    task: task.map(text),
                    target: *target,
                },
                LineEvent::Migrate { task, from, to } => LineEvent::Migrate {
                    task: task.map(text),
                    from: *from,
                    to: *to,
                },
                LineEvent::Fork { child } => LineEvent::Fork { child: child.map(text) },
                LineEvent::Exec { file } => LineEvent::Exec { file: text(file) },
                LineEvent::Exit => LineEvent::Exit,
                LineEvent::Handler { begins } => LineEvent::Handler { begins: *begins },
                LineEvent::Other { name } => LineEvent::Other { name: text(name) },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation says how much memory a recording needs.
    #[test]
    fn a_kept_line_needs_less_than_100_bytes() {
        assert!(size_of::<Line<Name>>() <= 100, "{}", size_of::<Line<Name>>());
    }
}
