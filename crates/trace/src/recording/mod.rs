// SPDX-License-Identifier: GPL-2.0-only
//! Recordings of real machines as records: the text that `perf script`, `trace-cmd report` and tracefs' `trace` print of
//! the scheduler's events, and the pages of the kernel's ring buffers ([`Ring`]).
//!
//! Needed are sched_switch and one of sched_waking and sched_wakeup; sched_wakeup_new, sched_migrate_task,
//! sched_process_fork, sched_process_exec and sched_process_exit are used, any other event is passed over. Time 0 is that of the first event. A task that nobody is
//! seen to fork existed from the start; who runs on a CPU when its first event comes, ran there since the start or since it
//! was seen elsewhere. Where a switch is missing, it is taken to have been at the CPU's next event.
//!
//! A wake-up by an interrupt has no waker. ftrace tells them; perf does if the beginnings and ends of handlers are recorded, too
//! (irq:*, irq_vectors:local_timer_*, timer:hrtimer_expire_*).

mod line;
mod ring;

use crate::event::{Event, MigrateReason, Record, TaskState};
use line::{Line, Parsed, Said, Task};
pub use ring::{EVENTS, Ring};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a recording tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// In order of time.
    pub records: Vec<Record>,
    /// Time 0 on the recorder's clock, ns.
    pub start: u64,
    pub switches: u32,
    /// Switches that are not in the text but must have been, and places where the tool says that it lost events.
    pub missing: u32,
}

/// Text that is no recording, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingError {
    /// From 1; 0: it is no text.
    pub line: u32,
    pub message: String,
    pub hint: &'static str,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}\n  hint: {}", self.message, self.hint)
    }
}

impl std::error::Error for RecordingError {}

const FORM: &str = "expected is what 'perf script' or 'trace-cmd report' prints of events recorded on all CPUs (-a)";
const LOST: &str = "record all CPUs (-a), with larger buffers (perf record -m 16M, trace-cmd record -b 100000)";
/// Characters of a task's name.
const COMM: usize = 15;
/// Of so many switches one may be missing.
const MISSING_OF: u32 = 10;

/// Reads a recording.
///
/// # Errors
/// A line that is no event, no event at all, or too much that is missing.
pub fn read(text: &str) -> Result<Recording, RecordingError> {
    let mut lines = Vec::new();
    let mut story = Story::default();
    for (number, text) in (1..).zip(text.lines()) {
        match line::parse(text) {
            Ok(Parsed::Event(line)) => lines.push(line),
            Ok(Parsed::Lost) => story.missing += 1,
            Ok(Parsed::Nothing) => {}
            Err(message) => {
                return Err(RecordingError {
                    line: number,
                    message,
                    hint: FORM,
                });
            }
        }
    }
    story.tell(lines)
}

/// The records so far.
#[derive(Default)]
struct Story {
    records: Vec<Record>,
    switches: u32,
    missing: u32,
    /// Those that have events.
    cpus: BTreeSet<u32>,
    /// The task of each CPU.
    running: BTreeMap<u32, u32>,
    alive: BTreeSet<u32>,
    asleep: BTreeSet<u32>,
    /// Between waking and the CPU it is put on.
    waking: BTreeSet<u32>,
    /// Handlers of interrupts that have begun, by CPU.
    handlers: BTreeMap<u32, u32>,
    /// First priority told of each pid.
    prios: BTreeMap<u32, i32>,
}

impl Story {
    /// From lines to records. The lines of each CPU are in order.
    fn tell(mut self, mut lines: Vec<Line>) -> Result<Recording, RecordingError> {
        // The tools merge what each CPU recorded, nearly in order.
        lines.sort_by_key(|line| line.time);
        let Some(start) = lines.first().map(|line| line.time) else {
            return Err(RecordingError {
                line: 1,
                message: "no scheduler events".into(),
                hint: FORM,
            });
        };
        lines.iter_mut().for_each(|line| line.time -= start);
        self.cpus = lines.iter().map(|line| line.cpu).collect();
        let mut begins = self.begin(&lines).into_iter().peekable();
        for (index, line) in lines.iter().enumerate() {
            while let Some((_, since, cpu, pid)) = begins.next_if(|begin| begin.0 <= index) {
                self.running.insert(cpu, pid);
                if pid != 0 {
                    self.switch(since, cpu, 0, TaskState::Running, pid);
                }
            }
            self.go_on(line);
        }
        if self.missing > self.switches / MISSING_OF {
            return Err(RecordingError {
                line: 1,
                message: format!(
                    "{} of {} switches are missing",
                    self.missing,
                    self.missing + self.switches
                ),
                hint: LOST,
            });
        }
        self.records.sort_by_key(|record| record.time);
        Ok(Recording {
            records: self.records,
            start,
            switches: self.switches,
            missing: self.missing,
        })
    }

    /// How things stand at time 0. Returns who runs on each CPU before its first event: the line before which that is so, the
    /// time, the CPU and the task; in this order.
    fn begin(&mut self, lines: &[Line]) -> Vec<(usize, u64, u32, u32)> {
        let mut last_seen: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        let mut forked = BTreeSet::new();
        let mut names: BTreeMap<u32, &str> = BTreeMap::new();
        let mut first: BTreeMap<u32, (usize, u64, u32, u32)> = BTreeMap::new();
        for (index, line) in lines.iter().enumerate() {
            if let Some(task) = &line.task {
                first.entry(line.cpu).or_insert_with(|| {
                    // After what was said of it elsewhere.
                    let seen = last_seen.get(&task.pid).filter(|_| task.pid != 0);
                    let (from, since) = seen.map_or((0, 0), |&(at, time)| (at + 1, time + 1));
                    (from, since.min(line.time), line.cpu, task.pid)
                });
                names.insert(task.pid, task.comm);
            }
            if let Some(task) = line.said.task()
                && names.insert(task.pid, task.comm).is_none()
            {
                match line.said {
                    Said::Fork { .. } | Said::WakeupNew { .. } => drop(forked.insert(task.pid)),
                    Said::Wakeup { .. } => drop(self.asleep.insert(task.pid)),
                    Said::Switch { .. }
                    | Said::Migrate { .. }
                    | Said::Exec { .. }
                    | Said::Exit
                    | Said::Handler { .. }
                    | Said::Other => {}
                }
            }
            for task in line.task.iter().chain(line.said.task()) {
                last_seen.insert(task.pid, (index, line.time));
                if let Some(prio) = task.prio {
                    self.prios.entry(task.pid).or_insert(prio);
                }
            }
        }
        for (pid, comm) in names {
            if !forked.contains(&pid) {
                self.create(0, 0, &Task { pid, comm, prio: None }, 0);
            }
        }
        let mut begins: Vec<_> = first.into_values().collect();
        begins.sort_unstable();
        begins
    }

    fn switch(&mut self, time: u64, cpu: u32, prev: u32, prev_state: TaskState, next: u32) {
        let switch = Event::Switch { prev, prev_state, next };
        self.say(time, cpu, switch);
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

    /// A switch that is missing is taken to have been just now.
    fn infer(&mut self, time: u64, cpu: u32, next: u32) {
        let running = self.running.insert(cpu, next).unwrap_or(0);
        if running != next {
            self.missing += 1;
            self.switch(time, cpu, running, TaskState::Running, next);
        }
    }

    fn go_on(&mut self, line: &Line) {
        let (time, cpu) = (line.time, line.cpu);
        if let Some(task) = &line.task {
            self.leaves_others(time, cpu, task.pid);
            self.infer(time, cpu, task.pid);
        }
        let current = self.running.get(&cpu).copied().unwrap_or(0);
        match &line.said {
            Said::Switch { prev_state, next } => {
                self.switches += 1;
                // None of them switches; an end may be missing.
                self.handlers.remove(&cpu);
                self.leaves_others(time, cpu, next.pid);
                self.running.insert(cpu, next.pid);
                self.asleep.remove(&next.pid);
                match prev_state {
                    TaskState::Running => {}
                    TaskState::Dead => drop(self.alive.remove(&current)),
                    TaskState::Interruptible | TaskState::Uninterruptible => drop(self.asleep.insert(current)),
                }
                self.switch(time, cpu, current, *prev_state, next.pid);
            }
            // Of waking and wakeup the first counts.
            Said::Wakeup { task, waking, target } => {
                if self.asleep.remove(&task.pid) {
                    self.waking.insert(task.pid);
                    let by_interrupt = line.in_interrupt || self.handlers.get(&cpu).is_some_and(|&depth| depth > 0);
                    let waker = if by_interrupt { 0 } else { current };
                    self.say(time, cpu, Event::Waking { pid: task.pid, waker });
                }
                if !waking {
                    self.waking.remove(&task.pid);
                    self.queued(time, cpu, task.pid, *target, false);
                }
            }
            Said::WakeupNew { task, target } => {
                self.create(time, cpu, task, current);
                // The kernel does not call it a migration when a new task begins elsewhere than its parent.
                if let Some(to) = target.filter(|to| *to != cpu) {
                    self.migrate(time, cpu, task.pid, (cpu, to), MigrateReason::Fork);
                }
                self.queued(time, cpu, task.pid, *target, true);
            }
            Said::Migrate { task, from, to } => {
                let reason = match self.waking.contains(&task.pid) {
                    true => MigrateReason::Wakeup,
                    false => MigrateReason::Balance,
                };
                self.migrate(time, cpu, task.pid, (*from, *to), reason);
            }
            Said::Exec { file } => {
                let name = file.rsplit('/').next().unwrap_or(file);
                let comm: String = name.chars().take(COMM).collect();
                self.say(time, cpu, Event::TaskRename { pid: current, comm });
            }
            Said::Fork { child } => self.create(time, cpu, child, current),
            Said::Exit => self.say(time, cpu, Event::TaskExit { pid: current }),
            Said::Handler { begins } => {
                let depth = self.handlers.entry(cpu).or_insert(0);
                *depth = if *begins { *depth + 1 } else { depth.saturating_sub(1) };
            }
            Said::Other => {}
        }
    }

    /// A CPU that no event is of is not one to name.
    fn queued(&mut self, time: u64, cpu: u32, pid: u32, target: Option<u32>, new: bool) {
        let target = target.filter(|target| self.cpus.contains(target)).unwrap_or(cpu);
        self.say(time, cpu, Event::Wakeup { pid, target, new });
    }

    fn migrate(&mut self, time: u64, cpu: u32, pid: u32, (from, to): (u32, u32), reason: MigrateReason) {
        if from != to && self.cpus.contains(&from) && self.cpus.contains(&to) {
            let moved = Event::Migrate { pid, from, to, reason };
            self.say(time, cpu, moved);
        }
    }

    /// A task that is on `cpu` is on no other one.
    fn leaves_others(&mut self, time: u64, cpu: u32, pid: u32) {
        let others = self.running.iter();
        let other = others.filter(|&(&other, &task)| task == pid && other != cpu && pid != 0);
        if let Some(other) = other.map(|(&other, _)| other).next() {
            self.infer(time, other, 0);
        }
    }
}

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;
