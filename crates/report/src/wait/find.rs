// SPDX-License-Identifier: GPL-2.0-only
//! Finds the waits that a user asks for.

use super::{Cause, Wait};
use std::collections::BTreeSet;
use thiserror::Error;
use trace::{ByNumber, Event, Follow, Record, Sink, TaskState};

/// Maximum number of tasks that a message names.
const NAMES: usize = 12;

/// The waits that a user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This many longest waits.
    Longest(usize),
    /// The wait of a task at a time. The text is the task's name or its pid.
    At(String, u64),
}

/// Why there is no wanted wait.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoWait {
    #[error("no task waits for a CPU")]
    Never,
    /// The names are those of existing tasks.
    #[error("there is no task '{name}'; names of tasks: {names}")]
    NoTask { name: String, names: String },
    /// `near` is when the task waits instead.
    #[error("task '{name}' does not wait for a CPU at {time}{near}")]
    NotThen { name: String, time: String, near: String },
}

#[derive(Clone, Default)]
struct Task {
    waits: Option<(u64, Cause)>,
    /// Waker of a task that is about to be queued.
    waking: Option<(u64, Cause)>,
}

/// Reads records, and keeps the waits that are asked for.
pub struct Find {
    wanted: Wanted,
    follow: Follow,
    tasks: ByNumber<Task>,
    found: Vec<Wait>,
    /// The wait of the wanted task that is closest to the wanted time, if none contains it.
    near: Option<Wait>,
    /// Whether a task with the wanted name or pid exists.
    known: bool,
    /// Names of tasks, for messages.
    names: BTreeSet<String>,
    last: u64,
}

impl Find {
    pub fn new(wanted: Wanted, nr_cpus: usize) -> Find {
        Find {
            wanted,
            follow: Follow::new(nr_cpus),
            tasks: ByNumber::new(),
            found: Vec::new(),
            near: None,
            known: false,
            names: BTreeSet::new(),
            last: 0,
        }
    }

    /// Returns the waits, the longest first.
    pub fn finish(mut self) -> Result<Vec<Wait>, NoWait> {
        for (pid, task) in std::mem::take(&mut self.tasks).into_sorted() {
            if let Some((begin, cause)) = task.waits {
                self.keep(pid, begin, None, cause);
            }
        }
        if !self.found.is_empty() {
            return Ok(self.found);
        }
        Err(match self.wanted {
            Wanted::Longest(_) => NoWait::Never,
            Wanted::At(name, _) if !self.known => {
                let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
                let more = if names.len() < NAMES { "" } else { ", ..." };
                let names = names.join(", ") + more;
                NoWait::NoTask { name, names }
            }
            Wanted::At(name, time) => {
                let at = super::text::at;
                let near = match &self.near {
                    Some(wait) => {
                        let end = wait.end.unwrap_or(self.last);
                        format!("; its nearest wait is from {} to {}", at(wait.begin), at(end))
                    }
                    None => ", and at no other time".into(),
                };
                let time = at(time);
                NoWait::NotThen { name, time, near }
            }
        })
    }

    /// Keeps a wait if it is asked for.
    fn keep(&mut self, pid: u32, begin: u64, end: Option<u64>, cause: Cause) {
        let last = self.last;
        let comm = &self.follow.task(pid).comm;
        let length = end.unwrap_or(last).saturating_sub(begin);
        let wait = || Wait {
            pid,
            comm: comm.clone(),
            begin,
            end,
            cause,
        };
        match &self.wanted {
            Wanted::Longest(most) => {
                // Earlier waits precede later ones of the same length.
                let place = self.found.partition_point(|wait| wait.ns(last) >= length);
                if place < *most && length > 0 {
                    self.found.insert(place, wait());
                    self.found.truncate(*most);
                }
            }
            Wanted::At(name, time) => {
                if comm != name && name.parse() != Ok(pid) {
                    return;
                }
                let distance = |wait: &Wait| {
                    let end = wait.end.unwrap_or(last);
                    wait.begin.saturating_sub(*time).max(time.saturating_sub(end))
                };
                let wait = wait();
                if distance(&wait) == 0 && length > 0 {
                    self.found.push(wait);
                    self.found.truncate(1);
                } else if length > 0 && self.near.as_ref().is_none_or(|near| distance(&wait) < distance(near)) {
                    self.near = Some(wait);
                }
            }
        }
    }

    fn add(&mut self, record: &Record) {
        let (time, cpu) = (record.time, record.cpu);
        self.last = time;
        match record.event {
            Event::TaskNew { pid, ref comm, .. } | Event::TaskRename { pid, ref comm } => {
                if let Wanted::At(name, _) = &self.wanted {
                    self.known |= comm == name || name.parse() == Ok(pid);
                    if self.names.len() < NAMES {
                        self.names.insert(comm.clone());
                    }
                }
            }
            Event::Waking { pid, waker } => {
                self.tasks.entry(pid).waking = Some((time, Cause::Woken { waker, cpu }));
            }
            Event::Wakeup { pid, new, .. } => {
                let cpu_of_task = self.follow.task(pid).cpu;
                let runs = self.follow.current(cpu_of_task) == pid;
                let task = self.tasks.entry(pid);
                let waking = task.waking.take();
                let cause = match new {
                    true => (time, Cause::New),
                    false => waking.unwrap_or((time, Cause::Woken { waker: 0, cpu })),
                };
                if !runs {
                    task.waits.get_or_insert(cause);
                }
            }
            Event::Switch { prev, prev_state, next } => {
                let waits = self.tasks.entry(next).waits.take();
                // A recording may lack sched_wakeup.
                let waits = waits.or(self.tasks.entry(next).waking.take());
                if let Some((begin, cause)) = waits.filter(|_| next != 0) {
                    self.keep(next, begin, Some(time), cause);
                }
                if prev != 0 && prev_state == TaskState::Running && prev != next {
                    self.tasks.entry(prev).waits = Some((time, Cause::Preempted { cpu }));
                }
            }
            Event::TaskExit { pid } => *self.tasks.entry(pid) = Task::default(),
            _ => {}
        }
        self.follow.add(record);
    }
}

impl Sink for Find {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
