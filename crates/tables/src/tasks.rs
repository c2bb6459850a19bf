// SPDX-License-Identifier: GPL-2.0-only
//! Collects the totals of each task. Also stores the last wake-up of each task that has not run
//! since, so that the latency of the wake-up can be computed.

use crate::column::Table;
use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use trace::{Event, Record, TaskState};

#[derive(Default)]
struct Task {
    comm: String,
    tgid: u32,
    parent: u32,
    prio: i32,
    created: Option<u64>,
    exited: Option<u64>,
    cpu_ns: u64,
    wait_ns: u64,
    switches: u64,
    preemptions: u64,
    migrations: u64,
    wakeups: u64,
    /// Time at which the task began to wait for a CPU. `None` while it runs or sleeps.
    waits_since: Option<u64>,
    /// Row of the task's last wake-up, until the task runs, and the time of the wake-up.
    waking: Option<(usize, u64)>,
}

/// The tasks of a run by pid.
pub struct Tasks {
    tasks: BTreeMap<u32, Task>,
    /// For each CPU, the pid of the running task, and the time of the switch to it. Pid 0 is the
    /// idle task.
    running: Vec<(u32, u64)>,
}

impl Tasks {
    pub fn new(nr_cpus: usize) -> Tasks {
        Tasks {
            tasks: BTreeMap::new(),
            running: vec![(0, 0); nr_cpus],
        }
    }

    /// Records a wake-up. `row` is its row in the table of wake-ups.
    pub fn wake(&mut self, pid: u32, row: usize, time: u64) {
        let task = self.tasks.entry(pid).or_default();
        task.wakeups += 1;
        task.waking = Some((row, time));
        task.waits_since.get_or_insert(time);
    }

    /// Returns the row of the task's last wake-up if the task has not run since.
    pub fn waking(&self, pid: u32) -> Option<usize> {
        Some(self.tasks.get(&pid)?.waking?.0)
    }

    /// Adds a record to the totals. If it ends the wait of a woken task, returns the row of the
    /// wake-up and the latency in ns.
    pub fn add(&mut self, record: &Record) -> Option<(usize, u64)> {
        let now = record.local_time();
        match &record.event {
            Event::TaskNew {
                pid,
                tgid,
                parent,
                prio,
                comm,
            } => {
                let task = self.tasks.entry(*pid).or_default();
                (task.tgid, task.parent, task.prio) = (*tgid, *parent, *prio);
                task.comm.clone_from(comm);
                task.created = Some(now);
            }
            Event::TaskRename { pid, comm } => self.tasks.entry(*pid).or_default().comm.clone_from(comm),
            Event::TaskExit { pid } => self.tasks.entry(*pid).or_default().exited = Some(now),
            Event::Prio { pid, prio } => self.tasks.entry(*pid).or_default().prio = *prio,
            Event::Migrate { pid, .. } => self.tasks.entry(*pid).or_default().migrations += 1,
            Event::Switch { prev, prev_state, next } => return self.switch(record.cpu, now, *prev, *prev_state, *next),
            _ => {}
        }
        None
    }

    fn switch(&mut self, cpu: u32, now: u64, prev: u32, state: TaskState, next: u32) -> Option<(usize, u64)> {
        let running = self.running.get_mut(cpu as usize)?;
        let (pid, since) = std::mem::replace(running, (next, now));
        if prev != 0 {
            let task = self.tasks.entry(prev).or_default();
            if pid == prev {
                task.cpu_ns += now.saturating_sub(since);
            }
            if state == TaskState::Running {
                task.preemptions += 1;
                task.waits_since = Some(now);
            }
        }
        if next == 0 {
            return None;
        }
        let task = self.tasks.entry(next).or_default();
        task.switches += 1;
        if let Some(since) = task.waits_since.take() {
            task.wait_ns += now.saturating_sub(since);
        }
        let (row, woken) = task.waking.take()?;
        Some((row, now.saturating_sub(woken)))
    }

    /// Returns the table of tasks. Also returns the rows of wake-ups whose task never ran, each
    /// with the time from the wake-up to the end of the run.
    pub fn finish(mut self, end: u64) -> (RecordBatch, Vec<(usize, u64)>) {
        for (pid, since) in std::mem::take(&mut self.running) {
            if let Some(task) = self.tasks.get_mut(&pid).filter(|_| pid != 0) {
                task.cpu_ns += end.saturating_sub(since);
            }
        }
        let mut waits = Vec::new();
        for task in self.tasks.values_mut() {
            if let Some(since) = task.waits_since {
                task.wait_ns += end.saturating_sub(since);
            }
            waits.extend(task.waking.map(|(row, since)| (row, end.saturating_sub(since))));
        }
        let column = |value: fn(&Task) -> u64| self.tasks.values().map(value).collect::<Vec<_>>();
        let table = Table::default()
            .u32("pid", self.tasks.keys().copied().collect())
            .u32("tgid", self.tasks.values().map(|task| task.tgid).collect())
            .u32("parent", self.tasks.values().map(|task| task.parent).collect())
            .texts("comm", self.tasks.values().map(|task| task.comm.clone()).collect())
            .i32("prio", self.tasks.values().map(|task| task.prio).collect())
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
