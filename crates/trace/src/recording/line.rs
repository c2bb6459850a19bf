// SPDX-License-Identifier: GPL-2.0-only
//! Parses one line of a recording (the text that perf, trace-cmd or tracefs prints).
//!
//! ```text
//! perf script       comm  pid [001] 1234.567890: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 ...
//!                   comm  pid/tid [001] 1234.567890: sched:sched_switch: a:1 [120] S ==> b:2 [120]
//! trace-cmd report  comm-pid [001] 1234.567890: sched_switch: a:1 [120] S ==> b:2 [120]
//!        with -R    comm-pid [001] 1234.567890: sched_switch: prev_comm=a ... prev_state=1 next_comm=b ...
//! tracefs           comm-pid (tgid) [001] d..2. 1234.567890: sched_switch: prev_comm=a prev_pid=1 ...
//!  latency-format   comm-pid 1d..2. 1234567890us : sched_switch: prev_comm=a prev_pid=1 ...
//! ```
//!
//! A task's name can contain anything: spaces, brackets, or text that looks like a header of these
//! tools. A line is therefore an event if it has the form of an event, and only other lines can be
//! headers. Inside a line, the parser searches for numbers from the end where this matters.

use crate::event::TaskState;
use thiserror::Error;

/// What was expected in a line, and what was found.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LineError {
    #[error("expected a task's name and pid, found '{0}'")]
    Task(String),
    #[error("the fields of {event} cannot be read: '{fields}'")]
    Fields { event: String, fields: String },
    #[error("expected an event, which begins with a task and its CPU in brackets")]
    NoCpu,
    #[error("expected an event, but no time follows the CPU")]
    NoTime,
}

/// A task as a line describes it. Some events do not contain `prio`. `S` is the type of texts:
/// `&str`, or [`super::names::Name`] for the lines that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<S> {
    pub pid: u32,
    pub comm: S,
    /// The kernel's priority from 0 to 139.
    pub prio: Option<i32>,
}

/// A line with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<S> {
    /// Time in ns.
    pub time: u64,
    pub cpu: u32,
    /// The task that is running on the CPU. Pid 0 is the idle task. The task is unknown for some
    /// events of exiting tasks that perf records.
    pub task: Option<Task<S>>,
    /// Whether the event's flags say that it occurred in an interrupt.
    pub in_interrupt: bool,
    /// Whether the event has flags, so that an event without the flag of interrupts occurred in
    /// none.
    pub shows_interrupts: bool,
    pub event: LineEvent<S>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineEvent<S> {
    Switch {
        prev: Task<S>,
        prev_state: TaskState,
        next: Task<S>,
    },
    Wakeup {
        task: Task<S>,
        waking: bool,
        target: Option<u32>,
    },
    WakeupNew {
        task: Task<S>,
        target: Option<u32>,
    },
    Migrate {
        task: Task<S>,
        from: u32,
        to: u32,
    },
    Fork {
        child: Task<S>,
    },
    Exec {
        file: S,
    },
    Exit,
    /// A handler of an interrupt, softirq or timer begins or ends.
    Handler {
        begins: bool,
    },
    Other {
        name: S,
    },
}

impl<'a> LineEvent<&'a str> {
    /// Returns the event's name.
    pub fn name(&self) -> &'a str {
        match self {
            LineEvent::Switch { .. } => "sched_switch",
            LineEvent::Wakeup { waking: true, .. } => "sched_waking",
            LineEvent::Wakeup { .. } => "sched_wakeup",
            LineEvent::WakeupNew { .. } => "sched_wakeup_new",
            LineEvent::Migrate { .. } => "sched_migrate_task",
            LineEvent::Fork { .. } => "sched_process_fork",
            LineEvent::Exec { .. } => "sched_process_exec",
            LineEvent::Exit => "sched_process_exit",
            LineEvent::Handler { .. } => "handlers of interrupts",
            LineEvent::Other { name } => name,
        }
    }
}

impl<S> LineEvent<S> {
    /// Returns the task to which the event applies, if it is not the running task.
    pub fn task(&self) -> Option<&Task<S>> {
        match self {
            LineEvent::Switch { next, .. } => Some(next),
            LineEvent::Wakeup { task, .. } | LineEvent::WakeupNew { task, .. } | LineEvent::Migrate { task, .. } => {
                Some(task)
            }
            LineEvent::Fork { child } => Some(child),
            LineEvent::Exec { .. } | LineEvent::Exit | LineEvent::Handler { .. } | LineEvent::Other { .. } => None,
        }
    }
}

/// The meaning of a line of text.
pub enum Parsed<'a> {
    Event(Line<&'a str>),
    /// A message in which the tool reports that events were lost. The number of these events, or 0
    /// if the tool does not print it.
    Lost(u64),
    /// A header with the number of CPUs.
    NrCpus(u32),
    /// A line without an event: a header, a comment, or part of a call chain.
    Nothing,
}

/// The parts of an event's line before the event's fields.
struct Prefix<'a> {
    task: &'a str,
    cpu: u32,
    flags: &'a str,
    time: u64,
    /// Name of the event, and the text after it.
    event: &'a str,
    fields: &'a str,
}

/// Parses a line.
pub fn parse(text: &str) -> Result<Parsed<'_>, LineError> {
    let text = text.trim_end();
    let begin = text.trim_start();
    let Some(prefix) = prefix(begin).or_else(|| latency_prefix(begin)) else {
        return other_line(begin);
    };
    if let Some(record) = prefix.event.strip_prefix("PERF_RECORD_") {
        return Ok(match record.starts_with("LOST") {
            // "PERF_RECORD_LOST lost 12"
            true => Parsed::Lost(number(value(prefix.fields, "lost ").unwrap_or("")).unwrap_or(0)),
            false => Parsed::Nothing,
        });
    }
    // perf prints "comm -1" or "comm pid/-1" if the task is unknown.
    let task = match prefix
        .task
        .strip_suffix("-1")
        .map(|before| before.ends_with([' ', '/']))
    {
        Some(true) => None,
        _ => Some(parse_task(prefix.task).ok_or_else(|| LineError::Task(prefix.task.into()))?),
    };
    let event = prefix.event.strip_prefix("sched:").unwrap_or(prefix.event);
    let rest = prefix.fields;
    let mut line = Line {
        time: prefix.time,
        cpu: prefix.cpu,
        task,
        in_interrupt: in_interrupt(prefix.flags),
        shows_interrupts: prefix.flags.len() >= 4,
        event: LineEvent::Other { name: prefix.event },
    };
    let malformed = || LineError::Fields {
        event: event.into(),
        fields: rest.trim().into(),
    };
    line.event = match event {
        "sched_switch" => {
            let (prev, prev_state, next) = switch(rest).ok_or_else(malformed)?;
            LineEvent::Switch { prev, prev_state, next }
        }
        "sched_waking" | "sched_wakeup" => LineEvent::Wakeup {
            task: woken(rest).ok_or_else(malformed)?,
            waking: event == "sched_waking",
            target: target(rest),
        },
        "sched_wakeup_new" => LineEvent::WakeupNew {
            task: woken(rest).ok_or_else(malformed)?,
            target: target(rest),
        },
        "sched_migrate_task" => migrate(rest).ok_or_else(malformed)?,
        "sched_process_exec" => LineEvent::Exec {
            file: value(rest, "filename=").ok_or_else(malformed)?,
        },
        "sched_process_fork" => LineEvent::Fork {
            child: keyed(rest, "child_comm=", " child_pid=").ok_or_else(malformed)?,
        },
        "sched_process_exit" => LineEvent::Exit,
        _ if handler(event, "_entry") => LineEvent::Handler { begins: true },
        _ if handler(event, "_exit") => LineEvent::Handler { begins: false },
        _ => line.event,
    };
    Ok(Parsed::Event(line))
}

/// Determines the meaning of a line that does not have the form of an event.
///
/// # Errors
/// The line is none of the lines that the tools print between events.
fn other_line(text: &str) -> Result<Parsed<'_>, LineError> {
    if text.contains("[LOST ") || text.contains("LOST EVENTS") || text.contains("[EVENTS DROPPED]") {
        // "CPU:1 [LOST 5 EVENTS]"
        let lost = text.split_once("[LOST ").and_then(|(_, after)| after.split_once(' '));
        return Ok(Parsed::Lost(lost.and_then(|(lost, _)| number(lost)).unwrap_or(0)));
    }
    // trace-cmd prints "cpus=2", and tracefs "# entries-in-buffer/entries-written: 9/9   #P:2".
    let nr_cpus = text
        .strip_prefix("cpus=")
        .or_else(|| Some(text.strip_prefix('#')?.split_once("#P:")?.1));
    if let Some(nr_cpus) = nr_cpus.and_then(number::<u32>).filter(|&nr_cpus| nr_cpus <= MAX_CPUS) {
        return Ok(Parsed::NrCpus(nr_cpus));
    }
    let is_empty_cpu = |text: &str| {
        let cpu = text
            .strip_prefix("CPU ")
            .and_then(|text| text.strip_suffix(" is empty"));
        cpu.and_then(number::<u32>).is_some()
    };
    let begins = ["#", "cpus=", "version = ", "trace-cmd: "];
    if text.is_empty() || begins.iter().any(|begin| text.starts_with(begin)) || is_empty_cpu(text) || is_call(text) {
        return Ok(Parsed::Nothing);
    }
    let cpu = text.match_indices('[').find_map(|(at, _)| bracketed_cpu(text, at));
    Err(match cpu {
        None => LineError::NoCpu,
        Some(_) => LineError::NoTime,
    })
}

/// Returns whether a line belongs to a call chain. Such a line begins with an address.
fn is_call(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    first.len() >= 6 && first.bytes().all(|b| b.is_ascii_hexdigit()) && text.ends_with(')')
}

/// Divides a line at "[cpu] flags time: event:". The flags may be missing. A task's name can contain
/// brackets, so the first bracket that a time follows is the CPU.
fn prefix(text: &str) -> Option<Prefix<'_>> {
    text.match_indices('[').find_map(|(at, _)| {
        let (cpu, rest) = bracketed_cpu(text, at)?;
        let (flags, time, rest) = split_at_time(rest)?;
        let (event, fields) = split_event(rest);
        Some(Prefix {
            task: text[..at].trim_end(),
            cpu,
            flags,
            time,
            event,
            fields,
        })
    })
}

/// Divides a line of tracefs' latency-format: the CPU and the flags are one word without brackets,
/// and the time is in us.
fn latency_prefix(text: &str) -> Option<Prefix<'_>> {
    text.match_indices("us").find_map(|(at, _)| {
        // A character after the unit marks long delays.
        let rest = text[at + 2..]
            .trim_start_matches([' ', '!', '#', '+', '*', '@', '$'])
            .strip_prefix(':')?;
        let (before, time) = text[..at].rsplit_once(char::is_whitespace)?;
        let (task, word) = before.trim_end().rsplit_once(char::is_whitespace)?;
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let (cpu, flags) = word.split_at(digits);
        let is_flags = (4..=6).contains(&flags.len()) && flags.bytes().all(|b| b == b'.' || b.is_ascii_alphanumeric());
        let (event, fields) = split_event(rest);
        is_flags.then_some(Prefix {
            task: task.trim_end(),
            cpu: number(cpu).filter(|&cpu| cpu < MAX_CPUS)?,
            flags,
            time: number::<u64>(time)?.checked_mul(1000)?,
            event,
            fields,
        })
    })
}

/// Maximum number of CPUs of Linux (NR_CPUS on x86). A higher number in a recording is not a CPU.
pub const MAX_CPUS: u32 = 1 << 13;

/// Parses "[001] " at a position. Returns the CPU and the text after the bracket.
fn bracketed_cpu(text: &str, at: usize) -> Option<(u32, &str)> {
    let (digits, rest) = text[at + 1..].split_once(']')?;
    let separated = at > 0 && text[..at].ends_with(char::is_whitespace) && rest.starts_with(' ');
    let cpu = number(digits).filter(|&cpu| cpu < MAX_CPUS)?;
    (digits.len() >= 3 && separated).then_some((cpu, rest))
}

/// Splits the text after the time into the event's name and its fields.
fn split_event(text: &str) -> (&str, &str) {
    // perf may print a number of events before the event's name.
    let text = text.trim_start();
    let text = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    text.split_once(": ").unwrap_or((text.trim_end_matches(':'), ""))
}

/// Splits a line after the time. Returns the flags (an empty text if there are none), the time in
/// ns, and the text after the time.
fn split_at_time(text: &str) -> Option<(&str, u64, &str)> {
    let mut rest = text.trim_start();
    let mut flags = "";
    for _ in 0..2 {
        let (token, after) = rest.split_once(' ')?;
        if let Some(time) = token.strip_suffix(':').and_then(nanoseconds) {
            return Some((flags, time, after));
        }
        flags = token;
        rest = after.trim_start();
    }
    None
}

/// Converts "12.345678" into 12345678000.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = fraction.parse().ok()?;
    let whole = number::<u64>(seconds)?.checked_mul(1_000_000_000)?;
    let nanoseconds = (digits..9).fold(fraction, |number, _| number * 10);
    whole.checked_add(nanoseconds)
}

/// Parses a number that consists of digits only.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Returns whether an event marks the beginning (`_entry`) or the end (`_exit`) of a handler that
/// runs in an interrupt. `end` is this suffix.
pub(super) fn handler(event: &str, end: &str) -> bool {
    let event = event.rsplit(':').next().unwrap_or(event);
    let kinds = [
        "irq_handler",
        "softirq",
        "hrtimer_expire",
        "timer_expire",
        "local_timer",
    ];
    event.strip_suffix(end).is_some_and(|kind| kinds.contains(&kind))
}

/// Returns whether the flags of an event say that it occurred in a hard or soft interrupt. This is
/// the third flag, for example the `h` in "d..h2".
fn in_interrupt(flags: &str) -> bool {
    flags.len() >= 4 && matches!(flags.as_bytes()[2], b'h' | b's' | b'H' | b'Z' | b'z')
}

/// Parses "comm pid", "comm pid/tid", "comm-pid" or "comm-pid (tgid)". The name may be empty.
fn parse_task(text: &str) -> Option<Task<&str>> {
    let text = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((task, tgid)) if tgid.trim().bytes().all(|b| b.is_ascii_digit() || b == b'-') => task.trim_end(),
        _ => text,
    };
    let by_blank = || {
        let (comm, pid) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
        let pid = pid.rsplit('/').next().unwrap_or(pid);
        Some((comm.trim_end(), number(pid)?))
    };
    let (comm, pid) = by_blank().or_else(|| {
        let (comm, pid) = text.rsplit_once('-')?;
        Some((comm, number(pid)?))
    })?;
    Some(Task { pid, comm, prio: None })
}

/// Parses a task from "...comm=NAME ... pid=7 ...". `comm` and `pid` are the keys, including the
/// spaces before them.
fn keyed<'a>(text: &'a str, comm: &str, pid: &str) -> Option<Task<&'a str>> {
    let (_, from) = text.split_once(comm)?;
    let (comm, after) = from.rsplit_once(pid)?;
    let pid = number(after.split_whitespace().next()?)?;
    Some(Task { pid, comm, prio: None })
}

/// Returns the value after a key, up to the next space.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.rsplit_once(key)?.1.split_whitespace().next()
}

/// Parses "NAME:7 [120]", the form that libtraceevent prints. Returns the task and the text after
/// the bracket. The name may contain the same form, so the last one counts.
fn pretty(text: &str) -> Option<(Task<&str>, &str)> {
    text.rmatch_indices(" [").find_map(|(at, _)| {
        let (prio, after) = text[at + 2..].split_once(']')?;
        let (comm, pid) = text[..at].trim_start().rsplit_once(':')?;
        let task = Task {
            pid: number(pid)?,
            comm,
            prio: Some(prio.parse().ok()?),
        };
        Some((task, after))
    })
}

/// Parses the fields of sched_switch.
fn switch(text: &str) -> Option<(Task<&str>, TaskState, Task<&str>)> {
    keyed_switch(text).or_else(|| {
        // A name may contain the arrow, too.
        text.match_indices(" ==> ").find_map(|(at, arrow)| {
            let (prev, after) = pretty(&text[..at])?;
            let (next, rest) = pretty(&text[at + arrow.len()..])?;
            let is_whole = rest.trim().is_empty();
            is_whole.then_some((prev, state(after.trim())?, next))
        })
    })
}

/// Parses the fields of sched_switch in the form "prev_comm=a ... next_comm=b ...". Without
/// formatting (trace-cmd report -R), there is no arrow, and the state is a number.
fn keyed_switch(text: &str) -> Option<(Task<&str>, TaskState, Task<&str>)> {
    let (left, right) = text.rsplit_once(" next_comm=")?;
    let mut prev = keyed(left, "prev_comm=", " prev_pid=")?;
    let (comm, after) = right.rsplit_once(" next_pid=")?;
    let next = Task {
        pid: number(after.split_whitespace().next()?)?,
        comm,
        prio: Some(value(after, " next_prio=")?.parse().ok()?),
    };
    prev.prio = Some(value(left, " prev_prio=")?.parse().ok()?);
    let shown = value(left, " prev_state=")?;
    let state = match shown.strip_prefix("0x") {
        Some(hex) => state_bits(i64::from_str_radix(hex, 16).ok()?),
        None => number(shown).map(state_bits).or_else(|| state(shown))?,
    };
    Some((prev, state, next))
}

/// Parses the woken task of a wake-up event.
fn woken(text: &str) -> Option<Task<&str>> {
    if let Some(mut task) = keyed(text, "comm=", " pid=") {
        task.prio = Some(value(text, " prio=")?.parse().ok()?);
        return Some(task);
    }
    pretty(text).map(|(task, _)| task)
}

/// Returns the target CPU of a wake-up from "target_cpu=001" or "CPU:001".
fn target(text: &str) -> Option<u32> {
    let target = value(text, " target_cpu=").or_else(|| value(text, " CPU:"));
    target.and_then(number)
}

fn migrate(text: &str) -> Option<LineEvent<&str>> {
    let cpu = |key: &str| number(value(text, key)?);
    Some(LineEvent::Migrate {
        task: woken(text)?,
        from: cpu(" orig_cpu=")?,
        to: cpu(" dest_cpu=")?,
    })
}

/// Parses the letters of prev_state. "R+" is a preempted task.
fn state(text: &str) -> Option<TaskState> {
    Some(match text.as_bytes().first()? {
        b'R' => TaskState::Running,
        b'D' => TaskState::Uninterruptible,
        b'X' | b'Z' | b'x' => TaskState::Dead,
        b'S' | b'I' | b'T' | b't' | b'P' | b'K' | b'W' => TaskState::Interruptible,
        _ => return None,
    })
}

/// Converts the state bits of sched_switch. Only the lowest 8 bits are examined. A preempted task is
/// runnable: its lowest 8 bits are 0, because the bit for preemption is above them.
pub(super) fn state_bits(bits: i64) -> TaskState {
    match bits & 0xff {
        0 => TaskState::Running,
        bits if bits & 0x30 != 0 => TaskState::Dead,
        2 => TaskState::Uninterruptible,
        _ => TaskState::Interruptible,
    }
}
