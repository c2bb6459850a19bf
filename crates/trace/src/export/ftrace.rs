// SPDX-License-Identifier: GPL-2.0-only
//! The text that tracefs' `trace` and `trace-cmd report -R` print of the scheduler's events; [`crate::recording`] reads it.
//!
//! Written are sched_switch, sched_waking, sched_wakeup, sched_wakeup_new, sched_migrate_task, sched_process_fork,
//! sched_process_exit, task_rename and bpf_trace_printk. Other records have no tracepoint of the scheduler. Times have nine
//! digits after the point. An event is a line: control characters of names and messages are escaped.

use crate::escape;
use crate::event::{Event, Record, Sink, TaskState};
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

/// Writes the text. After an I/O error it writes nothing more and [`Ftrace::finish`] tells the error.
pub struct Ftrace<W: Write> {
    output: Output<W>,
    follow: Follow,
}

impl<W: Write> Ftrace<W> {
    pub fn new(to: W, nr_cpus: usize) -> Ftrace<W> {
        let mut output = Output::new(to);
        output.bytes.extend_from_slice(HEADER.as_bytes());
        Ftrace {
            output,
            follow: Follow::new(nr_cpus),
        }
    }

    /// Writes what is left and returns what it was written to.
    ///
    /// # Errors
    /// The first I/O error since [`Ftrace::new`].
    pub fn finish(self) -> io::Result<W> {
        self.output.finish()
    }

    /// `comm=a pid=1 prio=120`, each key with a prefix.
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

    fn said(&mut self, record: &Record) -> Option<(&'static str, String)> {
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
            // What was there before the trace began had no event there.
            Event::TaskNew { parent: 0, .. } => return None,
            Event::TaskNew {
                pid, parent, ref comm, ..
            } => {
                let parent_comm = escape::line(&self.follow.task(parent).comm);
                let comm = escape::line(comm);
                let said = format!("comm={parent_comm} pid={parent} child_comm={comm} child_pid={pid}");
                ("sched_process_fork", said)
            }
            Event::TaskExit { pid } => ("sched_process_exit", self.task("", pid)),
            Event::TaskRename { pid, ref comm } => {
                let (old, new) = (escape::line(&self.follow.task(pid).comm), escape::line(comm));
                let said = format!("pid={pid} oldcomm={old} newcomm={new} oom_score_adj=0");
                ("task_rename", said)
            }
            Event::Printk { ref text } => ("bpf_trace_printk", escape::line(text.trim_end()).into_owned()),
            _ => return None,
        })
    }

    fn line(&mut self, record: &Record) -> io::Result<()> {
        let Some((name, said)) = self.said(record) else {
            return Ok(());
        };
        let &Record { time, cpu, ref event } = record;
        let current = self.follow.current(cpu);
        let comm = escape::line(match current {
            0 => "<idle>",
            _ => &self.follow.task(current).comm,
        });
        // Who is woken by nobody is woken by an interrupt.
        let interrupt = if matches!(event, Event::Waking { waker: 0, .. }) {
            'h'
        } else {
            '.'
        };
        let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
        let to = &mut self.output.bytes;
        writeln!(
            to,
            "{comm:>16}-{current:<7} [{cpu:03}] d.{interrupt}2. {seconds:5}.{ns:09}: {name}: {said}"
        )
    }
}

impl<W: Write> Sink for Ftrace<W> {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            self.line(record).expect("memory takes it");
            self.follow.add(record);
            self.output.pass();
        }
    }
}
