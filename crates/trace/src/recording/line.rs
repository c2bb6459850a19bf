// SPDX-License-Identifier: GPL-2.0-only
//! One line of a recording.
//!
//! ```text
//! perf script       comm  pid [001] 1234.567890: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b ...
//!                   comm  pid/tid [001] 1234.567890: sched:sched_switch: a:1 [120] S ==> b:2 [120]
//! trace-cmd report  comm-pid [001] 1234.567890: sched_switch: a:1 [120] S ==> b:2 [120]
//! tracefs           comm-pid (tgid) [001] d..2. 1234.567890: sched_switch: prev_comm=a prev_pid=1 ...
//! ```
//! Names may contain blanks and brackets; numbers are looked for from behind where that matters.

use crate::event::TaskState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    pub pid: u32,
    pub comm: &'a str,
    /// The kernel's 0..139.
    pub prio: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// ns
    pub time: u64,
    pub cpu: u32,
    /// Who runs on the CPU; pid 0 is idle. perf does not know it of tasks that are about to be gone.
    pub task: Option<Task<'a>>,
    pub in_interrupt: bool,
    pub said: Said<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<'a> {
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
    /// An interrupt's, softirq's or timer's handler begins or ends.
    Handler {
        begins: bool,
    },
    Other,
}

impl<'a> Said<'a> {
    /// The other task it is about.
    pub fn task(&self) -> Option<&Task<'a>> {
        match self {
            Said::Switch { next, .. } => Some(next),
            Said::Wakeup { task, .. } | Said::WakeupNew { task, .. } | Said::Migrate { task, .. } => Some(task),
            Said::Fork { child } => Some(child),
            Said::Exec { .. } | Said::Exit | Said::Handler { .. } | Said::Other => None,
        }
    }
}

/// What a line of text is.
pub enum Parsed<'a> {
    Event(Line<'a>),
    /// Here the tool says that events are missing.
    Lost,
    /// A header, a comment, a call chain.
    Nothing,
}

/// Reads a line.
///
/// # Errors
/// What it lacks to be an event.
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
        return Err("no event: it does not begin with a task and its CPU in brackets".into());
    };
    let (flags, time, rest) = split_at_time(rest).ok_or("no event: there is no time after the CPU")?;
    // "comm -1", "comm pid/-1"
    let task = match task.strip_suffix("-1").map(|before| before.ends_with([' ', '/'])) {
        Some(true) => None,
        _ => Some(parse_task(task).ok_or_else(|| format!("'{task}' is no task and its pid"))?),
    };
    // perf may print how many events the line stands for.
    let rest = rest.trim_start();
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (event, rest) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
    let event = event.strip_prefix("sched:").unwrap_or(event);
    let mut line = Line {
        time,
        cpu,
        task,
        in_interrupt: in_interrupt(flags),
        said: Said::Other,
    };
    let malformed = || format!("{event} does not say what it should: '{}'", rest.trim());
    line.said = match event {
        "sched_switch" => {
            let (prev, prev_state, next) = switch(rest).ok_or_else(malformed)?;
            line.task = Some(prev);
            Said::Switch { prev_state, next }
        }
        "sched_waking" | "sched_wakeup" => Said::Wakeup {
            task: woken(rest).ok_or_else(malformed)?,
            waking: event == "sched_waking",
            target: target(rest),
        },
        "sched_wakeup_new" => Said::WakeupNew {
            task: woken(rest).ok_or_else(malformed)?,
            target: target(rest),
        },
        "sched_migrate_task" => migrate(rest).ok_or_else(malformed)?,
        "sched_process_exec" => Said::Exec {
            file: value(rest, "filename=").ok_or_else(malformed)?,
        },
        "sched_process_fork" => Said::Fork {
            child: keyed(rest, "child_comm=", " child_pid=").ok_or_else(malformed)?,
        },
        "sched_process_exit" => Said::Exit,
        _ if handler(event, "_entry") => Said::Handler { begins: true },
        _ if handler(event, "_exit") => Said::Handler { begins: false },
        _ => Said::Other,
    };
    Ok(Parsed::Event(line))
}

/// A line of a call chain: an address first.
fn is_call(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    first.len() >= 6 && first.bytes().all(|b| b.is_ascii_hexdigit()) && text.ends_with(')')
}

/// What stands before "[cpu]", the CPU, and what stands behind.
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

/// Flags if there are any, the time in ns, and what stands behind.
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

/// "12.345678" is 12345678000.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = fraction.len();
    if !(1..=9).contains(&digits) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction: u64 = fraction.parse().ok()?;
    let whole = number::<u64>(seconds)?.checked_mul(1_000_000_000)?;
    whole.checked_add(fraction * 10_u64.pow(9 - digits as u32))
}

fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Events of the groups irq, irq_vectors and timer that frame what runs in an interrupt.
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

/// The third flag tells hard and soft interrupts: d..h2.
fn in_interrupt(flags: &str) -> bool {
    flags.len() >= 4 && matches!(flags.as_bytes()[2], b'h' | b's' | b'H' | b'Z' | b'z')
}

/// "comm pid", "comm pid/tid", "comm-pid", "comm-pid (tgid)".
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

/// "…comm=NAME …pid=7 …": the keys with their blanks.
fn keyed<'a>(text: &'a str, comm: &str, pid: &str) -> Option<Task<'a>> {
    let (_, from) = text.split_once(comm)?;
    let (comm, after) = from.rsplit_once(pid)?;
    let pid = number(after.split_whitespace().next()?)?;
    Some(Task { pid, comm, prio: None })
}

/// What follows a key, up to the next blank.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.rsplit_once(key)?.1.split_whitespace().next()
}

/// "NAME:7 [120]": what libtraceevent makes of it; and what stands behind.
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

fn woken(text: &str) -> Option<Task<'_>> {
    if let Some(mut task) = keyed(text, "comm=", " pid=") {
        task.prio = Some(value(text, " prio=")?.parse().ok()?);
        return Some(task);
    }
    pretty(text).map(|(task, _)| task)
}

/// The CPU of a wake-up: "target_cpu=001", "CPU:001".
fn target(text: &str) -> Option<u32> {
    let target = value(text, " target_cpu=").or_else(|| value(text, " CPU:"));
    target.and_then(number)
}

fn migrate(text: &str) -> Option<Said<'_>> {
    let cpu = |key: &str| number(value(text, key)?);
    Some(Said::Migrate {
        task: woken(text)?,
        from: cpu(" orig_cpu=")?,
        to: cpu(" dest_cpu=")?,
    })
}

/// The letters of prev_state; R+ is preempted.
fn state(text: &str) -> Option<TaskState> {
    Some(match text.as_bytes().first()? {
        b'R' => TaskState::Running,
        b'D' => TaskState::Uninterruptible,
        b'X' | b'Z' | b'x' => TaskState::Dead,
        b'S' | b'I' | b'T' | b't' | b'P' | b'K' | b'W' => TaskState::Interruptible,
        _ => return None,
    })
}
