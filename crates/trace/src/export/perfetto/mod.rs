// SPDX-License-Identifier: GPL-2.0-only
//! Exports records in Perfetto's native trace format. The files consist of the protocol buffer
//! messages in [`proto`].
//!
//! The scheduler's events are written as ftrace events in compact bundles, one bundle per CPU. For
//! this reason, ui.perfetto.dev shows scheduling, wake-ups and thread states, and fills its SQL
//! tables, as for a trace of a real machine. Process trees and task_newtask events name processes
//! and threads.
//!
//! The exporter adds tracks that a trace of a real machine does not have:
//!
//! - the number of runnable tasks of each CPU and LLC, and the lengths of DSQs;
//! - callbacks and lock waits as slices (bars on a track);
//! - migrations by distance, and runs of load balancing.
//!
//! Times are in ns since the start of the run.
//!
//! The exporter writes while the run produces records. In memory it keeps only one bundle per CPU,
//! and the names of tasks.

pub(crate) mod proto;
mod sched;
mod tracks;

use crate::event::{Event, KTHREADD, Record, Sink, TaskState, dsq_name};
use crate::export::output::Output;
use crate::export::spans::{Edge, SpanKind, Spans};
use crate::follow::Follow;
use crate::header::{Header, Shared};
use crate::label::stem;
use prost::Message;
use proto::{
    CpuHotplug, Data, Ftrace, MigrateTask, Process, ProcessExit, ProcessFree, ProcessTree, SystemInfo, TaskNewtask,
    TaskRename, Thread, Utsname, Wakeup,
};
use sched::Bundle;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use tracks::{Track, Tracks};

#[cfg(test)]
mod tests;

/// Id of the packet sequence (a stream of packets with common state) to which all packets belong.
const SEQUENCE: u32 = 1;
const CLONE_THREAD: u64 = 0x10000;
/// The first pid of processes that exist only in the trace, each for a group of tasks with similar
/// names. It is above every real pid.
const KINDS: u32 = 1 << 22;

/// Writes a Perfetto trace. After an I/O error it writes nothing more. [`Perfetto::finish`] then
/// returns the error.
pub struct Perfetto<W: Write> {
    output: Output<W>,
    header: Header,
    follow: Follow,
    bundles: Vec<Bundle>,
    tracks: Tracks,
    spans: Spans,
    lock_names: HashMap<u32, String>,
    cpu_queues: Vec<Track>,
    /// For each LLC, its track and the number of runnable tasks on its CPUs.
    llc_queues: BTreeMap<u32, (Track, i64)>,
    /// Last value of each CPU's counter of runnable tasks.
    runnable: Vec<u32>,
    migrations: [Track; 4],
    callbacks: PerCpu,
    balance_runs: PerCpu,
    moved: Track,
    /// The group of tracks that contains the tracks of dispatch queues (DSQs), and the track of
    /// each DSQ.
    dsqs: (Track, HashMap<u64, Track>),
    machine: Track,
    /// For each group of tasks with similar names, the pid of the process that represents it.
    kinds: HashMap<String, u32>,
}

/// A group of tracks with one track per CPU. A track is created when it is first needed.
struct PerCpu {
    group: Track,
    tracks: HashMap<u32, Track>,
}

impl PerCpu {
    fn new(group: Track) -> PerCpu {
        PerCpu {
            group,
            tracks: HashMap::new(),
        }
    }

    fn track(&mut self, cpu: u32, tracks: &mut Tracks) -> Track {
        let track = self.tracks.entry(cpu);
        *track.or_insert_with(|| tracks.slices(self.group, format!("CPU {cpu}"), cpu))
    }
}

impl<W: Write> Perfetto<W> {
    /// Returns an exporter for the run that `header` describes. It writes to `to`.
    pub fn new(to: W, header: &Header) -> Perfetto<W> {
        let nr_cpus = header.cpus.len();
        let mut tracks = Tracks::default();
        tracks.begin(system(header));
        let queues = tracks.group(
            "Runnable tasks by CPU",
            "Tasks that run or wait on the CPU's runqueue (nr_running)",
        );
        let cpu_queues = (0..crate::number::index(nr_cpus))
            .map(|cpu| tracks.counter(queues, format!("CPU {cpu}"), "tasks", cpu))
            .collect();
        let llcs = tracks.group(
            "Runnable tasks by LLC",
            "Tasks that run or wait on the CPUs of a last-level cache",
        );
        let numbers: BTreeSet<u32> = header.cpus.iter().map(|cpu| cpu.llc).collect();
        let llc_queues = numbers
            .into_iter()
            .map(|llc| (llc, (tracks.counter(llcs, format!("LLC {llc}"), "tasks", llc), 0)))
            .collect();
        let dsqs = tracks.group("Dispatch queues", "Tasks on each DSQ");
        let callbacks = tracks.group(
            "Callbacks and lock waits",
            "The policy's callbacks with the number of executed instructions, and waits for locks",
        );
        let migrations = tracks.group(
            "Migrations",
            "Tasks moved so far, by the smallest part of the machine that contains both CPUs",
        );
        let migrations = Shared::ALL.map(|shared| {
            tracks.counter(
                migrations,
                format!("within {}", shared_name(shared)),
                "tasks",
                shared as u32,
            )
        });
        let balance_runs = tracks.group(
            "Load balancing",
            "Runs of load balancing and the number of tasks they moved",
        );
        let moved = tracks.counter(balance_runs, "tasks moved so far".into(), "tasks", u32::MAX >> 1);
        let machine = tracks.group(
            "Machine and policy",
            "CPU hotplug, loading and end of the policy, output of bpf_printk",
        );
        Perfetto {
            output: Output::new(to),
            header: header.clone(),
            follow: Follow::new(nr_cpus),
            bundles: (0..nr_cpus).map(|_| Bundle::default()).collect(),
            tracks,
            spans: Spans::default(),
            lock_names: HashMap::new(),
            cpu_queues,
            llc_queues,
            runnable: vec![0; nr_cpus],
            migrations,
            callbacks: PerCpu::new(callbacks),
            balance_runs: PerCpu::new(balance_runs),
            moved,
            dsqs: (dsqs, HashMap::new()),
            machine,
            kinds: HashMap::new(),
        }
    }

    /// Writes the remaining packets. `end` is the time at which the run ended.
    ///
    /// # Errors
    /// Returns the first I/O error since [`Perfetto::new`].
    pub fn finish(mut self, end: u64) -> io::Result<W> {
        self.spans(None);
        self.tracks.emit_changed_counters();
        self.tracks.instant(end, self.machine, "end of the run", None);
        for cpu in 0..self.bundles.len() {
            let packet = self.bundles[cpu].take(crate::number::index(cpu));
            self.tracks.packets.extend(packet);
        }
        self.write();
        self.output.finish()
    }

    /// Writes the collected packets.
    fn write(&mut self) {
        const PACKET: u8 = 1 << 3 | 2;
        for packet in self.tracks.packets.drain(..) {
            self.output.bytes.push(PACKET);
            let len = packet.encoded_len();
            prost::encoding::encode_varint(len as u64, &mut self.output.bytes);
            packet.encode_raw(&mut self.output.bytes);
        }
        self.output.write_if_full();
    }

    /// Adds the span of time that a record describes (a callback or a wait for a lock). If `record`
    /// is `None`, emits the last spans.
    fn spans(&mut self, record: Option<&Record>) {
        let Perfetto {
            spans,
            tracks,
            callbacks,
            header,
            lock_names,
            ..
        } = self;
        let mut emit = |time, cpu, edge| {
            let track = callbacks.track(cpu, tracks);
            match edge {
                Edge::End => tracks.end_slice(time, track),
                Edge::Begin(SpanKind::Callback { op, insns }) => {
                    let name = header.ops.get(usize::from(op)).map_or("callback", String::as_str);
                    tracks.begin_slice(time, track, name, Some(("instructions", u64::from(insns))));
                }
                Edge::Begin(SpanKind::LockWait { lock }) => {
                    let name = lock_names.get(&lock).map_or("wait for a lock", String::as_str);
                    tracks.begin_slice(time, track, name, None);
                }
            }
        };
        match record {
            Some(record) => spans.add(record, &mut emit),
            None => spans.finish(&mut emit),
        }
    }

    /// Updates the counters of runnable tasks on the CPUs that the last record changed.
    fn queues(&mut self, time: u64) {
        for &cpu in self.follow.changed() {
            let runnable = self.follow.runnable(cpu);
            let cpu = cpu as usize;
            let by = i64::from(runnable) - i64::from(self.runnable[cpu]);
            self.runnable[cpu] = runnable;
            self.tracks.set(time, self.cpu_queues[cpu], i64::from(runnable));
            if let Some((track, tasks)) = self.llc_queues.get_mut(&self.header.cpus[cpu].llc) {
                *tasks += by;
                self.tracks.set(time, *track, *tasks);
            }
        }
    }

    /// Adds an ftrace event to the bundle of its CPU.
    fn ftrace(&mut self, record: &Record, event: Ftrace) {
        let current = self.follow.current(record.cpu);
        self.bundles[record.cpu as usize].event(record.time, current, event);
    }

    /// Exports one record.
    fn add(&mut self, record: &Record) {
        let &Record {
            time, cpu, ref event, ..
        } = record;
        match *event {
            Event::Switch { prev, prev_state, next } => {
                self.bundles[cpu as usize].switch(time, &mut self.follow, prev, prev_state, next);
                if prev_state == TaskState::Dead {
                    let task = self.follow.task(prev);
                    let free = ProcessFree {
                        comm: Some(task.comm.clone()),
                        pid: Some(prev.cast_signed()),
                        prio: Some(task.prio),
                    };
                    self.ftrace(record, Ftrace::SchedProcessFree(free));
                }
            }
            Event::Waking { pid, waker } => {
                let by_interrupt = waker == 0 && self.follow.current(cpu) != 0;
                let task = self.follow.task(pid);
                self.bundles[cpu as usize].waking(time, pid, task, by_interrupt);
            }
            Event::Wakeup { pid, target, new } => {
                let task = self.follow.task(pid);
                let wakeup = Wakeup {
                    comm: Some(task.comm.clone()),
                    pid: Some(pid.cast_signed()),
                    prio: Some(task.prio),
                    target_cpu: Some(target.cast_signed()),
                };
                let event = if new {
                    Ftrace::SchedWakeupNew
                } else {
                    Ftrace::SchedWakeup
                };
                self.ftrace(record, event(wakeup));
            }
            Event::Migrate { pid, from, to, .. } => {
                let task = self.follow.task(pid);
                let migrate = MigrateTask {
                    comm: Some(task.comm.clone()),
                    pid: Some(pid.cast_signed()),
                    prio: Some(task.prio),
                    orig_cpu: Some(from.cast_signed()),
                    dest_cpu: Some(to.cast_signed()),
                };
                self.ftrace(record, Ftrace::SchedMigrateTask(migrate));
                let positions = &self.header.cpus;
                let shared = positions[from as usize].shared(positions[to as usize]);
                self.tracks.add(time, self.migrations[shared as usize], 1);
            }
            Event::TaskNew {
                pid,
                tgid,
                parent,
                ref comm,
                ..
            } => self.task_new(record, pid, tgid, parent, comm),
            Event::TaskRename { pid, ref comm } => {
                self.bundles.iter_mut().for_each(|bundle| bundle.forget(pid));
                let rename = TaskRename {
                    pid: Some(pid.cast_signed()),
                    oldcomm: Some(self.follow.task(pid).comm.clone()),
                    newcomm: Some(comm.clone()),
                };
                self.ftrace(record, Ftrace::TaskRename(rename));
            }
            Event::TaskExit { pid } => {
                let task = self.follow.task(pid);
                let exit = ProcessExit {
                    comm: Some(task.comm.clone()),
                    pid: Some(pid.cast_signed()),
                    tgid: Some(task.tgid.cast_signed()),
                    prio: Some(task.prio),
                };
                self.ftrace(record, Ftrace::SchedProcessExit(exit));
            }
            Event::Callback { .. } | Event::LockWait { .. } => self.spans(Some(record)),
            Event::LockName { lock, ref name } => {
                self.lock_names.insert(lock, format!("wait: {name}"));
            }
            Event::DsqLength { dsq, nr } => {
                let tracks = &mut self.tracks;
                let track = self.dsqs.1.entry(dsq);
                let track =
                    *track.or_insert_with(|| tracks.counter(self.dsqs.0, dsq_name(dsq), "tasks", dsq_rank(dsq)));
                self.tracks.set(time, track, i64::from(nr));
            }
            Event::Balance { moved } => {
                let track = self.balance_runs.track(cpu, &mut self.tracks);
                self.tracks
                    .instant(time, track, "balance", Some(("moved", u64::from(moved))));
                self.tracks.add(time, self.moved, i64::from(moved));
            }
            Event::Hotplug { online } => {
                let hotplug = CpuHotplug {
                    affected_cpu: Some(cpu.cast_signed()),
                    status: Some(i32::from(online)),
                };
                self.ftrace(record, Ftrace::SchedCpuHotplug(hotplug));
                let name = format!("CPU {cpu} {}", if online { "online" } else { "offline" });
                self.tracks.instant(time, self.machine, &name, None);
            }
            Event::Policy { loaded } => {
                let name = if loaded { "policy loaded" } else { "policy ended" };
                self.tracks.instant(time, self.machine, name, None);
            }
            Event::Printk { ref text } => self.tracks.instant_with_text(time, self.machine, text.trim_end()),
            Event::Prio { .. }
            | Event::Overhead { .. }
            | Event::Ipi { .. }
            | Event::Slowed { .. }
            | Event::Done { .. }
            | Event::Phase { .. } => {}
        }
        self.follow.add(record);
        self.queues(time);
        if self.bundles[cpu as usize].is_full() {
            let packet = self.bundles[cpu as usize].take(cpu);
            self.tracks.packets.extend(packet);
        }
        if self.tracks.packets.len() >= 256 {
            self.write();
        }
    }

    /// Adds the process and thread of a new task.
    fn task_new(&mut self, record: &Record, pid: u32, tgid: u32, parent: u32, comm: &str) {
        self.bundles.iter_mut().for_each(|bundle| bundle.forget(pid));
        let parent = if parent == KTHREADD { 0 } else { parent };
        let process = |pid: u32, name: &str| Process {
            pid: Some(pid.cast_signed()),
            ppid: Some(parent.cast_signed()),
            cmdline: vec![name.to_owned()],
        };
        let mut tree = ProcessTree::default();
        let mut tgid = tgid;
        // All tasks of a simulated workload belong to process 1. They are grouped into processes by
        // name, so that each group has its own colour. The processes of recordings of real machines
        // (hz is 0) are not changed.
        if tgid == 1 && self.header.hz > 0 {
            let next = KINDS + crate::number::index(self.kinds.len());
            let kind = stem(comm);
            tgid = *self.kinds.entry(kind.to_owned()).or_insert_with(|| {
                tree.processes.push(process(next, kind));
                next
            });
        } else {
            if parent != 0 {
                let new = TaskNewtask {
                    pid: Some(pid.cast_signed()),
                    comm: Some(comm.to_owned()),
                    clone_flags: Some(if tgid == pid { 0 } else { CLONE_THREAD }),
                };
                self.ftrace(record, Ftrace::TaskNewtask(new));
            }
            if tgid == pid {
                tree.processes.push(process(pid, comm));
            }
        }
        tree.threads.push(Thread {
            tid: Some(pid.cast_signed()),
            name: Some(comm.to_owned()),
            tgid: Some(tgid.cast_signed()),
        });
        self.tracks.packet(record.time, Data::ProcessTree(tree));
    }
}

/// Returns the position of a DSQ's track within its group. The policy's DSQs come first, ordered by
/// id. Global, local and bypass DSQs follow.
fn dsq_rank(dsq: u64) -> u32 {
    const POLICY: u64 = 1 << 24;
    let rank = match dsq >> 63 {
        0 => dsq.min(POLICY - 1),
        _ => (dsq & 7) * POLICY + (dsq >> 8) % POLICY,
    };
    u32::try_from(rank).unwrap_or(u32::MAX)
}

fn shared_name(shared: Shared) -> &'static str {
    match shared {
        Shared::Core => "a core",
        Shared::Llc => "an LLC",
        Shared::Node => "a node",
        Shared::Machine => "the machine",
    }
}

fn system(header: &Header) -> Data {
    Data::SystemInfo(SystemInfo {
        // Readers of the trace need the kernel release to decode task states.
        utsname: Some(Utsname {
            sysname: "Linux".to_owned(),
            version: format!("{} under {}", header.policy, header.workload),
            release: "7.2.0".to_owned(),
            machine: "x86_64".to_owned(),
        }),
        hz: i64::from(header.hz),
        tracing_service_version: concat!("windtunnel ", env!("CARGO_PKG_VERSION")).to_owned(),
        num_cpus: crate::number::index(header.cpus.len()),
        machine_name: header.machine.clone(),
    })
}

impl<W: Write> Sink for Perfetto<W> {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
