// SPDX-License-Identifier: GPL-2.0-only
//! The log of a script: the wake-ups, switches and migrations since the last command, and the calls of
//! the policy.

use crate::machine::Machine;
use crate::sched::state::task::Task;
use trace::{Record, TaskState};

/// An event of the log, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Time in ns.
    pub time: u64,
    pub text: String,
}

impl Machine {
    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Happened> {
        let records = std::mem::take(&mut self.records);
        (self.texts, self.texts_bytes) = (false, 0);
        let stepped = self.stepped.as_deref_mut();
        let notes = std::mem::take(&mut stepped.expect("begin_stepping() was called").events);
        let mut notes = notes.into_iter().peekable();
        let mut events = Vec::new();
        let mut reason = String::new();
        for (index, record) in records.iter().enumerate() {
            while let Some((_, text)) = notes.next_if(|(at, _)| *at <= index) {
                if text.starts_with("call ") || text.starts_with("return ") {
                    events.push(Happened {
                        time: record.time,
                        text,
                    });
                } else {
                    reason = text;
                }
            }
            if let Some(text) = self.describe(record, &reason) {
                events.push(Happened {
                    time: record.time,
                    text,
                });
            }
        }
        let calls = notes.map(|(_, text)| text).filter(|text| !text.is_empty());
        events.extend(calls.map(|text| Happened { time: self.now, text }));
        events
    }

    /// Returns the text of a record. `reason` is the reason of a migration.
    fn describe(&self, record: &Record, reason: &str) -> Option<String> {
        let name = |pid: u32| match pid {
            0 => "idle".to_string(),
            pid => self.comm_of(pid),
        };
        let cpu = record.cpu;
        Some(match record.event {
            trace::Event::Wakeup { pid, target, new } => {
                let kind = if new { "wakeup_new" } else { "wakeup" };
                format!("{kind} {} cpu={target}", name(pid))
            }
            trace::Event::Switch { prev: 0, next, .. } => format!("switch cpu={cpu} prev=idle next={}", name(next)),
            trace::Event::Switch { prev, prev_state, next } => {
                let state = match prev_state {
                    TaskState::Running => "runnable",
                    TaskState::Dead => "dead",
                    TaskState::Interruptible | TaskState::Uninterruptible => "blocked",
                };
                format!("switch cpu={cpu} prev={} state={state} next={}", name(prev), name(next))
            }
            trace::Event::Migrate {
                reason: trace::MigrateReason::Fork,
                ..
            } => return None,
            trace::Event::Migrate { pid, from, to, .. } => {
                format!("migrate {} cpu={from} to={to} by={reason}", name(pid))
            }
            _ => return None,
        })
    }

    fn comm_of(&self, pid: u32) -> String {
        let all = || self.tasks.iter().filter(|t| t.pid() == pid);
        all().next().map_or_else(|| "?".to_string(), Task::comm)
    }
}
