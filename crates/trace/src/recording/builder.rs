// SPDX-License-Identifier: GPL-2.0-only
//! Makes records of the lines of a recording, and infers the information that is missing.

use super::line::{Line, LineEvent, Task};
use super::names::{Lines, Name, Names};
use super::{COMM_LEN, EVENTS_HINT, Recording, RecordingError, placement};
use crate::event::{Event, MigrateReason, Record, TaskState};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of event names that a message lists.
const MAX_NAMES: usize = 5;
const LOST_HINT: &str = "record all CPUs (-a) with larger buffers (perf record -m 16M, trace-cmd record -b 100000)";
/// A recording is refused if more than a tenth of its switches are missing. This is the 10 in 1/10.
const SWITCHES_PER_MISSING: u32 = 10;

/// Converts the lines of a recording into records.
#[derive(Default)]
pub(super) struct Builder {
    records: Vec<Record>,
    switches: u32,
    missing: u32,
    /// Number of CPUs that the tool prints, or 0.
    nr_cpus: u32,
    /// CPUs that have at least one event.
    cpus: BTreeSet<u32>,
    /// Pid of the running task of each CPU.
    running: BTreeMap<u32, u32>,
    alive: BTreeSet<u32>,
    asleep: BTreeSet<u32>,
    /// Tasks that are being woken: sched_waking was recorded, but they are not yet queued on a CPU.
    waking: BTreeSet<u32>,
    /// Number of interrupt handlers that are running, by CPU.
    handlers: BTreeMap<u32, u32>,
    /// Priority of each task at the task's first event.
    prios: BTreeMap<u32, i32>,
    /// Current name of each task.
    names: BTreeMap<u32, String>,
    /// Number of events that woke a task.
    wakeups: u32,
    /// Number of switches to a task that slept and was not woken.
    unwoken: u32,
}

/// Returns the name of a task unless the tool did not know it.
fn known_name<'a>(task: &Task<&'a str>) -> Option<&'a str> {
    Some(task.comm).filter(|comm| !matches!(*comm, "" | "<...>"))
}

/// Determines the running task of each line. The fields of sched_switch contain it. For other
/// events it is the task that the tool prints, if the tool uses the pids of the fields.
fn identify_tasks(lines: &mut [Line<Name>]) {
    let contradicts = |line: &Line<Name>| match (&line.task, &line.event) {
        (Some(task), LineEvent::Switch { prev, .. }) => task.pid != prev.pid,
        _ => false,
    };
    let other_namespace = lines.iter().any(contradicts);
    for line in lines {
        match &line.event {
            LineEvent::Switch { prev, .. } => line.task = Some(prev.clone()),
            _ if other_namespace => line.task = None,
            _ => {}
        }
    }
}

/// Returns an error if no line contains a switch.
fn require_switches(lines: &[Line<Name>], names: &Names) -> Result<(), RecordingError> {
    if lines.iter().any(|line| matches!(line.event, LineEvent::Switch { .. })) {
        return Ok(());
    }
    let names: BTreeSet<&str> = lines.iter().map(|line| names.resolve(line).event.name()).collect();
    let mut found = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        found += ", ...";
    }
    Err(RecordingError {
        line: 1,
        message: match lines.is_empty() {
            true => "no scheduler events".into(),
            false => format!("no scheduler events: sched_switch is missing; the recording contains {found}"),
        },
        hint: EVENTS_HINT.into(),
    })
}

impl Builder {
    /// Converts all lines. The lines of each CPU must be in order.
    pub(super) fn build(mut self, read: Lines) -> Result<Recording, RecordingError> {
        let Lines {
            mut lines,
            names,
            gaps,
            lost,
            nr_cpus,
            known,
            no_wakers,
        } = read;
        (self.missing, self.nr_cpus, self.names) = (gaps, nr_cpus, known);
        // The tools merge the recordings of the CPUs, but not always in the order of time.
        lines.sort_by_key(|line| line.time);
        require_switches(&lines, &names)?;
        identify_tasks(&mut lines);
        let mut counts = BTreeMap::new();
        for line in &lines {
            let name = names.resolve(line).event.name();
            match counts.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(counts.insert(name.to_owned(), 1)),
            }
        }
        let start = lines.first().map_or(0, |line| line.time);
        lines.iter_mut().for_each(|line| line.time -= start);
        self.cpus = lines.iter().map(|line| line.cpu).collect();
        let contains = |event: fn(&Line<Name>) -> bool| lines.iter().any(event);
        let interrupts = contains(|line| line.shows_interrupts || matches!(line.event, LineEvent::Handler { .. }));
        let waking = contains(|line| matches!(line.event, LineEvent::Wakeup { waking: true, .. }));
        let forks = contains(|line| matches!(line.event, LineEvent::Fork { .. }));
        let mut begins = self.initial_tasks(&lines, &names).into_iter().peekable();
        let mut placed = placement::placements(&lines).into_iter().peekable();
        for (index, line) in lines.iter().enumerate() {
            while let Some((_, since, cpu, pid)) = begins.next_if(|begin| begin.0 <= index) {
                self.running.insert(cpu, pid);
                if pid != 0 {
                    self.switch(since, cpu, 0, TaskState::Running, pid);
                }
            }
            let line = names.resolve(line);
            self.add_line(&line);
            if let Some((_, target)) = placed.next_if(|placed| placed.0 == index)
                && let Some(task) = line.event.task()
                && self.waking.remove(&task.pid)
            {
                self.queued(line.time, line.cpu, task.pid, Some(target), false);
            }
        }
        if self.missing > self.switches / SWITCHES_PER_MISSING {
            return Err(RecordingError {
                line: 1,
                message: format!(
                    "{} of {} switches are missing",
                    self.missing,
                    self.missing + self.switches
                ),
                hint: LOST_HINT.into(),
            });
        }
        self.records.sort_by_key(|record| record.time);
        Ok(Recording {
            records: self.records,
            start,
            switches: self.switches,
            missing: self.missing,
            interrupts,
            wakers: !no_wakers,
            waking,
            forks,
            lost,
            unwoken: if self.wakeups == 0 { self.unwoken } else { 0 },
            counts,
            nr_cpus: self.nr_cpus.max(self.cpus.last().map_or(0, |cpu| cpu + 1)),
        })
    }

    /// Determines the state at time 0. Returns the task that runs on each CPU before the CPU's
    /// first event. Each entry is (index of the line before which the task starts, time, CPU, pid).
    /// The entries are sorted.
    fn initial_tasks(&mut self, lines: &[Line<Name>], names: &Names) -> Vec<(usize, u64, u32, u32)> {
        let mut last_seen: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        let mut forked = BTreeSet::new();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut first: BTreeMap<u32, (usize, u64, u32, u32)> = BTreeMap::new();
        for (index, line) in lines.iter().enumerate() {
            let line = names.resolve(line);
            if let Some(task) = &line.task {
                first.entry(line.cpu).or_insert_with(|| {
                    // The task has run on this CPU since its last event on another CPU.
                    let seen = last_seen.get(&task.pid).filter(|_| task.pid != 0);
                    let (from, since) = seen.map_or((0, 0), |&(at, time)| (at + 1, time + 1));
                    (from, since.min(line.time), line.cpu, task.pid)
                });
                seen.insert(task.pid);
            }
            if let Some(task) = line.event.task()
                && seen.insert(task.pid)
            {
                match line.event {
                    LineEvent::Fork { .. } | LineEvent::WakeupNew { .. } => drop(forked.insert(task.pid)),
                    LineEvent::Wakeup { .. } => drop(self.asleep.insert(task.pid)),
                    LineEvent::Switch { .. }
                    | LineEvent::Migrate { .. }
                    | LineEvent::Exec { .. }
                    | LineEvent::Exit
                    | LineEvent::Handler { .. }
                    | LineEvent::Other { .. } => {}
                }
            }
            for task in line.task.iter().chain(line.event.task()) {
                last_seen.insert(task.pid, (index, line.time));
                if let Some(comm) = known_name(task) {
                    self.names.entry(task.pid).or_insert_with(|| comm.into());
                }
                if let Some(prio) = task.prio {
                    self.prios.entry(task.pid).or_insert(prio);
                }
            }
        }
        for pid in seen.difference(&forked) {
            self.create(0, 0, *pid, 0);
        }
        let mut begins: Vec<_> = first.into_values().collect();
        begins.sort_unstable();
        begins
    }

    fn switch(&mut self, time: u64, cpu: u32, prev: u32, prev_state: TaskState, next: u32) {
        let switch = Event::Switch { prev, prev_state, next };
        self.add_record(time, cpu, switch);
    }

    fn add_record(&mut self, time: u64, cpu: u32, event: Event) {
        self.records.push(Record {
            time,
            cpu,
            after: 0,
            event,
        });
    }

    /// Records a new task, unless the task already exists.
    fn create(&mut self, time: u64, cpu: u32, pid: u32, parent: u32) {
        if pid == 0 || !self.alive.insert(pid) {
            return;
        }
        let new = Event::TaskNew {
            pid,
            tgid: pid,
            parent,
            prio: self.prios.get(&pid).copied().unwrap_or(120),
            comm: self.names.get(&pid).map_or_else(|| "?".into(), Clone::clone),
        };
        self.add_record(time, cpu, new);
    }

    /// Updates the state of a task whose pid, name and priority are in the fields of an event. The
    /// task is new if its pid belonged to a task that exited.
    fn update(&mut self, time: u64, cpu: u32, task: &Task<&str>) {
        let Some(comm) = known_name(task).filter(|_| task.pid != 0) else {
            return;
        };
        let exists = self.alive.contains(&task.pid);
        if !exists && let Some(prio) = task.prio {
            self.prios.insert(task.pid, prio);
        }
        let former = self.names.insert(task.pid, comm.into());
        if exists && former.is_some_and(|former| former != comm) {
            let renamed = Event::TaskRename {
                pid: task.pid,
                comm: comm.into(),
            };
            self.add_record(time, cpu, renamed);
        }
    }

    /// Adds a switch to `next` at `time` if the recording says that another task was running. The
    /// real switch is missing in this case.
    fn infer_switch(&mut self, time: u64, cpu: u32, next: u32) {
        let running = self.running.insert(cpu, next).unwrap_or(0);
        if running != next {
            self.missing += 1;
            self.switch(time, cpu, running, TaskState::Running, next);
        }
    }

    /// Adds the records for one line.
    fn add_line(&mut self, line: &Line<&str>) {
        let (time, cpu) = (line.time, line.cpu);
        if let Some(task) = &line.task {
            self.leave_other_cpus(time, cpu, task.pid);
            self.infer_switch(time, cpu, task.pid);
        }
        let current = self.running.get(&cpu).copied().unwrap_or(0);
        if let Some(task) = line.event.task() {
            self.update(time, cpu, task);
            if !matches!(line.event, LineEvent::Fork { .. } | LineEvent::WakeupNew { .. }) {
                self.create(time, cpu, task.pid, 0);
            }
        }
        match &line.event {
            LineEvent::Switch { prev, prev_state, next } => {
                self.update(time, cpu, prev);
                self.switches += 1;
                // A handler never switches tasks. If a handler still seems to be running, its end
                // is missing.
                self.handlers.remove(&cpu);
                self.leave_other_cpus(time, cpu, next.pid);
                self.running.insert(cpu, next.pid);
                self.unwoken += u32::from(self.asleep.remove(&next.pid));
                match prev_state {
                    TaskState::Running => {}
                    TaskState::Dead => drop(self.alive.remove(&current)),
                    TaskState::Interruptible | TaskState::Uninterruptible => drop(self.asleep.insert(current)),
                }
                self.switch(time, cpu, current, *prev_state, next.pid);
            }
            // Either sched_waking or sched_wakeup produces a Waking record, whichever comes first.
            LineEvent::Wakeup { task, waking, target } => {
                self.wakeups += 1;
                if self.asleep.remove(&task.pid) {
                    self.waking.insert(task.pid);
                    let by_interrupt = line.in_interrupt || self.handlers.get(&cpu).is_some_and(|&depth| depth > 0);
                    let waker = if by_interrupt { 0 } else { current };
                    self.add_record(time, cpu, Event::Waking { pid: task.pid, waker });
                }
                if !waking {
                    self.waking.remove(&task.pid);
                    self.queued(time, cpu, task.pid, *target, false);
                }
            }
            LineEvent::WakeupNew { task, target } => {
                self.create(time, cpu, task.pid, current);
                // The kernel does not trace a migration if a new task starts on another CPU than
                // its parent.
                if let Some(to) = target.filter(|to| *to != cpu) {
                    self.migrate(time, cpu, task.pid, (cpu, to), MigrateReason::Fork);
                }
                self.queued(time, cpu, task.pid, *target, true);
            }
            LineEvent::Migrate { task, from, to } => {
                let reason = match self.waking.contains(&task.pid) {
                    true => MigrateReason::Wakeup,
                    false => MigrateReason::Balance,
                };
                self.migrate(time, cpu, task.pid, (*from, *to), reason);
            }
            LineEvent::Exec { file } => {
                let name = file.rsplit('/').next().unwrap_or(file);
                let comm: String = name.chars().take(COMM_LEN).collect();
                self.names.insert(current, comm.clone());
                self.add_record(time, cpu, Event::TaskRename { pid: current, comm });
            }
            LineEvent::Fork { child } => self.create(time, cpu, child.pid, current),
            LineEvent::Exit => self.add_record(time, cpu, Event::TaskExit { pid: current }),
            LineEvent::Handler { begins } => {
                let depth = self.handlers.entry(cpu).or_insert(0);
                *depth = if *begins { *depth + 1 } else { depth.saturating_sub(1) };
            }
            LineEvent::Other { .. } => {}
        }
    }

    /// Records that a task was put on a CPU's runqueue. If the recording has no events of the
    /// target CPU, the CPU of this event is used instead.
    fn queued(&mut self, time: u64, cpu: u32, pid: u32, target: Option<u32>, new: bool) {
        let target = target.filter(|target| self.cpus.contains(target)).unwrap_or(cpu);
        self.add_record(time, cpu, Event::Wakeup { pid, target, new });
    }

    /// Records a migration, if the recording has events of both CPUs.
    fn migrate(&mut self, time: u64, cpu: u32, pid: u32, (from, to): (u32, u32), reason: MigrateReason) {
        if from != to && self.cpus.contains(&from) && self.cpus.contains(&to) {
            let moved = Event::Migrate { pid, from, to, reason };
            self.add_record(time, cpu, moved);
        }
    }

    /// Ends the run of a task on any other CPU, because the task now runs on `cpu`.
    fn leave_other_cpus(&mut self, time: u64, cpu: u32, pid: u32) {
        let others = self.running.iter();
        let other = others.filter(|&(&other, &task)| task == pid && other != cpu && pid != 0);
        if let Some(other) = other.map(|(&other, _)| other).next() {
            self.infer_switch(time, other, 0);
        }
    }
}
