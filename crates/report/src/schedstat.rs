// SPDX-License-Identifier: GPL-2.0-only
//! Prints a text in the format of `/proc/schedstat` (version 17,
//! Documentation/scheduler/sched-stats.rst), computed from a trace.
//!
//! Each CPU has a line with these numbers:
//!
//! 1. calls of sched_yield(), and a field that is always 0;
//! 2. calls of schedule(), and those of them that left the CPU idle;
//! 3. calls of try_to_wake_up() by this CPU, and those of them that woke a task on this CPU;
//! 4. time in ns that tasks ran on this CPU, and time that they waited on this CPU;
//! 5. number of times that a task got this CPU.
//!
//! Below this line, each scheduling domain of the CPU has a line, from SMT to NUMA. Field 43 of
//! this line is the number of wake-ups by this CPU that chose another CPU of the domain.
//!
//! A trace has no information about yields and load balancing, so these fields are `-`. Calls of
//! schedule() are counted only if they switched tasks.

use std::fmt::Write;
use trace::{ByNumber, CpuPosition, Event, Follow, Record, Shared, Sink};

/// Numbers of fields about load balancing in a domain's line: those before the field with wake-ups,
/// and those after it.
const BALANCING: (usize, usize) = (42, 2);

#[derive(Clone, Default)]
struct Cpu {
    schedules: u64,
    idles: u64,
    wakeups: u64,
    local: u64,
    /// Number of wake-ups of tasks on other CPUs. The index is the smallest part of the machine
    /// that contains the waker's CPU and the other CPU.
    remote: [u64; 4],
    ran_ns: u64,
    waited_ns: u64,
    slices: u64,
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// The CPU on which the task waits, and the time at which the wait began.
    waits: Option<(u32, u64)>,
    /// CPU that is waking the task.
    waker: Option<u32>,
}

/// The sink (consumer of records) that counts the fields of schedstat.
pub struct Schedstat {
    positions: Vec<CpuPosition>,
    cpus: Vec<Cpu>,
    tasks: ByNumber<Task>,
    follow: Follow,
}

impl Schedstat {
    pub fn new(positions: &[CpuPosition]) -> Schedstat {
        Schedstat {
            positions: positions.to_vec(),
            cpus: vec![Cpu::default(); positions.len()],
            tasks: ByNumber::new(),
            follow: Follow::new(positions.len()),
        }
    }

    fn add(&mut self, record: &Record) {
        let &Record { cpu, ref event, .. } = record;
        let time = record.local_time();
        if let Some((_, Some(since))) = self.follow.add(record).turn {
            self.charge_running(cpu, time.saturating_sub(since));
        }
        match *event {
            Event::Waking { pid, .. } => self.tasks.entry(pid).waker = Some(cpu),
            Event::Wakeup { pid, target, new } => {
                let task = self.tasks.entry(pid);
                let waker = task.waker.take().unwrap_or(cpu);
                if task.waits.is_none() {
                    task.waits = Some((target, time));
                }
                if !new {
                    let shared = self.positions[waker as usize].shared(self.positions[target as usize]);
                    let waker_cpu = &mut self.cpus[waker as usize];
                    waker_cpu.wakeups += 1;
                    match waker == target {
                        true => waker_cpu.local += 1,
                        false => waker_cpu.remote[shared as usize] += 1,
                    }
                }
            }
            Event::Migrate { pid, to, .. } => {
                if let Some((from, since)) = self.tasks.entry(pid).waits.replace((to, time)) {
                    let waited_ns = &mut self.cpus[from as usize].waited_ns;
                    *waited_ns = waited_ns.saturating_add(time.saturating_sub(since));
                } else {
                    self.tasks.entry(pid).waits = None;
                }
            }
            Event::Switch { prev, prev_state, next } if prev != next => {
                if prev != 0 && prev_state == trace::TaskState::Running {
                    self.tasks.entry(prev).waits = Some((cpu, time));
                }
                let stats = &mut self.cpus[cpu as usize];
                stats.schedules += 1;
                stats.idles += u64::from(next == 0);
                if next != 0 {
                    stats.slices += 1;
                    if let Some((_, since)) = self.tasks.entry(next).waits.take() {
                        stats.waited_ns = stats.waited_ns.saturating_add(time.saturating_sub(since));
                    }
                }
            }
            _ => {}
        }
    }

    fn charge_running(&mut self, cpu: u32, ns: u64) {
        let ran_ns = &mut self.cpus[cpu as usize].ran_ns;
        *ran_ns = ran_ns.saturating_add(ns);
    }

    /// Returns the scheduling domains of a CPU. Each entry has the domain's name, the part of the
    /// machine whose wake-ups count in this domain, and the domain's CPUs.
    fn domains(&self, cpu: usize) -> Vec<(&'static str, Shared, Vec<usize>)> {
        let names = ["SMT", "MC", "PKG", "NUMA"];
        let mut domains: Vec<(&'static str, Shared, Vec<usize>)> = Vec::new();
        for (name, level) in names.into_iter().zip(Shared::ALL) {
            let within = |&other: &usize| self.positions[cpu].shared(self.positions[other]) as usize <= level as usize;
            let span: Vec<usize> = (0..self.positions.len()).filter(within).collect();
            // The kernel has no domain with the same CPUs as the domain below it.
            if span.len() > domains.last().map_or(1, |(_, _, below)| below.len()) {
                domains.push((name, level, span));
            }
        }
        domains
    }

    /// Returns the text for a trace that ended at `end`. `hz` is the number of ticks per second, or
    /// 0 if it is unknown.
    pub fn finish(mut self, end: u64, hz: u32) -> String {
        for (pid, since) in self.follow.running().collect::<Vec<_>>() {
            let cpu = self.follow.task(pid).cpu;
            self.charge_running(cpu, end.saturating_sub(since));
        }
        for (_, task) in std::mem::take(&mut self.tasks).into_sorted() {
            if let Some((cpu, since)) = task.waits {
                let waited_ns = &mut self.cpus[cpu as usize].waited_ns;
                *waited_ns = waited_ns.saturating_add(end.saturating_sub(since));
            }
        }
        let jiffies = match hz {
            0 => "-".to_owned(),
            _ => (u128::from(end) * u128::from(hz) / 1_000_000_000).to_string(),
        };
        let mut out = format!("version 17\ntimestamp {jiffies}\n");
        for (number, cpu) in self.cpus.iter().enumerate() {
            let Cpu {
                schedules,
                idles,
                wakeups,
                local,
                remote,
                ran_ns,
                waited_ns,
                slices,
                ..
            } = cpu;
            let _ = writeln!(
                out,
                "cpu{number} - 0 {schedules} {idles} {wakeups} {local} {ran_ns} {waited_ns} {slices}"
            );
            let mut below = 0;
            for (index, (name, level, span)) in self.domains(number).into_iter().enumerate() {
                let woken: u64 = remote[below..=level as usize].iter().sum();
                below = level as usize + 1;
                let _ = writeln!(
                    out,
                    "domain{index} {name} {}{} {woken}{}",
                    mask(&span, self.positions.len()),
                    " -".repeat(BALANCING.0),
                    " -".repeat(BALANCING.1)
                );
            }
        }
        out
    }
}

/// Formats a set of CPUs like the kernel's bitmaps: hexadecimal words of 32 bits, highest word
/// first. `nr_cpus` is the size of the bitmap.
fn mask(cpus: &[usize], nr_cpus: usize) -> String {
    let mut words = vec![0_u32; nr_cpus.div_ceil(32)];
    for cpu in cpus {
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let digits = nr_cpus.saturating_sub(1) % 32 / 4 + 1;
    let mut text = String::new();
    for (index, word) in words.iter().rev().enumerate() {
        let _ = match index {
            0 => write!(text, "{word:0digits$x}"),
            _ => write!(text, ",{word:08x}"),
        };
    }
    text
}

impl Sink for Schedstat {
    fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.add(record));
    }
}
