// SPDX-License-Identifier: GPL-2.0-only
//! The sink (consumer of records) that counts what the tasks of one run did.
//!
//! A group is all tasks of the workload with the same name. The course of a task is the list of its
//! steps, for example that it ran, woke up or blocked. Recording an event on a real machine takes
//! time, which can be subtracted from the lengths of steps.

use super::lengths::{Lengths, Step};
use super::side::{Course, Did, Group, Overview, Placement, Reason, Side, Tally};
use crate::{Histogram, Percentiles};
use std::collections::{BTreeMap, BTreeSet};
use trace::{Activity, ByNumber, Event, Header, Record, RunState, Sink, TaskState};

const IDLE: u32 = 0;
/// Maximum number of steps in the courses of all tasks. A step takes 32 bytes.
const STEPS_MAX: usize = 4 << 20;
/// The switch to a woken task counts as a preemption by this task if it follows the wake-up within
/// 1/WAKEUP_PART of a tick. If it is later, a tick or a yield has ended the previous turn (the time
/// that a task was on the CPU).
const WAKEUP_PART: u64 = 8;
/// Length of a tick in ns if the trace has no tick rate: 1000 ticks per second.
const TICK_NS: u64 = 1_000_000;

/// Index into `Scan::groups`. The first two are fixed.
type GroupIndex = usize;
const NOBODY: GroupIndex = 0;
const OTHERS: GroupIndex = 1;

/// A time, and the number of events that had been recorded on a CPU by then. The difference between
/// two marks shows how many events were recorded meanwhile.
#[derive(Clone, Copy, Default)]
struct Mark {
    time: u64,
    events: u64,
}

#[derive(Default)]
struct Task {
    group: Option<GroupIndex>,
    activity: Activity,
    /// Whether the task has been woken or has left a CPU. Before, it is unknown whether it sleeps.
    seen: bool,
    /// Time of the last change of the activity.
    since: Mark,
    /// Time of the last wake-up.
    woken: u64,
    waker: u32,
    /// The CPU whose events `since` counts.
    cpu: usize,
    course: Course,
    /// Whether a task of another program has preempted this task. The run with which this run is
    /// compared does not contain the other program. The preemption and its end are therefore not
    /// steps of the course.
    hidden: bool,
}

#[derive(Default)]
struct Cpu {
    pid: u32,
    since: Mark,
    /// Number of events that were recorded on this CPU.
    events: u64,
}

/// Reads the records of one run.
pub struct Scan {
    header: Header,
    /// Names of the tasks that belong to the workload, or `None` if all tasks do.
    names: Option<BTreeSet<String>>,
    /// Time in ns that recording one event takes.
    event_ns: u64,
    /// Latest end of the run, in ns since its start.
    longest: u64,
    cpus: Vec<Cpu>,
    tasks: ByNumber<Task>,
    groups: Vec<Group>,
    by_name: BTreeMap<String, GroupIndex>,
    /// Start of the run: the time at which the first task got its name.
    start: Option<u64>,
    /// End of the run, if all tasks have exited.
    end: Option<u64>,
    last: u64,
    alive: u32,
    steps: usize,
    overview: Overview,
    wakeups: BTreeMap<(GroupIndex, GroupIndex, Placement), Tally>,
    ends: BTreeMap<(GroupIndex, Reason, GroupIndex), Tally>,
    lengths: BTreeMap<(GroupIndex, Step), Lengths>,
    budget: Vec<u64>,
    wakeup: Histogram<7>,
}

impl Scan {
    /// Returns a scan of a run with this header. Only tasks with one of the `names` belong to the
    /// workload; `None` means that all tasks do.
    #[must_use]
    pub fn new(header: Header, names: Option<BTreeSet<String>>) -> Scan {
        Scan {
            names,
            event_ns: 0,
            longest: u64::MAX,
            cpus: header.cpus.iter().map(|_| Cpu::default()).collect(),
            tasks: ByNumber::new(),
            groups: vec![Group::Nobody, Group::Others],
            by_name: BTreeMap::new(),
            start: None,
            end: None,
            last: 0,
            alive: 0,
            steps: 0,
            overview: Overview::default(),
            wakeups: BTreeMap::new(),
            ends: BTreeMap::new(),
            lengths: BTreeMap::new(),
            budget: vec![0; 2],
            wakeup: Histogram::default(),
            header,
        }
    }

    /// Sets the maximum length of the run. Records after `ns` from the start are ignored.
    #[must_use]
    pub fn longest(mut self, ns: u64) -> Scan {
        self.longest = ns;
        self
    }

    /// Sets the time in ns that recording an event takes. It is subtracted from a length for each
    /// event that was recorded meanwhile on the same CPU.
    #[must_use]
    pub fn without_recording(mut self, ns: u64) -> Scan {
        self.event_ns = ns;
        self
    }

    fn mark(&self, cpu: usize, time: u64) -> Mark {
        Mark {
            time,
            events: self.cpus[cpu].events,
        }
    }

    /// Returns the time between two marks of the same CPU, without the time of recording.
    fn between(&self, from: Mark, to: Mark) -> u64 {
        let recording = to.events.saturating_sub(from.events).saturating_mul(self.event_ns);
        to.time.saturating_sub(from.time).saturating_sub(recording)
    }

    /// Returns the time since the start of the run, or `None` if the run is not in progress.
    fn at(&self, time: u64) -> Option<u64> {
        let at = time.saturating_sub(self.start?);
        (self.end.is_none() && at <= self.longest).then_some(at)
    }

    /// Makes a task part of the workload if its name belongs to the workload.
    ///
    /// A recorded task first has the name of its parent. A task that has not done anything yet
    /// therefore changes its group if it is renamed.
    fn name(&mut self, pid: u32, comm: &str, time: u64) {
        if self.names.as_ref().is_some_and(|names| !names.contains(comm)) {
            return;
        }
        let task = self.tasks.entry(pid);
        let named = task.group.is_some();
        if named && task.seen {
            return;
        }
        if self.start.is_none() {
            self.start = Some(time);
            for cpu in 0..self.cpus.len() {
                self.cpus[cpu].since = self.mark(cpu, time);
            }
        }
        let new = self.groups.len();
        let group = *self.by_name.entry(comm.to_owned()).or_insert(new);
        if group == new {
            self.groups.push(Group::Named(comm.to_owned()));
            self.budget.push(0);
        }
        self.tasks.entry(pid).group = Some(group);
        if !named {
            self.alive += 1;
            self.overview.tasks += 1;
        }
    }

    fn group(&self, pid: u32) -> GroupIndex {
        if pid == IDLE {
            return NOBODY;
        }
        self.tasks.get(pid).and_then(|task| task.group).unwrap_or(OTHERS)
    }

    fn did(&mut self, pid: u32, at: u64, did: Did) {
        let room = self.steps < STEPS_MAX;
        let task = self.tasks.entry(pid);
        if room && !task.course.cut {
            task.course.steps.push((at, did));
            self.steps += 1;
        } else {
            task.course.cut = true;
        }
    }

    fn add_length(&mut self, group: GroupIndex, step: Step, ns: u64, at: u64) {
        self.lengths.entry((group, step)).or_default().add(ns, at);
    }

    fn waking(&mut self, pid: u32, waker: u32, cpu: usize, time: u64) {
        let mark = self.mark(cpu, time);
        let task = self.tasks.entry(pid);
        task.waker = waker;
        if task.activity.state != RunState::Away {
            return;
        }
        task.activity.wake(time);
        let (slept, before, last) = (task.seen, task.since, task.cpu);
        (task.seen, task.since, task.cpu, task.woken) = (true, mark, cpu, time);
        if let (true, Some(at)) = (slept, self.at(time)) {
            let group = self.group(pid);
            let slept = match last == cpu {
                true => self.between(before, mark),
                false => time.saturating_sub(before.time),
            };
            if group != OTHERS {
                self.add_length(group, Step::Sleep, slept, at);
            }
        }
    }

    fn wakeup(&mut self, pid: u32, target: usize, cpu: usize, time: u64) {
        // A new task has no sched_waking record, so its waking is counted here.
        self.waking_of_new(pid, cpu, time);
        let waker = self.tasks.entry(pid).waker;
        // From now on, the task waits on the target CPU. Only the recording of that CPU's events
        // delays it.
        let on_target = self.cpus[target].events;
        let task = self.tasks.entry(pid);
        if task.activity.state == RunState::Woken && task.cpu != target {
            task.since.events = on_target;
            task.cpu = target;
        }
        let group = self.group(pid);
        let Some(at) = self.at(time) else { return };
        if group == OTHERS {
            return;
        }
        let (from, to) = (self.header.cpus[cpu], self.header.cpus[target]);
        let placement = Placement {
            same_cpu: cpu == target,
            shared: from.shared(to).into(),
            idle: self.cpus[target].pid == IDLE,
        };
        let by = self.group(waker);
        self.wakeups.entry((by, group, placement)).or_default().add(at);
        self.did(pid, at, Did::Wake { waker });
    }

    fn waking_of_new(&mut self, pid: u32, cpu: usize, time: u64) {
        if !self.tasks.entry(pid).seen {
            self.waking(pid, self.cpus[cpu].pid, cpu, time);
        }
    }

    fn switch(&mut self, cpu: usize, time: u64, prev: u32, state: TaskState, next: u32) {
        let mark = self.mark(cpu, time);
        let since = std::mem::replace(&mut self.cpus[cpu].since, mark);
        self.cpus[cpu].pid = next;
        let (from, to) = (self.group(prev), self.group(next));
        let at = self.at(time);
        if let Some(at) = at {
            self.overview.switches += 1;
            self.end_turn(prev, next, state, cpu, at, (since, mark));
        }
        if prev != IDLE {
            let task = self.tasks.entry(prev);
            task.activity.switch_out(time, state);
            (task.seen, task.since, task.cpu) = (true, mark, cpu);
            if state == TaskState::Dead && from != OTHERS {
                self.alive = self.alive.saturating_sub(1);
                if self.alive == 0 {
                    self.end = Some(time);
                }
            }
        }
        if next != IDLE {
            let task = self.tasks.entry(next);
            let (wait, started) = (task.activity.switch_in(time), task.since);
            let same = task.cpu == cpu;
            (task.seen, task.since, task.cpu) = (true, mark, cpu);
            let hidden = std::mem::take(&mut task.hidden);
            let Some(at) = at else { return };
            if to == OTHERS {
                return;
            }
            let length = match same {
                true => self.between(started, mark),
                false => mark.time.saturating_sub(started.time),
            };
            // If the wait began before the run, its length is unknown.
            let known = self.start.is_some_and(|start| started.time >= start);
            if let Some(wait) = wait.filter(|_| known) {
                let step = match wait.woken {
                    true => Step::Wakeup,
                    false => Step::Preempted,
                };
                if wait.woken {
                    self.wakeup.add(length);
                }
                self.add_length(to, step, length, at);
            }
            if !hidden {
                let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
                self.did(next, at, Did::Run { cpu });
            }
        }
    }

    /// Counts the end of a turn, or of an idle time.
    fn end_turn(&mut self, prev: u32, next: u32, state: TaskState, cpu: usize, at: u64, turn: (Mark, Mark)) {
        let (from, to) = (self.group(prev), self.group(next));
        let (began, ended) = turn;
        let length = self.between(began, ended);
        self.budget[from] = self.budget[from].saturating_add(length);
        if prev == IDLE {
            self.add_length(NOBODY, Step::Idle, length, at);
            return;
        }
        if from == OTHERS {
            return;
        }
        self.overview.turns += 1;
        let woken = self
            .tasks
            .get(next)
            .filter(|task| task.activity.state == RunState::Woken);
        let tick = match self.header.hz {
            0 => TICK_NS,
            hz => 1_000_000_000 / u64::from(hz),
        };
        let recent = |task: &Task| {
            let mark = Mark {
                time: task.woken,
                events: task.since.events,
            };
            task.woken >= began.time && task.cpu == cpu && self.between(mark, ended) <= tick / WAKEUP_PART
        };
        let reason = match state {
            TaskState::Dead => Reason::Exit,
            TaskState::Interruptible | TaskState::Uninterruptible => Reason::Block,
            TaskState::Running if woken.is_some_and(recent) => Reason::Wakeup,
            TaskState::Running => Reason::Tick,
        };
        let (step, did) = match reason {
            Reason::Block => (Step::BlockedTurn, Did::Block),
            Reason::Exit => (Step::BlockedTurn, Did::Exit),
            Reason::Wakeup | Reason::Tick => (Step::PreemptedTurn, Did::Preempt { by: next }),
        };
        self.add_length(from, step, length, at);
        self.ends.entry((from, reason, to)).or_default().add(at);
        match did {
            Did::Preempt { .. } if to == OTHERS => self.tasks.entry(prev).hidden = true,
            did => self.did(prev, at, did),
        }
    }

    fn add(&mut self, record: &Record) {
        let time = record.local_time();
        let cpu = record.cpu as usize;
        if cpu >= self.cpus.len() {
            return;
        }
        self.last = self.last.max(time);
        match record.event {
            Event::TaskNew { pid, ref comm, .. } | Event::TaskRename { pid, ref comm } => self.name(pid, comm, time),
            Event::Waking { pid, waker } => self.waking(pid, waker, cpu, time),
            Event::Wakeup { pid, target, .. } if (target as usize) < self.cpus.len() => {
                self.wakeup(pid, target as usize, cpu, time);
            }
            Event::Switch { prev, prev_state, next } if prev != next => self.switch(cpu, time, prev, prev_state, next),
            Event::Overhead { ns } if self.at(time).is_some() => {
                self.overview.overhead_ns = self.overview.overhead_ns.saturating_add(ns);
            }
            Event::Done { count, .. } if self.at(time).is_some() => self.overview.operations += u64::from(count),
            _ => {}
        }
        if matches!(
            record.event,
            Event::Waking { .. } | Event::Wakeup { .. } | Event::Switch { .. } | Event::Migrate { .. }
        ) {
            self.cpus[cpu].events += 1;
            if self.at(time).is_some() {
                self.overview.events += 1;
            }
        }
    }

    /// Returns the counts of a run whose records are all in memory.
    #[must_use]
    pub fn of(mut self, records: &[Record]) -> Side {
        self.take(records);
        self.finish()
    }

    /// Returns the counts. Turns and idle times that have not ended count up to the end of the run.
    #[must_use]
    pub fn finish(mut self) -> Side {
        let start = self.start.unwrap_or(0);
        let end = self.end.unwrap_or(self.last).min(start.saturating_add(self.longest));
        for cpu in 0..self.cpus.len() {
            let (pid, since) = (self.cpus[cpu].pid, self.cpus[cpu].since);
            let group = self.group(pid);
            let length = self.between(since, self.mark(cpu, end));
            self.budget[group] = self.budget[group].saturating_add(length);
        }
        self.overview.run_ns = end.saturating_sub(start);
        self.overview.cpus = self.cpus.len() as u64;
        self.overview.recording_ns = self.overview.events.saturating_mul(self.event_ns);
        self.side()
    }

    /// Replaces the indices of groups by the groups, and pids by names and numbers.
    fn side(self) -> Side {
        let groups = &self.groups;
        let mut side = Side {
            overview: self.overview,
            wakeup: Percentiles::from_histogram(&self.wakeup),
            ..Side::default()
        };
        for ((by, of, placement), tally) in self.wakeups {
            let key = (groups[by].clone(), groups[of].clone(), placement);
            side.wakeups.insert(key, tally);
        }
        for ((from, reason, to), tally) in self.ends {
            side.ends
                .insert((groups[from].clone(), reason, groups[to].clone()), tally);
        }
        for ((group, step), lengths) in self.lengths {
            side.lengths.insert((groups[group].clone(), step), lengths.figures());
        }
        for (group, ns) in groups.iter().zip(&self.budget) {
            side.budget.insert(group.clone(), *ns);
        }
        for (pid, task) in self.tasks.into_sorted() {
            let Some(Group::Named(name)) = task.group.map(|group| &groups[group]) else {
                continue;
            };
            let members = side.groups.entry(Group::Named(name.clone())).or_default();
            *members += 1;
            let number = u32::try_from(*members).unwrap_or(u32::MAX);
            side.courses.insert((name.clone(), number), task.course);
            side.identities.insert(pid, (name.clone(), number));
        }
        side
    }
}

impl Sink for Scan {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
