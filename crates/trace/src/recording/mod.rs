// SPDX-License-Identifier: GPL-2.0-only
//! Reads recordings of real machines and converts them into records.
//!
//! [`open`] recognizes the formats: perf.data, trace.dat, CTF, Perfetto, archives of schedviz, and
//! the text that `perf script`, `trace-cmd report` or tracefs' `trace` file prints. [`Ring`] reads
//! the pages of the kernel's ring buffers. Each reader converts the events of its format into the
//! same lines ([`Lines`](names::Lines)), from which [`Builder`](builder::Builder) makes the records.
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

mod builder;
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
mod text;
mod trace_dat;
mod tracing_data;

use crate::event::Record;
pub use ctf::is_trace as is_ctf_trace;
pub use events::EVENTS;
pub use kind::{TRACE_FILE, not_a_trace};
pub use line::MAX_CPUS;
pub use open::{open, open_watched, read_bytes};
pub use ring::Ring;
use std::collections::BTreeMap;
use std::fmt;

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

/// How to record the events that are needed.
pub const EVENTS_HINT: &str =
    "record the events of 'perf sched record -a', or run 'trace-cmd record -e sched' (see docs/how-to/replay.md)";

/// Maximum number of characters in a task's name.
const COMM_LEN: usize = 15;

/// Reads the text of a recording.
///
/// # Errors
/// Fails on a line that is not an event, on a text without events, and if too many switches are
/// missing.
pub fn read(text: &str) -> Result<Recording, RecordingError> {
    text::read_text(text.as_bytes())
}

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;
