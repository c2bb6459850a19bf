// SPDX-License-Identifier: GPL-2.0-only
//! The sink (consumer of records) that collects the contents of a page during a run. It needs
//! memory for one entry per task, plus parts of limited size.

use super::moves::Moves;
use super::queues::Queues;
use super::timeline::{IDLE, OFFLINE, Timeline};
use crate::histogram::Histogram;
use crate::task::Task;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use trace::{ByNumber, Event, Follow, Header, MigrateReason, Record, Sink, TaskState};

/// Number of slowest wake-ups to keep.
const SLOWEST: usize = 10;

/// A task as the timeline shows it, from its creation to its exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub pid: u32,
    pub comm: String,
    pub cpu_ns: u64,
}

/// A wake-up. Wake-ups are ordered by their latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wakeup {
    pub latency: u64,
    /// Time at which the task got a CPU.
    pub time: u64,
    pub cpu: u32,
    /// Index into [`Scan::named`].
    pub task: u32,
}

/// Number of instructions that one callback of the policy executed.
#[derive(Clone, Debug, Default)]
pub(super) struct Callback {
    pub insns: Histogram<3>,
    pub total: u64,
}

/// A task that has not exited.
#[derive(Clone, Debug, Default)]
struct Live {
    /// Index into [`Scan::named`], or 0 if the task has no entry yet.
    named: u32,
    task: Task,
}

/// The sink that collects the data of a run for [`super::page`]. CPU numbers in records must be
/// less than the header's number of CPUs.
pub struct Scan {
    pub(super) header: Header,
    follow: Follow,
    live: ByNumber<Live>,
    pub(super) named: Vec<Named>,
    pub(super) timeline: Timeline,
    pub(super) queues: Queues,
    pub(super) moves: Moves,
    pub(super) wakeup: Histogram<5>,
    pub(super) slowest: BinaryHeap<Reverse<Wakeup>>,
    pub(super) response: Histogram<7>,
    pub(super) callbacks: Vec<Callback>,
    pub(super) end: u64,
    /// CPU shares of the always runnable tasks in ppm, by priority.
    pub(super) shares: Vec<(i32, Vec<u64>)>,
}

impl Scan {
    /// Returns an empty scan. `segments` is the maximum number of segments in the timeline. It
    /// limits the size of the page, because a million segments take about 5 MB.
    pub fn new(header: &Header, segments: usize) -> Scan {
        let nr_cpus = header.cpus.len();
        let placeholder = |comm: &str| Named {
            pid: 0,
            comm: comm.to_owned(),
            cpu_ns: 0,
        };
        Scan {
            header: header.clone(),
            follow: Follow::new(nr_cpus),
            live: ByNumber::new(),
            // The timeline uses the indices IDLE and OFFLINE for idle and offline CPUs.
            named: vec![placeholder("idle"), placeholder("offline")],
            timeline: Timeline::new(nr_cpus, segments),
            queues: Queues::new(nr_cpus),
            moves: Moves::new(&header.cpus),
            wakeup: Histogram::default(),
            slowest: BinaryHeap::new(),
            response: Histogram::default(),
            callbacks: Vec::new(),
            end: 0,
            shares: Vec::new(),
        }
    }

    /// Ends the run. Tasks that are running or waiting are counted up to `end`.
    pub fn finish(&mut self, end: u64) {
        self.end = end;
        for (pid, since) in self.follow.running().collect::<Vec<_>>() {
            self.charge(pid, end.saturating_sub(since));
        }
        self.timeline.finish(end);
        self.queues.finish(end);
        let live = std::mem::replace(&mut self.live, ByNumber::new()).into_sorted();
        let mut tasks = Vec::with_capacity(live.len());
        for (pid, mut live) in live {
            if let Some(latency) = live.task.end_wait(end) {
                let cpu = self.follow.task(pid).cpu;
                self.add_wakeup(latency, end, cpu, live.named);
            }
            tasks.push((pid, live.task));
        }
        self.shares = crate::jain::shares(&tasks, end).into_iter().collect();
    }

    /// Returns a task. Creates the task if no record has introduced it.
    fn entry(&mut self, pid: u32) -> &mut Live {
        let live = self.live.entry(pid);
        if live.named == 0 {
            live.named = u32::try_from(self.named.len()).unwrap_or(u32::MAX);
            self.named.push(Named {
                pid,
                comm: String::new(),
                cpu_ns: 0,
            });
        }
        live
    }

    /// Adds CPU time to a task that keeps running.
    fn charge(&mut self, pid: u32, ns: u64) {
        let live = self.entry(pid);
        live.task.cpu_ns = live.task.cpu_ns.saturating_add(ns);
        let named = live.named as usize;
        let sum = &mut self.named[named].cpu_ns;
        *sum = sum.saturating_add(ns);
    }

    /// Creates a task, or updates a task that already exists.
    fn create(&mut self, pid: u32, prio: i32, comm: &str) {
        let live = self.live.entry(pid);
        // If a pid is used again, it belongs to a new task.
        if live.task.exited {
            *live = Live::default();
        }
        let live = self.entry(pid);
        live.task.prio = prio;
        let named = live.named as usize;
        comm.clone_into(&mut self.named[named].comm);
    }

    /// Counts a wake-up at the time when the task gets a CPU.
    fn add_wakeup(&mut self, latency: u64, time: u64, cpu: u32, task: u32) {
        self.wakeup.add(latency);
        let wakeup = Wakeup {
            latency,
            time,
            cpu,
            task,
        };
        if self.slowest.len() < SLOWEST {
            self.slowest.push(Reverse(wakeup));
        } else if self.slowest.peek().is_some_and(|least| least.0 < wakeup) {
            self.slowest.pop();
            self.slowest.push(Reverse(wakeup));
        }
    }

    fn switch(&mut self, record: &Record, since: Option<u64>, prev: u32, prev_state: TaskState, next: u32) {
        let (cpu, now) = (record.cpu, record.local_time());
        if prev != 0 {
            let ns = now.saturating_sub(since.unwrap_or(0));
            self.entry(prev).task.switch_out(now, 0, prev_state);
            self.charge(prev, ns);
        }
        let mut shown = IDLE;
        if next != 0 {
            let live = self.entry(next);
            let (latency, named) = (live.task.switch_in(now), live.named);
            if let Some(latency) = latency {
                self.add_wakeup(latency, now, cpu, named);
            }
            shown = named;
        }
        self.timeline.switch(cpu as usize, now, shown);
    }

    #[inline]
    fn add(&mut self, record: &Record) {
        let &Record {
            time, cpu, ref event, ..
        } = record;
        let ended = self.follow.add(record);
        for &cpu in self.follow.changed() {
            self.queues.set(cpu as usize, time, self.follow.runnable(cpu));
        }
        match *event {
            Event::Switch { prev, prev_state, next } if prev != next => {
                let since = ended.turn.and_then(|(_, since)| since);
                self.switch(record, since, prev, prev_state, next);
            }
            Event::Waking { pid, .. } | Event::Wakeup { pid, .. } => self.entry(pid).task.wake(record.local_time()),
            Event::Migrate { from, to, reason, .. } => {
                self.moves.add(from, to, reason);
                if reason == MigrateReason::Balance {
                    self.queues.add_migration(time);
                }
            }
            Event::Balance { moved } => self.queues.add_balance_run(time, u64::from(moved)),
            Event::Callback { op, insns, .. } => {
                let op = usize::from(op);
                if op >= self.callbacks.len() {
                    self.callbacks.resize(op + 1, Callback::default());
                }
                let callback = &mut self.callbacks[op];
                callback.insns.add(u64::from(insns));
                callback.total += u64::from(insns);
            }
            Event::Done { response_ns, .. } if response_ns > 0 => self.response.add(response_ns),
            Event::TaskNew {
                pid, prio, ref comm, ..
            } => self.create(pid, prio, comm),
            Event::TaskRename { pid, ref comm } => {
                let named = self.entry(pid).named as usize;
                self.named[named].comm.clone_from(comm);
            }
            Event::TaskExit { pid } => self.entry(pid).task.exited = true,
            Event::Prio { pid, prio } => self.entry(pid).task.prio = prio,
            Event::Hotplug { online } => {
                let shown = if online { IDLE } else { OFFLINE };
                self.timeline.switch(cpu as usize, time, shown);
            }
            _ => {}
        }
    }
}

impl Sink for Scan {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.add(record);
        }
    }
}
