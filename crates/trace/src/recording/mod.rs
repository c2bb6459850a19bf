// SPDX-License-Identifier: GPL-2.0-only
//! Reads recordings of real machines and converts them into records.
//!
//! [`open`] recognizes the formats: perf.data, trace.dat, CTF, Perfetto, archives of schedviz, and the text that
//! `perf script`, `trace-cmd report` or tracefs' `trace` file prints. [`Ring`] reads the pages of
//! the kernel's ring buffers. Each reader converts the events of its format into the same lines
//! ([`Lines`]), from which [`Builder`] makes the records.
//!
//! A recording must contain sched_switch and should contain at least one of sched_waking and
//! sched_wakeup. The reader also uses sched_wakeup_new, sched_migrate_task, sched_process_fork,
//! sched_process_exec and sched_process_exit, and ignores all other events.
//!
//! A task is identified by the pid in the fields of an event, which the kernel writes. The pid that
//! a tool prints before the CPU is used only for events that do not contain the running task. It
//! is not used at all if it contradicts the fields of sched_switch: perf prints the pids of its own
//! pid namespace if it runs in a container.
//!
//! Time 0 is the time of the first event. Information that is missing in the recording is inferred:
//!
//! - A task without a fork event existed from the start. If its pid belonged to a task that exited,
//!   it exists since its first event.
//! - A task whose name differs from its name in the previous event was renamed.
//! - The task that runs on a CPU at the CPU's first event is assumed to have run there since the
//!   start, or since its last event on another CPU if it had one.
//! - A missing switch is assumed to have happened at the CPU's next event.
//!
//! A wake-up by an interrupt handler has no waker. The kernel marks such wake-ups. The text of
//! `perf script` and LTTng's traces lack the mark. There, they are recognized only if the recording
//! also contains the beginning and the end of handlers (irq:*, irq_vectors:local_timer_*,
//! timer:hrtimer_expire_*).

mod compressed;
mod ctf;
mod damage;
mod events;
mod input;
mod kind;
mod line;
mod names;
mod open;
mod perf_data;
mod perfetto;
mod placement;
mod ring;
mod schedviz;
mod trace_dat;
mod tracing_data;

use crate::event::{Event, MigrateReason, Record, TaskState};
pub use ctf::is_trace as is_ctf_trace;
pub use events::EVENTS;
pub use kind::{TRACE_FILE, not_a_trace};
pub use line::MAX_CPUS;
use line::{Line, LineEvent, Parsed, Task};
use names::{Lines, Name, Names};
pub use open::{open, open_watched, read_bytes};
pub use ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead, Read};

/// Name of the policy in the results of a recording.
pub const RECORDED: &str = "recorded";

/// The contents of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Records in order of time.
    pub records: Vec<Record>,
    /// Time of the first event in ns, on the clock of the recording machine.
    pub start: u64,
    pub switches: u32,
    /// Number of switches that must have happened but are not in the recording, plus the number of
    /// places where the tool reports lost events.
    pub missing: u32,
    /// Whether the recording shows which events occurred in interrupts.
    pub interrupts: bool,
    /// Whether it shows who woke a task. If it does not, wake-ups look like those by interrupts.
    pub wakers: bool,
    /// Whether it contains sched_waking, and not only sched_wakeup.
    pub waking: bool,
    /// Whether it contains sched_process_fork.
    pub forks: bool,
    /// Number of lost events, as far as the recording contains it.
    pub lost: u64,
    /// Number of sleeping tasks that ran again, if the recording contains no wake-up at all.
    pub unwoken: u32,
    /// Number of recorded events by name.
    pub counts: BTreeMap<String, u64>,
    /// Number of CPUs that were recorded: what the tool prints, or the highest CPU with an event.
    pub nr_cpus: u32,
}

/// Reason why a recording cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingError {
    /// Line number, starting at 1. 0 if the recording is not a text.
    pub line: u32,
    pub message: String,
    pub hint: String,
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

const FORMAT_HINT: &str =
    "use the output of 'perf script' or 'trace-cmd report' for events that were recorded on all CPUs (-a)";
/// How to record the events that are needed.
pub const EVENTS_HINT: &str =
    "record the events of 'perf sched record -a', or run 'trace-cmd record -e sched' (see docs/how-to/replay.md)";
/// Maximum number of event names that a message lists.
const MAX_NAMES: usize = 5;
const LOST_HINT: &str = "record all CPUs (-a) with larger buffers (perf record -m 16M, trace-cmd record -b 100000)";
/// Maximum length of a line. Real lines are far shorter.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Maximum number of characters in a task's name.
const COMM_LEN: usize = 15;
/// A recording is refused if more than a tenth of its switches are missing. This is the 10 in 1/10.
const SWITCHES_PER_MISSING: u32 = 10;

/// Reads the text of a recording.
///
/// # Errors
/// Fails on a line that is not an event, on a text without events, and if too many switches are
/// missing.
pub fn read(text: &str) -> Result<Recording, RecordingError> {
    read_text(text.as_bytes())
}

/// The part of an HTML page of systrace that is being read. Such a page contains ftrace text in a
/// script.
#[derive(PartialEq)]
enum Page {
    /// The text is no HTML page.
    None,
    Outside,
    Trace,
}

impl Page {
    /// Returns whether a line is part of the trace.
    fn has(&mut self, number: u32, line: &str) -> bool {
        let begin = line.trim_start();
        if number == 1
            && begin
                .get(..9)
                .is_some_and(|begin| begin.eq_ignore_ascii_case("<!doctype"))
        {
            *self = Page::Outside;
        }
        match self {
            Page::Outside if line.contains("# tracer:") => *self = Page::Trace,
            Page::Trace if line.contains("</script>") => *self = Page::Outside,
            _ => {}
        }
        *self != Page::Outside
    }
}

/// Reads the text of a recording line by line. Bytes that are not UTF-8, for example of a name that
/// the kernel cut off, become U+FFFD. A copy of a text can end inside a line, which then counts as
/// a lost event.
fn read_text(mut text: impl BufRead) -> Result<Recording, RecordingError> {
    let mut lines = Lines::default();
    let mut bytes = Vec::new();
    let mut number = 0;
    let mut page = Page::None;
    loop {
        number += 1;
        let error = |message| RecordingError {
            line: number,
            message,
            hint: FORMAT_HINT.into(),
        };
        bytes.clear();
        let read = text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        if read.map_err(|why| error(why.to_string()))? == 0 {
            break;
        }
        if bytes.len() as u64 == MAX_LINE_BYTES {
            return Err(error(format!("the line has more than {MAX_LINE_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(&bytes);
        if !page.has(number, &text) {
            continue;
        }
        // In old pages of systrace, each line is a part of a JavaScript string.
        let text = text.strip_suffix("\\n\\\n").unwrap_or(&text);
        match line::parse(text) {
            Ok(Parsed::Event(line)) => lines.add(&line),
            Ok(Parsed::Lost(lost)) => lines.add_gap(lost),
            Ok(Parsed::NrCpus(nr_cpus)) => lines.nr_cpus = nr_cpus,
            Ok(Parsed::Nothing) => {}
            Err(_) if !bytes.ends_with(b"\n") && !lines.lines.is_empty() => lines.lost += 1,
            Err(why) => return Err(error(why.to_string())),
        }
    }
    Builder::default().build(lines)
}

/// Converts the lines of a recording into records.
#[derive(Default)]
struct Builder {
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
    fn build(mut self, read: Lines) -> Result<Recording, RecordingError> {
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

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;
