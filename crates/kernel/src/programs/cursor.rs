// SPDX-License-Identifier: GPL-2.0-only
//! Where a task is in its program.

use crate::sched::task::State;
use crate::simulation::chance::draw;
use crate::simulation::rng::Rng;
use std::collections::BTreeMap;
use workload::{Dist, Op};

/// Latency and speed of the block device behind [`Op::Io`]: a data-centre NVMe drive's write cache.
pub(super) const IO_LATENCY_NS: u64 = 80_000;

pub(super) const IO_BYTES_PER_US: u64 = 2_000;

/// Memory written per us of [`Op::Mem`] at capacity 1024.
pub(super) const MEM_BYTES_PER_US: u64 = 10_000;

/// Steps in a row without time passing after which a program is taken for endless.
pub(super) const ENDLESS: u32 = 1_000_000;

/// `Cursor::began` outside of a request.
pub(super) const NEVER: u64 = u64::MAX;

/// Where a task is in its program. What is used all the time stands first.
#[repr(C)]
pub struct Cursor {
    /// Work left, ns at capacity 1024 times 1024: slower CPUs take longer for it.
    pub(super) work: u64,
    /// CPU time left that does not depend on the CPU's speed, ns.
    pub(super) time: u64,
    /// What is to be reloaded into the caches before either goes on, ns.
    pub(super) reload: u64,
    /// When it was woken last; created, before that.
    pub(super) woken: u64,
    /// When the request at hand began, or NEVER.
    pub(super) began: u64,
    /// Number of its program.
    pub(super) program: u32,
    pub(super) pc: u32,
    pub(super) stage: u8,
    pub(super) counters: Box<[u64]>,
    pub(super) created: u64,
    /// Last expiry of each timer used.
    pub(super) timers: Vec<(u32, u64)>,
    /// Positions in `Dist::Trace` by step.
    pub(super) traces: BTreeMap<u32, u64>,
}

/// What the running task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Work was set; the CPU is kept.
    Work,
    Yield,
    /// The task sleeps (or, with `State::Dead`, has exited).
    Block(State),
}

impl Cursor {
    /// At the start of program number `program`, whose loops use `counters` counters.
    pub fn new(program: u32, counters: u32, now: u64) -> Cursor {
        Cursor {
            program,
            pc: 0,
            stage: 0,
            counters: vec![0; counters as usize].into(),
            work: 0,
            time: 0,
            reload: 0,
            created: now,
            began: NEVER,
            woken: now,
            timers: Vec::new(),
            traces: BTreeMap::new(),
        }
    }

    /// `ns` of CPU time were used on a CPU of `capacity`.
    pub fn consume(&mut self, ns: u64, capacity: u64) {
        let reload = ns.min(self.reload);
        self.reload -= reload;
        let ns = ns - reload;
        let time = ns.min(self.time);
        self.time -= time;
        self.work = self.work.saturating_sub((ns - time) * capacity);
    }

    /// CPU time left of the work at hand on a CPU of `capacity`, ns.
    #[inline]
    pub fn time_left(&self, capacity: u64) -> u64 {
        // Nearly every CPU: no division.
        let work = match capacity {
            1024 => self.work.div_ceil(1024),
            _ => self.work.div_ceil(capacity),
        };
        self.reload + self.time + work
    }

    pub fn work_done(&self) -> bool {
        self.work == 0 && self.time == 0 && self.reload == 0
    }

    /// Adds kernel time on the task's behalf, ns: system calls, fork, exec.
    pub(crate) fn add_time(&mut self, ns: u64) {
        self.time += ns;
    }

    /// Kernel time still to be spent.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Caches are to be reloaded for `ns` first; returns what was left to do of the reload before.
    pub(crate) fn reload(&mut self, ns: u64) -> u64 {
        std::mem::replace(&mut self.reload, ns)
    }

    pub(crate) fn reload_left(&self) -> u64 {
        self.reload
    }

    /// The task was woken at `now`.
    pub(crate) fn wake(&mut self, now: u64) {
        self.woken = now;
    }

    pub(super) fn done(&mut self) {
        self.pc += 1;
        self.stage = 0;
    }

    /// A step that is about the task's own computing alone. `None`: `op` is no such step; else whether time is to pass before
    /// the next one.
    #[inline]
    pub(super) fn compute(&mut self, op: &Op, rng: &mut Rng, syscall: u64) -> Option<bool> {
        match *op {
            Op::Run(ref dist) => {
                self.work += self.sample(dist, rng) * 1024;
            }
            Op::Mem { bytes } => {
                self.work += bytes * 1024 * 1000 / MEM_BYTES_PER_US;
            }
            Op::Runtime(ref dist) => {
                let ns = self.sample(dist, rng);
                self.time += ns;
                self.done();
                return Some(ns > 0 || self.work > 0);
            }
            Op::LoopInit { counter } => {
                self.counters[counter as usize] = 0;
                self.done();
                return Some(self.work > 0);
            }
            Op::LoopBack { counter, times, target } => {
                let again = times.is_none_or(|times| {
                    let count = &mut self.counters[counter as usize];
                    *count += 1;
                    *count < times
                });
                self.done();
                if again {
                    self.pc = target;
                }
                return Some(self.work > 0);
            }
            _ => return None,
        }
        self.done();
        if self.work == 0 {
            self.time += syscall;
        }
        Some(self.work > 0)
    }

    #[inline]
    pub(super) fn sample(&mut self, dist: &Dist, rng: &mut Rng) -> u64 {
        match dist {
            Dist::Fixed(value) => *value,
            Dist::Trace(_) => draw(dist, rng, self.traces.entry(self.pc).or_insert(0)),
            _ => draw(dist, rng, &mut 0),
        }
    }
}

/// Steps that only the trace tells of: like those of computing they happen at once.
pub(super) fn silent(op: &Op) -> bool {
    matches!(op, Op::Begin { .. } | Op::BeginWoken | Op::Done { .. } | Op::Phase(_))
}

/// When the timer expires next; `None` if it already has.
pub(super) fn timer_target(cursor: &mut Cursor, now: u64, timer: u32, period: u64, absolute: bool) -> Option<u64> {
    let at = match cursor.timers.iter().position(|&(id, _)| id == timer) {
        Some(at) => at,
        None => {
            cursor.timers.push((timer, now));
            cursor.timers.len() - 1
        }
    };
    let last = &mut cursor.timers[at].1;
    let target = *last + period;
    if target > now {
        *last = target;
        return Some(target);
    }
    *last = if absolute { target } else { now };
    None
}
