// SPDX-License-Identifier: GPL-2.0-only
//! Parses one line of a recording (the text that perf, trace-cmd or tracefs prints).
//!
//! ```text
//! perf script       comm  pid [001] 1234.567890: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 ...
//!                   comm  pid/tid [001] 1234.567890: sched:sched_switch: a:1 [120] S ==> b:2 [120]
//! trace-cmd report  comm-pid [001] 1234.567890: sched_switch: a:1 [120] S ==> b:2 [120]
//! tracefs           comm-pid (tgid) [001] d..2. 1234.567890: sched_switch: prev_comm=a prev_pid=1 ...
//! ```
//!
//! Task names may contain spaces and brackets. Where this matters, the parser therefore searches
//! for numbers from the end of the line.

use crate::event::TaskState;

/// A task as a line describes it. Some events do not contain `prio`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    pub pid: u32,
    pub comm: &'a str,
    /// The kernel's priority from 0 to 139.
    pub prio: Option<i32>,
}

/// A line with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Time in ns.
    pub time: u64,
    pub cpu: u32,
    /// The task that is running on the CPU. Pid 0 is the idle task. The task is unknown for some
    /// events of exiting tasks that perf records.
    pub task: Option<Task<'a>>,
    /// Whether the event's flags say that it occurred in an interrupt.
    pub in_interrupt: bool,
    pub event: LineEvent<'a>,
}

/// The event of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineEvent<'a> {
    Switch {
        prev_state: TaskState,
        next: Task<'a>,
    },
    Wakeup {
        task: Task<'a>,
        waking: bool,
        target: Option<u32>,
    },
    WakeupNew {
        task: Task<'a>,
        target: Option<u32>,
    },
    Migrate {
        task: Task<'a>,
        from: u32,
        to: u32,
    },
    Fork {
        child: Task<'a>,
    },
    Exec {
        file: &'a str,
    },
    Exit,
    /// A handler of an interrupt, softirq or timer begins or ends.
    Handler {
        begins: bool,
    },
    Other,
}

impl<'a> LineEvent<'a> {
    /// Returns the task to which the event applies, if it is not the running task.
    pub fn task(&self) -> Option<&Task<'a>> {
        match self {
            LineEvent::Switch { next, .. } => Some(next),
            LineEvent::Wakeup { task, .. } | LineEvent::WakeupNew { task, .. } | LineEvent::Migrate { task, .. } => {
                Some(task)
            }
            LineEvent::Fork { child } => Some(child),
            LineEvent::Exec { .. } | LineEvent::Exit | LineEvent::Handler { .. } | LineEvent::Other => None,
        }
    }
}

/// The meaning of a line of text.
pub enum Parsed<'a> {
    Event(Line<'a>),
    /// A message in which the tool reports that events were lost.
    Lost,
    /// A line without an event: a header, a comment, or part of a call chain.
    Nothing,
}

/// Parses a line.
///
/// # Errors
/// Returns what was expected in the line and what was found.
pub fn parse(text: &str) -> Result<Parsed<'_>, String> {
    let text = text.trim_end();
    let begin = text.trim_start();
    let lost = begin.contains("[LOST ") || begin.contains("LOST EVENTS") || begin.contains("PERF_RECORD_LOST");
    if lost {
        return Ok(Parsed::Lost);
    }
    let header = ["#", "cpus=", "version =", "CPU ", "trace-cmd"];
    if begin.is_empty() || header.iter().any(|header| begin.starts_with(header)) || is_call(begin) {
        return Ok(Parsed::Nothing);
    }
    let Some((task, cpu, rest)) = split_at_cpu(begin) else {
        return Err("expected an event, which begins with a task and its CPU in brackets".into());
    };
    let (flags, time, rest) = split_at_time(rest).ok_or("expected an event, but no time follows the CPU")?;
    // perf prints "comm -1" or "comm pid/-1" if the task is unknown.
    let task = match task.strip_suffix("-1").map(|before| before.ends_with([' ', '/'])) {
        Some(true) => None,
        _ => Some(parse_task(task).ok_or_else(|| format!("expected a task's name and pid, found '{task}'"))?),
    };
    // perf may print a number of events before the event's name.
    let rest = rest.trim_start();
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (event, rest) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
    let event = event.strip_prefix("sched:").unwrap_or(event);
    let mut line = Line {
        time,
        cpu,
        task,
        in_interrupt: in_interrupt(flags),
        event: LineEvent::Other,
    };
    let malformed = || format!("the fields of {event} cannot be read: '{}'", rest.trim());
    line.event = match event {
        "sched_switch" => {
            let (prev, prev_state, next) = switch(rest).ok_or_else(malformed)?;
            line.task = Some(prev);
            LineEvent::Switch { prev_state, next }
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
        _ => LineEvent::Other,
    };
    Ok(Parsed::Event(line))
}

/// Returns whether a line belongs to a call chain. Such a line begins with an address.
fn is_call(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    first.len() >= 6 && first.bytes().all(|b| b.is_ascii_hexdigit()) && text.ends_with(')')
}

/// Splits a line at "[cpu]". Returns the text before it, the CPU, and the text after it.
fn split_at_cpu(text: &str) -> Option<(&str, u32, &str)> {
    for (at, _) in text.match_indices('[') {
        let Some(end) = text[at..].find(']').map(|end| at + end) else {
            break;
        };
        let digits = &text[at + 1..end];
        let number = digits.len() >= 3 && digits.bytes().all(|b| b.is_ascii_digit());
        let before = text[..at].trim_end();
        if number && !before.is_empty() && before.len() < at && text[end + 1..].starts_with(' ') {
            return Some((
                before,
                digits.parse().ok().filter(|&cpu| cpu < 1 << 16)?,
                &text[end + 1..],
            ));
        }
    }
    None
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
fn handler(event: &str, end: &str) -> bool {
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

/// Parses "comm pid", "comm pid/tid", "comm-pid" or "comm-pid (tgid)".
fn parse_task(text: &str) -> Option<Task<'_>> {
    let text = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((task, tgid)) if tgid.trim().bytes().all(|b| b.is_ascii_digit() || b == b'-') => task.trim_end(),
        _ => text,
    };
    let by_blank = text.rsplit_once(char::is_whitespace).and_then(|(comm, pid)| {
        let pid = pid.rsplit('/').next().unwrap_or(pid);
        Some((comm.trim_end(), number(pid)?))
    });
    let (comm, pid) = by_blank.or_else(|| {
        let (comm, pid) = text.rsplit_once('-')?;
        Some((comm, number(pid)?))
    })?;
    (!comm.is_empty()).then_some(Task { pid, comm, prio: None })
}

/// Parses a task from "...comm=NAME ... pid=7 ...". `comm` and `pid` are the keys, including the
/// spaces before them.
fn keyed<'a>(text: &'a str, comm: &str, pid: &str) -> Option<Task<'a>> {
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
/// the bracket.
fn pretty(text: &str) -> Option<(Task<'_>, &str)> {
    let (bracket, prio, after) = text.match_indices(" [").find_map(|(at, _)| {
        let (prio, after) = text[at + 2..].split_once(']')?;
        Some((at, prio.parse().ok()?, after))
    })?;
    let (comm, pid) = text[..bracket].trim_start().rsplit_once(':')?;
    let pid = number(pid)?;
    Some((
        Task {
            pid,
            comm,
            prio: Some(prio),
        },
        after,
    ))
}

/// Parses the fields of sched_switch.
fn switch(text: &str) -> Option<(Task<'_>, TaskState, Task<'_>)> {
    let (left, right) = text.rsplit_once("==>")?;
    if let Some(mut prev) = keyed(left, "prev_comm=", " prev_pid=") {
        let mut next = keyed(right, "next_comm=", " next_pid=")?;
        prev.prio = Some(value(left, " prev_prio=")?.parse().ok()?);
        next.prio = Some(value(right, " next_prio=")?.parse().ok()?);
        return Some((prev, state(value(left, " prev_state=")?)?, next));
    }
    let (prev, after) = pretty(left)?;
    let (next, _) = pretty(right)?;
    Some((prev, state(after.trim())?, next))
}

/// Parses the woken task of a wake-up event.
fn woken(text: &str) -> Option<Task<'_>> {
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

fn migrate(text: &str) -> Option<LineEvent<'_>> {
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
