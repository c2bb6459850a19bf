// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of real machines as records: the text that `perf script`, `trace-cmd report` and tracefs' `trace` print of
//! the scheduler's events.
//!
//! Needed are sched_switch and one of sched_waking and sched_wakeup; sched_wakeup_new, sched_process_fork and
//! sched_process_exit are used, any other event is passed over. Time 0 is that of the first event. A task that nobody is
//! seen to fork existed from the start; who runs on a CPU when its first event comes, ran there since the start or since it
//! was seen elsewhere. A wake-up from an interrupt, where the text tells it (ftrace does, perf does not), has no waker.

mod line;

use crate::event::{Event, Record, TaskState};
use line::{Line, Said, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Text that is no whole recording, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingError {
    /// From 1.
    pub line: u32,
    pub message: String,
    pub hint: &'static str,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}\n  hint: {}", self.line, self.message, self.hint)
    }
}

impl std::error::Error for RecordingError {}

const FORM: &str = "expected is what 'perf script' or 'trace-cmd report' prints of events recorded on all CPUs (-a)";
const LOST: &str = "record all CPUs (-a), with larger buffers (perf record -m 16M, trace-cmd record -b 100000)";

/// Reads a recording: its records, in order of time.
///
/// # Errors
/// A line that is no event, events that contradict each other because some are missing, or no event at all.
pub fn read(text: &str) -> Result<Vec<Record>, RecordingError> {
    let mut lines = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let read = line::parse(text).map_err(|wrong| RecordingError {
            line,
            hint: if wrong.lost { LOST } else { FORM },
            message: wrong.message,
        })?;
        lines.extend(read.map(|read| (line, read)));
    }
    // The tools merge what each CPU recorded, nearly in order.
    lines.sort_by_key(|(_, line)| line.time);
    let Some(start) = lines.first().map(|(_, line)| line.time) else {
        return Err(RecordingError {
            line: 1,
            message: "no scheduler events".into(),
            hint: FORM,
        });
    };
    lines.iter_mut().for_each(|(_, line)| line.time -= start);
    let mut story = Story::new(&lines);
    for (number, line) in &lines {
        story.go_on(line).map_err(|message| RecordingError {
            line: *number,
            message,
            hint: LOST,
        })?;
    }
    story.records.sort_by_key(|record| record.time);
    Ok(story.records)
}

/// The records so far.
#[derive(Default)]
struct Story {
    records: Vec<Record>,
    /// The task of each CPU.
    running: BTreeMap<u32, u32>,
    alive: BTreeSet<u32>,
    asleep: BTreeSet<u32>,
    /// First priority told of each pid.
    prios: BTreeMap<u32, i32>,
}

impl Story {
    /// How things stand at time 0.
    fn new(lines: &[(u32, Line)]) -> Story {
        let mut story = Story::default();
        let mut last_seen: BTreeMap<u32, u64> = BTreeMap::new();
        let mut forked = BTreeSet::new();
        let mut names: BTreeMap<u32, &str> = BTreeMap::new();
        // Who runs on each CPU before its first event, and since when.
        let mut first: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for (_, line) in lines {
            first.entry(line.cpu).or_insert_with(|| {
                // After what was said of it there.
                let since = last_seen.get(&line.task.pid).map_or(0, |seen| seen + 1);
                (since.min(line.time), line.task.pid)
            });
            for task in line.tasks() {
                last_seen.insert(task.pid, line.time);
                if let Some(prio) = task.prio {
                    story.prios.entry(task.pid).or_insert(prio);
                }
                if names.insert(task.pid, task.comm).is_some() || task.pid == line.task.pid {
                    continue;
                }
                match line.said {
                    Said::Fork { .. } | Said::WakeupNew { .. } => drop(forked.insert(task.pid)),
                    Said::Wakeup { .. } => drop(story.asleep.insert(task.pid)),
                    Said::Switch { .. } | Said::Exit | Said::Other => {}
                }
            }
        }
        for (pid, comm) in names {
            if !forked.contains(&pid) {
                story.create(0, 0, &Task { pid, comm, prio: None }, 0);
            }
        }
        for (cpu, (since, pid)) in first {
            story.running.insert(cpu, pid);
            if pid != 0 {
                let prev_state = TaskState::Running;
                story.say(
                    since,
                    cpu,
                    Event::Switch {
                        prev: 0,
                        prev_state,
                        next: pid,
                    },
                );
            }
        }
        story
    }

    fn say(&mut self, time: u64, cpu: u32, event: Event) {
        self.records.push(Record { time, cpu, event });
    }

    fn create(&mut self, time: u64, cpu: u32, task: &Task, parent: u32) {
        let pid = task.pid;
        if pid == 0 || !self.alive.insert(pid) {
            return;
        }
        let new = Event::TaskNew {
            pid,
            tgid: pid,
            parent,
            prio: self.prios.get(&pid).copied().unwrap_or(120),
            comm: task.comm.to_owned(),
        };
        self.say(time, cpu, new);
    }

    fn go_on(&mut self, line: &Line) -> Result<(), String> {
        let (time, cpu, current) = (line.time, line.cpu, line.task.pid);
        let running = self.running.get(&cpu).copied().unwrap_or(0);
        if running != current {
            return Err(format!(
                "CPU {cpu} runs {} [{current}], but it was last said to run [{running}]",
                line.task.comm
            ));
        }
        match &line.said {
            Said::Switch { prev_state, next } => {
                if let Some((&other, _)) = self.running.iter().find(|&(_, &pid)| pid == next.pid && pid != 0) {
                    return Err(format!(
                        "{} [{}] begins to run on CPU {cpu}, but it runs on CPU {other}",
                        next.comm, next.pid
                    ));
                }
                self.running.insert(cpu, next.pid);
                self.asleep.remove(&next.pid);
                match prev_state {
                    TaskState::Running => {}
                    TaskState::Dead => drop(self.alive.remove(&current)),
                    TaskState::Interruptible | TaskState::Uninterruptible => drop(self.asleep.insert(current)),
                }
                let (prev_state, next) = (*prev_state, next.pid);
                self.say(
                    time,
                    cpu,
                    Event::Switch {
                        prev: current,
                        prev_state,
                        next,
                    },
                );
            }
            // Of waking and wakeup the first counts.
            Said::Wakeup { task, waking } => {
                if self.asleep.remove(&task.pid) {
                    let waker = if line.in_interrupt { 0 } else { current };
                    self.say(time, cpu, Event::Waking { pid: task.pid, waker });
                }
                if !waking {
                    self.say(
                        time,
                        cpu,
                        Event::Wakeup {
                            pid: task.pid,
                            target: cpu,
                            new: false,
                        },
                    );
                }
            }
            Said::WakeupNew { task } => {
                self.create(time, cpu, task, current);
                self.say(
                    time,
                    cpu,
                    Event::Wakeup {
                        pid: task.pid,
                        target: cpu,
                        new: true,
                    },
                );
            }
            Said::Fork { child } => self.create(time, cpu, child, current),
            Said::Exit => self.say(time, cpu, Event::TaskExit { pid: current }),
            Said::Other => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
