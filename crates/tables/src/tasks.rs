// SPDX-License-Identifier: GPL-2.0-only
//! Collects the totals of each task. Also stores the last wake-up of each task that has not run
//! since, so that the latency of the wake-up can be computed.

use crate::column::Table;
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use trace::{Event, Follow, Record, TaskState};

#[derive(Default)]
struct Task {
    parent: u32,
    created: Option<u64>,
    exited: Option<u64>,
    cpu_ns: u64,
    wait_ns: u64,
    switches: u64,
    preemptions: u64,
    migrations: u64,
    wakeups: u64,
    /// Row of the task's last wake-up, until the task runs.
    waking: Option<usize>,
}

/// The tasks of a run by pid.
pub struct Tasks {
    tasks: BTreeMap<u32, Task>,
    follow: Follow,
}

impl Tasks {
    pub fn new(nr_cpus: usize) -> Tasks {
        Tasks {
            tasks: BTreeMap::new(),
            follow: Follow::new(nr_cpus),
        }
    }

    /// Records a wake-up. `row` is its row in the table of wake-ups.
    pub fn wake(&mut self, pid: u32, row: usize) {
        let task = self.tasks.entry(pid).or_default();
        task.wakeups += 1;
        task.waking = Some(row);
    }

    /// Returns the row of the task's last wake-up if the task has not run since.
    pub fn waking(&self, pid: u32) -> Option<usize> {
        self.tasks.get(&pid)?.waking
    }

    /// Adds a record to the totals. If it ends the wait of a woken task, returns the row of the
    /// wake-up and the latency in ns.
    pub fn add(&mut self, record: &Record) -> Option<(usize, u64)> {
        let now = record.local_time();
        let ended = self.follow.add(record);
        match record.event {
            Event::TaskNew { pid, parent, .. } => {
                let task = self.tasks.entry(pid).or_default();
                (task.parent, task.created) = (parent, Some(now));
            }
            Event::TaskExit { pid } => self.tasks.entry(pid).or_default().exited = Some(now),
            Event::Migrate { pid, .. } => self.tasks.entry(pid).or_default().migrations += 1,
            Event::Switch { prev, prev_state, next } => {
                if prev != 0 {
                    let task = self.tasks.entry(prev).or_default();
                    task.preemptions += u64::from(prev_state == TaskState::Running);
                    let since = ended.turn.and_then(|(_, since)| since);
                    task.cpu_ns += since.map_or(0, |since| now.saturating_sub(since));
                }
                if next != 0 {
                    let task = self.tasks.entry(next).or_default();
                    task.switches += 1;
                    let row = task.waking.take();
                    let wait = ended.wait?;
                    task.wait_ns += wait.ns;
                    return row.filter(|_| wait.woken).map(|row| (row, wait.ns));
                }
            }
            _ => {}
        }
        None
    }

    /// Returns the table of tasks. Also returns the rows of wake-ups whose task never ran, each
    /// with the time from the wake-up to the end of the run.
    pub fn finish(mut self, end: u64) -> (RecordBatch, Vec<(usize, u64)>) {
        for (pid, since) in self.follow.running() {
            self.tasks.entry(pid).or_default().cpu_ns += end.saturating_sub(since);
        }
        let mut waits = Vec::new();
        let mut followed = Vec::new();
        for (&pid, task) in &mut self.tasks {
            let known = self.follow.task(pid);
            if let Some(wait) = known.activity.wait(end) {
                task.wait_ns += wait.ns;
                waits.extend(task.waking.map(|row| (row, wait.ns)));
            }
            followed.push(known.clone());
        }
        let column = |value: fn(&Task) -> u64| self.tasks.values().map(value).collect::<Vec<_>>();
        let table = Table::default()
            .u32("pid", self.tasks.keys().copied().collect())
            .u32("tgid", followed.iter().map(|task| task.tgid).collect())
            .u32("parent", self.tasks.values().map(|task| task.parent).collect())
            .texts("comm", followed.iter().map(|task| task.comm.clone()).collect())
            .i32("prio", followed.iter().map(|task| task.prio).collect())
            .optional_u64("created_ns", self.tasks.values().map(|task| task.created).collect())
            .optional_u64("exited_ns", self.tasks.values().map(|task| task.exited).collect())
            .u64("cpu_ns", column(|task| task.cpu_ns))
            .u64("wait_ns", column(|task| task.wait_ns))
            .u64("switches", column(|task| task.switches))
            .u64("preemptions", column(|task| task.preemptions))
            .u64("migrations", column(|task| task.migrations))
            .u64("wakeups", column(|task| task.wakeups))
            .batch();
        (table, waits)
    }
}
