// SPDX-License-Identifier: GPL-2.0-only
//! What `/proc/schedstat` would have counted (version 17, Documentation/scheduler/sched-stats.rst), as far as a trace tells.
//!
//! A line a CPU: calls of sched_yield(), 0, schedule(), of those that left the CPU idle, try_to_wake_up() by this CPU, of
//! those to this CPU, ns that tasks ran here, ns that they waited here, times that one got the CPU. A line for each
//! scheduling domain of the CPU below it, from SMT to NUMA, with the wake-ups from here that went to another CPU of it
//! (field 43). What a trace does not tell is `-`: yields, balancing. schedule() counts where it switched.

use std::fmt::Write;
use trace::{ByNumber, Event, Place, Record, Shared, Sink};

/// Fields of a domain's line that are about balancing, before and after the one about wake-ups.
const BALANCING: (usize, usize) = (42, 2);

#[derive(Clone, Default)]
struct Cpu {
    schedules: u64,
    idles: u64,
    wakeups: u64,
    local: u64,
    /// To other CPUs, by the nearest thing shared.
    remote: [u64; 4],
    ran_ns: u64,
    waited_ns: u64,
    slices: u64,
    /// Who runs, and since when.
    running: (u32, u64),
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// Where it waits, and since when.
    waits: Option<(u32, u64)>,
    /// Who is waking it.
    waker: Option<u32>,
}

/// The sink that counts.
pub struct Schedstat {
    places: Vec<Place>,
    cpus: Vec<Cpu>,
    tasks: ByNumber<Task>,
}

impl Schedstat {
    pub fn new(places: &[Place]) -> Schedstat {
        Schedstat {
            places: places.to_vec(),
            cpus: vec![Cpu::default(); places.len()],
            tasks: ByNumber::new(),
        }
    }

    fn add(&mut self, record: &Record) {
        let &Record { time, cpu, ref event } = record;
        match *event {
            Event::Waking { pid, .. } => self.tasks.entry(pid).waker = Some(cpu),
            Event::Wakeup { pid, target, new } => {
                let task = self.tasks.entry(pid);
                let waker = task.waker.take().unwrap_or(cpu);
                if task.waits.is_none() {
                    task.waits = Some((target, time));
                }
                if !new {
                    let shared = self.places[waker as usize].shared(self.places[target as usize]);
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
                self.leaves(time, cpu);
                if prev != 0 && prev_state == trace::TaskState::Running {
                    self.tasks.entry(prev).waits = Some((cpu, time));
                }
                let it = &mut self.cpus[cpu as usize];
                it.schedules += 1;
                it.idles += u64::from(next == 0);
                it.running = (next, time);
                if next != 0 {
                    it.slices += 1;
                    if let Some((_, since)) = self.tasks.entry(next).waits.take() {
                        it.waited_ns = it.waited_ns.saturating_add(time.saturating_sub(since));
                    }
                }
            }
            _ => {}
        }
    }

    fn leaves(&mut self, time: u64, cpu: u32) {
        let it = &mut self.cpus[cpu as usize];
        let (pid, since) = it.running;
        if pid != 0 {
            it.ran_ns = it.ran_ns.saturating_add(time.saturating_sub(since));
        }
    }

    /// The domains of a CPU: name, which wake-ups are its own, and the CPUs.
    fn domains(&self, cpu: usize) -> Vec<(&'static str, Shared, Vec<usize>)> {
        let names = ["SMT", "MC", "PKG", "NUMA"];
        let mut domains: Vec<(&'static str, Shared, Vec<usize>)> = Vec::new();
        for (name, level) in names.into_iter().zip(Shared::ALL) {
            let within = |&other: &usize| self.places[cpu].shared(self.places[other]) as usize <= level as usize;
            let span: Vec<usize> = (0..self.places.len()).filter(within).collect();
            // One that has no more CPUs than the one below is none.
            if span.len() > domains.last().map_or(1, |(_, _, below)| below.len()) {
                domains.push((name, level, span));
            }
        }
        domains
    }

    /// The text of a trace that ended at `end`, on a machine with `hz` ticks a second (0: not known).
    pub fn finish(mut self, end: u64, hz: u32) -> String {
        for cpu in 0..self.cpus.len() as u32 {
            self.leaves(end, cpu);
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
                    mask(&span, self.places.len()),
                    " -".repeat(BALANCING.0),
                    " -".repeat(BALANCING.1)
                );
            }
        }
        out
    }
}

/// CPUs as the kernel prints bitmaps: hexadecimal words of 32 from high to low.
fn mask(cpus: &[usize], of: usize) -> String {
    let mut words = vec![0_u32; of.div_ceil(32)];
    for cpu in cpus {
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let digits = of.saturating_sub(1) % 32 / 4 + 1;
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
