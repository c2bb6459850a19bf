// SPDX-License-Identifier: GPL-2.0-only
//! The sink (consumer of records) that collects the contents of a page during a run. It needs
//! memory for one entry per task, plus parts of limited size.

use super::moves::Moves;
use super::queues::Queues;
use super::timeline::{IDLE, OFFLINE, Timeline};
use super::waits::{Begin, Cause, Wait, Waits};
use crate::histogram::Histogram;
use crate::path::{Divided, Path, Undivided};
use crate::task::Task;
use trace::{ByNumber, Ended, Event, Follow, Header, MigrateReason, Record, Sink, TaskState};

/// Number of segments of the timeline for each wait that is kept.
const SEGMENTS_PER_WAIT: usize = 8;
/// Maximum number of changes of tasks by which the time of a run is divided.
const STEPS: usize = 3 << 20;

/// A task as the timeline shows it, from its creation to its exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub pid: u32,
    pub comm: String,
    pub cpu_ns: u64,
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
    /// Begin of the task's wait, or of its next wait.
    begin: Begin,
    /// CPU on which the task ran last, and the local time when it stopped.
    last: Option<(u32, u64)>,
}

/// The sink that collects the data of a run for [`super::page`]. CPU numbers in records must be
/// less than the header's number of CPUs.
pub struct Scan {
    pub(super) header: Header,
    /// Capacities of the CPUs. Empty if they are unknown.
    pub(super) capacities: Vec<u32>,
    follow: Follow,
    path: Option<Path>,
    /// The parts of the run's time, or why it cannot be divided.
    divided: Result<Divided, Undivided>,
    live: ByNumber<Live>,
    pub(super) named: Vec<Named>,
    pub(super) timeline: Timeline,
    pub(super) queues: Queues,
    pub(super) moves: Moves,
    pub(super) wakeup: Histogram<5>,
    pub(super) waits: Waits,
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
            capacities: Vec::new(),
            follow: Follow::new(nr_cpus),
            path: Some(Path::new(nr_cpus, &[]).with_limit(STEPS)),
            divided: Err(Undivided::Unfinished),
            live: ByNumber::new(),
            // The timeline uses the indices IDLE and OFFLINE for idle and offline CPUs.
            named: vec![placeholder("idle"), placeholder("offline")],
            timeline: Timeline::new(nr_cpus, segments),
            queues: Queues::new(nr_cpus),
            moves: Moves::new(&header.cpus),
            wakeup: Histogram::default(),
            waits: Waits::new(segments / SEGMENTS_PER_WAIT),
            response: Histogram::default(),
            callbacks: Vec::new(),
            end: 0,
            shares: Vec::new(),
        }
    }

    /// Sets the capacities of the CPUs, 1024 for the fastest.
    #[must_use]
    pub fn with_capacities(mut self, capacities: Vec<u32>) -> Scan {
        self.path = Some(Path::new(self.header.cpus.len(), &capacities).with_limit(STEPS));
        self.capacities = capacities;
        self
    }

    /// Returns the parts of the run's time.
    pub(super) fn divided(&self) -> Result<&Divided, &Undivided> {
        self.divided.as_ref()
    }

    /// Ends the run. Tasks that are running or waiting are counted up to `end`.
    pub fn finish(&mut self, end: u64) {
        self.end = end;
        if let Some(path) = self.path.take() {
            self.divided = path.finish(end);
        }
        for (pid, since) in self.follow.running().collect::<Vec<_>>() {
            self.charge(pid, end.saturating_sub(since));
        }
        self.timeline.finish(end);
        self.queues.finish(end);
        let live = std::mem::replace(&mut self.live, ByNumber::new()).into_sorted();
        let mut tasks = Vec::with_capacity(live.len());
        for (pid, mut live) in live {
            if let Some(latency) = live.task.end_wait(end) {
                self.wakeup.add(latency);
            }
            if let Some(wait) = self.follow.task(pid).activity.wait(end) {
                self.waits.add(Wait {
                    pid,
                    task: live.named,
                    from: wait.since,
                    to: end,
                    begin: live.begin,
                    cpu: None,
                    last: live.last,
                });
            }
            tasks.push((pid, live.task));
        }
        self.waits.finish();
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

    /// Keeps how a wait begins, if the record begins one.
    fn begin_wait(&mut self, record: &Record, pid: u32, cause: Cause, waker: u32) {
        let wait = self.follow.task(pid).activity.wait(record.local_time());
        if wait.is_some_and(|wait| wait.woken && wait.ns == 0) {
            self.entry(pid).begin = Begin {
                time: record.time,
                cause,
                waker,
                cpu: record.cpu,
                queued: None,
            };
        }
    }

    /// Handles a switch. `wait` is the wait of `next` that it ends.
    fn switch(&mut self, record: &Record, ended: Ended, prev: u32, prev_state: TaskState, next: u32) {
        let (cpu, now) = (record.cpu, record.local_time());
        if prev != 0 {
            let since = ended.turn.and_then(|(_, since)| since);
            let home = self.follow.task(prev).cpu;
            let ns = now.saturating_sub(since.unwrap_or(0));
            let live = self.entry(prev);
            live.task.switch_out(now, 0, prev_state);
            live.last = Some((cpu, now));
            if prev_state == TaskState::Running {
                live.begin = Begin {
                    time: record.time,
                    cause: Cause::Preempted,
                    waker: 0,
                    cpu,
                    queued: Some(home),
                };
            }
            self.charge(prev, ns);
        }
        let mut shown = IDLE;
        if next != 0 {
            let live = self.entry(next);
            let (latency, named) = (live.task.switch_in(now), live.named);
            let (begin, last) = (live.begin, live.last);
            if let Some(latency) = latency {
                self.wakeup.add(latency);
            }
            if let Some(wait) = ended.wait {
                self.waits.add(Wait {
                    pid: next,
                    task: named,
                    from: wait.since,
                    to: now,
                    begin,
                    cpu: Some(cpu),
                    last,
                });
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
                self.switch(record, ended, prev, prev_state, next);
            }
            Event::Waking { pid, waker } => {
                self.entry(pid).task.wake(record.local_time());
                match waker {
                    0 => self.begin_wait(record, pid, Cause::Interrupt, 0),
                    waker => {
                        let waker = self.entry(waker).named;
                        self.begin_wait(record, pid, Cause::Task, waker);
                    }
                }
            }
            Event::Wakeup { pid, target, new } => {
                self.entry(pid).task.wake(record.local_time());
                let cause = if new { Cause::New } else { Cause::Interrupt };
                // New tasks, and those of some recordings, have no sched_waking.
                if self.entry(pid).begin.queued.is_some() {
                    self.begin_wait(record, pid, cause, 0);
                }
                self.entry(pid).begin.queued.get_or_insert(target);
            }
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
        if let Some(path) = &mut self.path {
            path.take(records);
        }
    }
}
