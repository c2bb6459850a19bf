// SPDX-License-Identifier: GPL-2.0-only
//! Exports records in the text format of ftrace.
//!
//! The text has the format of tracefs' `trace` file and of `trace-cmd report -R`.
//! [`crate::recording`] can read it. It contains these events:
//!
//! - sched_switch, sched_waking, sched_wakeup, sched_wakeup_new, sched_migrate_task;
//! - sched_process_fork, sched_process_exit, task_rename, bpf_trace_printk.
//!
//! Other records have no scheduler tracepoint and are left out.
//!
//! Times have nine digits after the point. Each event is one line, because control characters in
//! names and messages are escaped.

use crate::escape;
use crate::event::{Event, KTHREADD, Record, Sink, TaskState};
use crate::export::output::Output;
use crate::follow::Follow;
use std::io::{self, Write};

const HEADER: &str = "\
# tracer: nop
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

/// Writes the records as text in ftrace's format. After an I/O error it writes nothing more, and
/// [`Ftrace::finish`] returns the error.
pub struct Ftrace<W: Write> {
    output: Output<W>,
    follow: Follow,
}

impl<W: Write> Ftrace<W> {
    /// Returns an exporter for a machine with `nr_cpus` CPUs. It writes to `to`.
    pub fn new(to: W, nr_cpus: usize) -> Ftrace<W> {
        let mut output = Output::new(to);
        output.bytes.extend_from_slice(HEADER.as_bytes());
        Ftrace {
            output,
            follow: Follow::new(nr_cpus),
        }
    }

    /// Writes the remaining text and returns the underlying writer.
    ///
    /// # Errors
    /// Returns the first I/O error since [`Ftrace::new`].
    pub fn finish(self) -> io::Result<W> {
        self.output.finish()
    }

    /// Formats a task as `comm=a pid=1 prio=120`, with a prefix before each key.
    fn task(&mut self, prefix: &str, pid: u32) -> String {
        let task = self.follow.task(pid);
        let (comm, prio) = if pid == 0 {
            ("swapper", 120)
        } else {
            (task.comm.as_str(), task.prio)
        };
        let comm = escape::line(comm);
        format!("{prefix}comm={comm} {prefix}pid={pid} {prefix}prio={prio}")
    }

    /// Returns the name and the fields of the tracepoint for a record, or `None` if there is no
    /// such tracepoint. Must be called before the record is added to `follow` (the state of tasks
    /// and CPUs), because the fields describe the state before the event.
    fn format_event(&mut self, record: &Record) -> Option<(&'static str, String)> {
        Some(match record.event {
            Event::Switch { prev, prev_state, next } => {
                let state = match prev_state {
                    TaskState::Running => "R",
                    TaskState::Interruptible => "S",
                    TaskState::Uninterruptible => "D",
                    TaskState::Dead => "X",
                };
                let prev = self.task("prev_", prev);
                let next = self.task("next_", next);
                ("sched_switch", format!("{prev} prev_state={state} ==> {next}"))
            }
            Event::Waking { pid, .. } => {
                let cpu = self.follow.task(pid).cpu;
                ("sched_waking", format!("{} target_cpu={cpu:03}", self.task("", pid)))
            }
            Event::Wakeup { pid, target, new } => {
                let name = if new { "sched_wakeup_new" } else { "sched_wakeup" };
                (name, format!("{} target_cpu={target:03}", self.task("", pid)))
            }
            Event::Migrate { pid, from, to, .. } => {
                let task = self.task("", pid);
                ("sched_migrate_task", format!("{task} orig_cpu={from} dest_cpu={to}"))
            }
            // Tasks with these parents existed before the trace began, so no fork was traced.
            Event::TaskNew {
                parent: 0 | KTHREADD, ..
            } => return None,
            Event::TaskNew {
                pid, parent, ref comm, ..
            } => {
                let parent_comm = escape::line(&self.follow.task(parent).comm);
                let comm = escape::line(comm);
                let fields = format!("comm={parent_comm} pid={parent} child_comm={comm} child_pid={pid}");
                ("sched_process_fork", fields)
            }
            Event::TaskExit { pid } => ("sched_process_exit", self.task("", pid)),
            Event::TaskRename { pid, ref comm } => {
                let (old, new) = (escape::line(&self.follow.task(pid).comm), escape::line(comm));
                let fields = format!("pid={pid} oldcomm={old} newcomm={new} oom_score_adj=0");
                ("task_rename", fields)
            }
            Event::Printk { ref text } => printed(text),
            _ => return None,
        })
    }

    /// Writes the line of a record, if the record has a tracepoint.
    fn write_event(&mut self, record: &Record) {
        if let Some((name, fields)) = self.format_event(record) {
            write_line(&mut self.output.bytes, &mut self.follow, record, name, &fields);
        }
    }
}

/// Returns the name and the fields of the tracepoint for a line of bpf_printk.
pub(super) fn printed(text: &str) -> (&'static str, String) {
    ("bpf_trace_printk", escape::line(text.trim_end()).into_owned())
}

/// Appends the line of a tracepoint: the task that runs, the CPU, the time, and the event.
pub(super) fn write_line(to: &mut Vec<u8>, follow: &mut Follow, record: &Record, name: &str, fields: &str) {
    let &Record {
        time, cpu, ref event, ..
    } = record;
    let current = follow.current(cpu);
    let comm = escape::line(match current {
        0 => "<idle>",
        _ => &follow.task(current).comm,
    });
    // If there is no waker, an interrupt handler has woken the task.
    let interrupt = if matches!(event, Event::Waking { waker: 0, .. }) {
        'h'
    } else {
        '.'
    };
    let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
    writeln!(
        to,
        "{comm:>16}-{current:<7} [{cpu:03}] d.{interrupt}2. {seconds:5}.{ns:09}: {name}: {fields}"
    )
    .expect("writing to memory cannot fail");
}

impl<W: Write> Sink for Ftrace<W> {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.write_event(record);
            self.follow.add(record);
            self.output.write_if_full();
        }
    }
}
