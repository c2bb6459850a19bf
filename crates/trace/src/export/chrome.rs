// SPDX-License-Identifier: GPL-2.0-only
//! The Trace Event Format: JSON for chrome://tracing, Perfetto, Speedscope and whatever else reads it.
//!
//! CPUs are threads of one process, what runs there its slices, wake-ups arrows between them; callbacks and waits for locks
//! are the slices of a second process, runnable tasks by CPU and lengths of DSQs the counters of a third. Times are us with
//! three decimals.

use crate::event::{Event, Record, Sink, dsq_name};
use crate::export::output::Output;
use crate::export::spans::{Edge, Spans, What};
use crate::follow::Follow;
use crate::header::Header;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

/// The processes.
const CPUS: u32 = 1;
const CALLBACKS: u32 = 2;
const QUEUES: u32 = 3;

/// ns as us.
struct Us(u64);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes the JSON. After an I/O error it writes nothing more and [`Chrome::finish`] tells the error.
pub struct Chrome<W: Write> {
    output: Output<W>,
    header: Header,
    follow: Follow,
    spans: Spans,
    /// Numbers of arrows to tasks that were woken and did not run yet.
    arrows: HashMap<u32, u64>,
    nr_arrows: u64,
    /// As JSON.
    names: HashMap<u32, String>,
    lock_names: HashMap<u32, String>,
}

impl<W: Write> Chrome<W> {
    pub fn new(to: W, header: &Header) -> Chrome<W> {
        let nr_cpus = header.cpus.len();
        let mut chrome = Chrome {
            output: Output::new(to),
            header: header.clone(),
            follow: Follow::new(nr_cpus),
            spans: Spans::default(),
            arrows: HashMap::new(),
            nr_arrows: 0,
            names: HashMap::new(),
            lock_names: HashMap::new(),
        };
        let run = quoted(&format!("{} under {}", header.policy, header.workload));
        let machine = quoted(&header.machine);
        let start = format!(
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"run\":{run},\"machine\":{machine}}},\"traceEvents\":[\n"
        );
        chrome.output.bytes.extend_from_slice(start.as_bytes());
        for (pid, name) in [
            (CPUS, "CPUs"),
            (CALLBACKS, "Callbacks and lock waits"),
            (QUEUES, "Queues"),
        ] {
            chrome.meta(format_args!(
                "\"process_name\",\"pid\":{pid},\"args\":{{\"name\":\"{name}\"}}"
            ));
            chrome.meta(format_args!(
                "\"process_sort_index\",\"pid\":{pid},\"args\":{{\"sort_index\":{pid}}}"
            ));
        }
        for (pid, cpu) in [CPUS, CALLBACKS]
            .into_iter()
            .flat_map(|pid| (0..nr_cpus).map(move |cpu| (pid, cpu)))
        {
            chrome.meta(format_args!(
                "\"thread_name\",\"pid\":{pid},\"tid\":{cpu},\"args\":{{\"name\":\"CPU {cpu}\"}}"
            ));
        }
        chrome
    }

    /// Writes what is left of a run that ended at `end` and returns what it was written to.
    ///
    /// # Errors
    /// The first I/O error since [`Chrome::new`].
    pub fn finish(mut self, end: u64) -> io::Result<W> {
        self.spans(None);
        for cpu in 0..self.header.cpus.len() as u32 {
            self.leaves(end, cpu);
        }
        // JSON has no comma behind the last.
        let ended = format!(
            "{{\"ph\":\"i\",\"name\":\"end of the run\",\"s\":\"g\",\"pid\":1,\"tid\":0,\"ts\":{}}}\n]}}\n",
            Us(end)
        );
        self.output.bytes.extend_from_slice(ended.as_bytes());
        self.output.finish()
    }

    fn write(&mut self, event: fmt::Arguments) {
        writeln!(self.output.bytes, "{event},").expect("memory takes it");
        self.output.pass();
    }

    fn meta(&mut self, rest: fmt::Arguments) {
        self.write(format_args!("{{\"ph\":\"M\",\"name\":{rest}}}"));
    }

    /// The slice of the task that runs on a CPU ends.
    fn leaves(&mut self, time: u64, cpu: u32) {
        if self.follow.current(cpu) != 0 {
            self.write(format_args!(
                "{{\"ph\":\"E\",\"pid\":{CPUS},\"tid\":{cpu},\"ts\":{}}}",
                Us(time)
            ));
        }
    }

    /// A task's slice on a CPU begins.
    fn comes(&mut self, time: u64, cpu: u32, pid: u32) {
        if pid == 0 {
            return;
        }
        let task = self.follow.task(pid);
        let prio = task.prio;
        let name = self.names.entry(pid).or_insert_with(|| quoted(&task.comm));
        writeln!(
            self.output.bytes,
            "{{\"ph\":\"B\",\"name\":{name},\"pid\":{CPUS},\"tid\":{cpu},\"ts\":{},\"args\":{{\"pid\":{pid},\"prio\":{prio}}}}},",
            Us(time)
        )
        .expect("memory takes it");
        self.output.pass();
    }

    fn arrow(&mut self, time: u64, cpu: u32, id: u64, begins: bool) {
        let ph = if begins { "\"s\"" } else { "\"f\",\"bp\":\"e\"" };
        self.write(format_args!(
            "{{\"ph\":{ph},\"name\":\"wake-up\",\"cat\":\"wake-up\",\"id\":{id},\"pid\":{CPUS},\"tid\":{cpu},\"ts\":{}}}",
            Us(time)
        ));
    }

    fn instant(&mut self, time: u64, cpu: u32, name: &str) {
        let name = quoted(name);
        self.write(format_args!(
            "{{\"ph\":\"i\",\"name\":{name},\"s\":\"t\",\"pid\":{CPUS},\"tid\":{cpu},\"ts\":{}}}",
            Us(time)
        ));
    }

    fn counter(&mut self, time: u64, name: &str, value: u32) {
        self.write(format_args!(
            "{{\"ph\":\"C\",\"name\":\"{name}\",\"pid\":{QUEUES},\"ts\":{},\"args\":{{\"tasks\":{value}}}}}",
            Us(time)
        ));
    }

    fn spans(&mut self, record: Option<&Record>) {
        let mut spans = std::mem::take(&mut self.spans);
        let mut tell = |time, cpu, edge| {
            let ts = Us(time);
            match edge {
                Edge::End => self.write(format_args!(
                    "{{\"ph\":\"E\",\"pid\":{CALLBACKS},\"tid\":{cpu},\"ts\":{ts}}}"
                )),
                Edge::Begin(What::Callback { op, insns }) => {
                    let name = self.header.ops.get(usize::from(op));
                    let name = quoted(name.map_or("callback", String::as_str));
                    self.write(format_args!(
                        "{{\"ph\":\"B\",\"name\":{name},\"pid\":{CALLBACKS},\"tid\":{cpu},\"ts\":{ts},\"args\":{{\"instructions\":{insns}}}}}"
                    ));
                }
                Edge::Begin(What::LockWait { lock }) => {
                    let name = self.lock_names.get(&lock).cloned();
                    let name = name.unwrap_or_else(|| "\"wait for a lock\"".to_owned());
                    self.write(format_args!(
                        "{{\"ph\":\"B\",\"name\":{name},\"pid\":{CALLBACKS},\"tid\":{cpu},\"ts\":{ts}}}"
                    ));
                }
            }
        };
        match record {
            Some(record) => spans.add(record, &mut tell),
            None => spans.finish(&mut tell),
        }
        self.spans = spans;
    }

    fn add(&mut self, record: &Record) {
        let &Record { time, cpu, ref event } = record;
        match *event {
            Event::Switch { next, .. } => {
                self.leaves(time, cpu);
                self.comes(time, cpu, next);
                if let Some(id) = self.arrows.remove(&next) {
                    self.arrow(time, cpu, id, false);
                }
            }
            // An arrow begins in a slice.
            Event::Waking { pid, waker } if waker != 0 => {
                self.nr_arrows += 1;
                self.arrows.insert(pid, self.nr_arrows);
                self.arrow(time, cpu, self.nr_arrows, true);
            }
            Event::TaskNew { pid, .. } | Event::TaskRename { pid, .. } => {
                self.names.remove(&pid);
            }
            Event::Callback { .. } | Event::LockWait { .. } => self.spans(Some(record)),
            Event::LockName { lock, ref name } => {
                self.lock_names.insert(lock, quoted(&format!("wait: {name}")));
            }
            Event::DsqLength { dsq, nr } => self.counter(time, &dsq_name(dsq), nr),
            Event::Balance { moved } => self.instant(time, cpu, &format!("balance: {moved} moved")),
            Event::Hotplug { online } => self.instant(time, cpu, if online { "online" } else { "offline" }),
            Event::Policy { loaded } => self.instant(time, cpu, if loaded { "policy loaded" } else { "policy ended" }),
            Event::Printk { ref text } => self.instant(time, cpu, text.trim_end()),
            _ => {}
        }
        self.follow.add(record);
        let mut told = None;
        for index in 0..self.follow.changed().len() {
            let cpu = self.follow.changed()[index];
            if told.replace(cpu) != Some(cpu) {
                let runnable = self.follow.runnable(cpu);
                self.counter(time, &format!("runnable on CPU {cpu}"), runnable);
            }
        }
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
